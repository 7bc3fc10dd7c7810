"""Every library program proved, at many lengths, and how tight the bounds on rounding are.

    python benchmarks/proofs.py table             all steps at lengths 1–17, 32, 64, 256 (cummedian to 32), as CSV
    python benchmarks/proofs.py table 8 16        the same at these lengths
    python benchmarks/proofs.py bounds 8 16 64    the proved bound beside the largest error that hill climbing finds
                                                  from 1,000 starts, for cumsum, sort and max-subarray

Times depend on the machine; outcomes and bounds do not.
"""

import resource
import sys
import time

import numpy as np

from posattn.compile import compile, library
from posattn.compile.proof.largest_error import largest_error

LENGTHS = [*range(1, 18), 32, 64, 256]
#: Options under which a program is another one.
FORMS: list[tuple[str, dict]] = [
    *((name, {}) for name in library.OURS),
    ("reduce", {"operation": "min"}),
    ("reduce", {"operation": "max"}),
    ("permute", {"route": "direct"}),
    ("fetch", {"route": "grid"}),
]
#: The longest length, for programs whose number of nodes grows with its square.
LONGEST = {"cummedian": 32, "fetch-grid": 64}
BOUNDED = ("cumsum", "sort", "max-subarray")


def table(lengths: list[int]) -> bool:
    """One row per program and length; whether all steps stand."""
    print("program,options,length,1,2,3,4,bound,found,seconds,peak_gb", flush=True)
    all_stand = True
    for name, options in sorted(FORMS, key=str):
        for length in lengths:
            key = f"{name}-{options['route']}" if options.get("route") == "grid" else name
            if length > LONGEST.get(key, length):
                continue
            start = time.perf_counter()
            proof = compile(library.get(name, length, **options)).prove()
            seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            all_stand &= proof.holds and proof.specified
            said = [str(step.outcome) for step in proof.steps]
            shown = " ".join(f"{k}={v}" for k, v in options.items())
            row = [name, shown, length, *said, proof.bound, proof.found, f"{seconds:.2f}", f"{peak:.2f}"]
            print(*row, sep=",", flush=True)
    return all_stand


def bounds(lengths: list[int], starts: int = 1000) -> None:
    """The proved bound and the largest error found, in absolute numbers for inputs in ±1000."""
    print("program,length,bound,found,ratio", flush=True)
    for name in BOUNDED:
        for length in lengths:
            made = compile(library.get(name, length))
            proof = made.prove()
            assert proof.bound is not None
            found = max(largest_error(made.program, made.model, made.domain, starts=starts, seed=s) for s in range(2))
            ratio = proof.bound / found if found else np.nan
            print(name, length, proof.bound, found, f"{ratio:.1f}", sep=",", flush=True)


if __name__ == "__main__":
    verb, *given = sys.argv[1:] or ["table"]
    chosen = [int(length) for length in given] or LENGTHS
    if verb == "bounds":
        bounds(chosen)
    elif not table(chosen):
        sys.exit("a step does not stand")
