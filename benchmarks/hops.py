"""How many functions and files of posattn a reader passes to follow one call: distinct ones that were entered.

    python benchmarks/hops.py            both figures
    python benchmarks/hops.py --list     and every function, by file
    python benchmarks/hops.py --json     for programs

Two calls are followed: `model(x)` of a positional Transformer, and `posattn run ood-scale --preset smoke --task sum
--seeds 1` into an empty folder. Bodies of modules and classes, comprehensions, lambdas and generator expressions do not
count: they are read where they stand. Threads count, and so does what typer, rich and matplotlib call of ours.
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
from pathlib import Path
from types import CodeType, FrameType

import torch

import posattn

HOUSE = str(Path(posattn.__file__).parent)
#: A positional Transformer, and the command of the study.
CALLS = ("model", "run")
COMMAND = ["run", "ood-scale", "--preset", "smoke", "--task", "sum", "--seeds", "1", "--device", "cpu"]


def entered(work: Callable[[], object]) -> set[tuple[str, str]]:
    """The functions of posattn that `work` enters, in whichever thread: file and qualified name.

    What a module calls while it is imported does not count: it is not on the way of the data.
    """
    found: set[CodeType] = set()
    importing = threading.local()

    def note(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_name == "<module>":
            step = {"call": 1, "return": -1}.get(event, 0)
            importing.depth = getattr(importing, "depth", 0) + step
        elif event == "call" and not getattr(importing, "depth", 0):
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {(_file(code), code.co_qualname) for code in found if _counts(code)}


def _file(code: CodeType) -> str:
    return code.co_filename.removeprefix(HOUSE).lstrip("/")


def _counts(code: CodeType) -> bool:
    """Whether this is a function of ours with a name. The body of a class or a module is not optimised code."""
    is_function = bool(code.co_flags & 0x1)  # inspect.CO_OPTIMIZED
    return code.co_filename.startswith(HOUSE + "/") and is_function and not code.co_name.startswith("<")


def model_call() -> set[tuple[str, str]]:
    """What `model(x)` enters; making the model does not count."""
    model = posattn.PositionalTransformer(length=8)
    x = torch.zeros(2, 8, 1)
    return entered(lambda: model(x))


def study_run() -> set[tuple[str, str]]:
    """What the command enters, its report and its table included, in an empty store."""
    from posattn.cli import main

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["posattn", *COMMAND, "--out", folder]

        def work() -> None:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                main()

        return entered(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", nargs="*", choices=[*CALLS, []], help="which call to follow; default: both")
    parser.add_argument("--list", action="store_true", help="print every function")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args()
    found = {name: {"model": model_call, "run": study_run}[name]() for name in asked.call or CALLS}
    if asked.json:
        counts = {
            name: {"functions": len(hops), "files": len({file for file, _ in hops})} for name, hops in found.items()
        }
        print(json.dumps(counts))
        return
    for name, hops in found.items():
        files = Counter(file for file, _ in hops)
        parts = Counter(file.split("/")[0] for file, _ in hops)
        print(f"{name}: {len(hops)} functions in {len(files)} files")
        print("  " + ", ".join(f"{part} {count}" for part, count in parts.most_common()))
        if asked.list:
            for file, count in sorted(files.items()):
                print(f"  {file} ({count}): {', '.join(sorted(where for at, where in hops if at == file))}")


if __name__ == "__main__":
    main()
