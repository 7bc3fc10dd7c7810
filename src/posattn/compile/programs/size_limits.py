"""How large library programs are, without building them, and which are too large to build."""

import os

from posattn.errors import counted, require

#: Nodes × rounds up to which a library program's tables are written out: 4 million take some seconds and 0.5 GiB.
MOST_ENTRIES = 2**22
#: Bytes per head and pair of nodes while a layer attends, in float64: scores and weights. Measured.
BYTES_PER_PAIR = 16
#: Heads, where there is more than one.
HEADS = {"argsort": 3, "cummedian": 2, "fetch": 3, "gather": 3}


def library_size(name: str, length: int, route: str = "sort") -> tuple[int, int]:
    """Nodes and rounds of a library program, without building it. `route`: of `fetch` and `permute`."""
    steps = (length - 1).bit_length()  # ⌈log₂ length⌉
    sorting = steps * (steps + 1) // 2
    twice = (steps + 1) * (steps + 2) // 2  # to sort twice as many
    rounds = {
        "sort": sorting,
        "argsort": sorting + 1,
        "cummedian": sorting + 2,
        "kth": sorting + 1,
        "gather": 2 * twice + steps + 2,
        "reduce": steps + 1,
        "broadcast": 1,
        "max-subarray": max(steps, 1),
        "permute": 1 if route == "direct" else max(2 * steps - 1, 0),
        "fetch": 6 + 2 * steps if route == "grid" else 12 + 6 * steps + 2 * steps**2,
    }.get(name, steps)
    nodes = {
        "cummedian": length * (length + 3) // 2,
        "gather": 2 * length,
        "fetch": length * (length + 1) if route == "grid" else 3 * length,
    }.get(name, length)
    return nodes, rounds


def check_library_size(name: str, length: int, route: str = "sort") -> None:
    """Refuse a program whose tables would take minutes and fill the memory, before any work is done."""
    nodes, rounds = library_size(name, length, route)
    require(
        nodes * max(rounds, 1) <= MOST_ENTRIES,
        f"length={length}: '{name}' of that length has {nodes:,} nodes and {counted(rounds, 'round')}, and tables are "
        f"written out up to {MOST_ENTRIES:,} for nodes × rounds. Choose a shorter length.",
    )


def check_memory(name: str, length: int, route: str = "sort") -> None:
    """Refuse a library program whose model attends over more pairs of nodes than this machine's memory holds.

    Its weights are small: positions take few columns at any number of nodes.
    """
    check_library_size(name, length, route)
    nodes, _ = library_size(name, length, route)
    needed, held = BYTES_PER_PAIR * HEADS.get(name, 1) * nodes**2, _physical_memory()
    require(
        held is None or needed <= held,
        f"length={length}: the model of '{name}' has {nodes:,} nodes, and attention among them takes about "
        f"{needed / 2**30:,.0f} GiB; this machine has {(held or 0) / 2**30:,.0f}. Choose a shorter length.",
    )


def _physical_memory() -> int | None:
    """Bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
