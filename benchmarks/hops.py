"""How many functions and files of posattn a reader passes to follow one call: the distinct ones that are entered.

    python benchmarks/hops.py                 both calls
    python benchmarks/hops.py run --list      one of them, with every function by file
    python benchmarks/hops.py --json          for programs

Two calls are followed: `model(x)` of a positional Transformer, and `posattn run ood-scale --preset smoke --task sum
--seeds 1` into an empty folder, its table and its report included. Threads count. What does not: bodies of modules and
classes and whatever runs while a module is imported, comprehensions, lambdas and generator expressions.

One model of that study is compiled instead of trained, and the compiler is a passage of its own: its functions are
counted, and told apart.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType

import torch

import posattn

HOUSE = f"{Path(posattn.__file__).parent}/"
COMMAND = ["run", "ood-scale", "--preset", "smoke", "--task", "sum", "--seeds", "1", "--device", "cpu"]

#: A function, as its file below src/posattn and its qualified name.
Hop = tuple[str, str]


def entered(work: Callable[[], object]) -> set[Hop]:
    """The functions of posattn that `work` enters, in whichever thread."""
    found: set[CodeType] = set()
    importing = threading.local()

    def note(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_name == "<module>":
            importing.depth = getattr(importing, "depth", 0) + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not getattr(importing, "depth", 0):
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ours = [code for code in found if code.co_filename.startswith(HOUSE) and code.co_filename.endswith(".py")]
    # The body of a class or a module is not optimised code, and <lambda>, <listcomp> and the like have no name.
    named = [code for code in ours if code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")]
    return {(code.co_filename.removeprefix(HOUSE), code.co_qualname) for code in named}


def model_call() -> set[Hop]:
    """What `model(x)` enters; making the model does not count."""
    model = posattn.PositionalTransformer(length=8)
    x = torch.zeros(2, 8, 1)
    return entered(lambda: model(x))


def study_run() -> set[Hop]:
    """What the command enters, in an empty store."""
    from posattn.cli import main

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["posattn", *COMMAND, "--out", folder]

        def work() -> None:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                main()

        return entered(work)


CALLS: dict[str, Callable[[], set[Hop]]] = {"model": model_call, "run": study_run}


def counts(hops: set[Hop]) -> dict[str, int]:
    """How many functions and files, and how many of them outside the compiler."""
    others = {hop for hop in hops if not hop[0].startswith("compile/")}
    return {
        "functions": len(hops),
        "files": len({file for file, _ in hops}),
        "functions_outside_compile": len(others),
        "files_outside_compile": len({file for file, _ in others}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", nargs="*", choices=[*CALLS, []], help="which call to follow; default: both")
    parser.add_argument("--list", action="store_true", help="print every function")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args()
    found = {name: CALLS[name]() for name in asked.call or CALLS}
    if asked.json:
        print(json.dumps({name: counts(hops) for name, hops in found.items()}))
        return
    for name, hops in found.items():
        number = counts(hops)
        print(f"{name}: {number['functions']} functions in {number['files']} files", end="")
        print(f" ({number['functions_outside_compile']} in {number['files_outside_compile']} outside compile/)")
        parts = Counter(file.partition("/")[0] for file, _ in hops)
        print("  " + ", ".join(f"{part} {count}" for part, count in parts.most_common()))
        if asked.list:
            for file in sorted({file for file, _ in hops}):
                names = sorted(where for at, where in hops if at == file)
                print(f"  {file} ({len(names)}): {', '.join(names)}")


if __name__ == "__main__":
    main()
