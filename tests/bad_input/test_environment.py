"""Odd environments, each in a process of its own: no traceback, the right code, nothing lost."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

import posattn

COMMAND = shlex.join([sys.executable, "-m", "posattn"])
SOURCE = Path(posattn.__file__).parents[1]
#: Imports of transformers fail in a process that finds this as its sitecustomize.
WITHOUT_EXTRA = """
import sys
sys.modules["transformers"] = None
"""


class Odd(NamedTuple):
    """A shell's line around the command, what its environment has otherwise, and how it must end."""

    line: str
    code: int
    said: str = ""  # on stderr
    without: str | None = None  # a variable that is not set
    env: Mapping[str, str] = MappingProxyType({})
    extra: bool = True  # whether transformers can be imported


COMPILE = "compile sort --length 4"
TRAIN = "train sum --steps 1 --samples 4 --batch 2 --length 4 --device cpu"

ODD = {
    "ascii output": Odd("{posattn} tasks", 0, env={"PYTHONIOENCODING": "ascii"}),
    "cp1252 output in a C locale": Odd("{posattn} studies", 0, env={"PYTHONIOENCODING": "cp1252", "LC_ALL": "C"}),
    "twenty columns": Odd("{posattn} bounds good.safetensors", 0, env={"COLUMNS": "20", "TERM": "dumb"}),
    "a full device": Odd("{posattn} tasks > /dev/full", 2, "No space left"),
    "a closed output": Odd("{posattn} tasks >&-", 0),
    "a reader that has gone": Odd("{posattn} tasks | true; exit ${PIPESTATUS[0]}", 141),
    "a mistake, and a full device for errors": Odd("{posattn} train nosuch 2> /dev/full", 2),
    "a wrong option, and a full device for errors": Odd("{posattn} train --nosuch 2> /dev/full", 2),
    "a mistake, and no output for errors": Odd("{posattn} train nosuch 2>&-", 2),
    "no HOME, and threads that are no number": Odd(
        "{posattn} runs --out studied", 0, without="HOME", env={"OMP_NUM_THREADS": "many"}
    ),
    "a folder that cannot be written": Odd(f"{{posattn}} {COMPILE} --out /proc/made", 2, "/proc/made"),
    "a store that cannot be written": Odd(f"{{posattn}} {TRAIN} --out /proc/store", 2, "/proc/store"),
    "a disk that is full": Odd(f"ulimit -f 0; {{posattn}} {COMPILE} --out made", 2, "cannot write 'made'"),
    "a missing extra": Odd(
        "{posattn} run mixed-type --preset smoke --task mixed-min --model GPT-2 --option gpt2=folder --device cpu "
        "--out store",
        2,
        "pip install 'posattn[gpt2]'",
        extra=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_odd_environment_costs_nothing(name: str, here: Path) -> None:
    odd = ODD[name]
    (here / "bare").mkdir()
    (here / "bare" / "sitecustomize.py").write_text(WITHOUT_EXTRA)
    searched = [*([] if odd.extra else [str(here / "bare")]), str(SOURCE)]
    env = {**os.environ, **odd.env, "PYTHONPATH": os.pathsep.join(searched)}
    env.pop(odd.without or "", None)
    before = sorted(here.iterdir())
    line = odd.line.replace("{posattn}", COMMAND)
    ended = subprocess.run(["bash", "-c", line], env=env, cwd=here, capture_output=True, check=False, timeout=100)
    said = ended.stderr.decode(errors="replace")
    assert "Traceback" not in said
    assert ended.returncode == odd.code, said
    assert odd.said in said
    assert [path for path in sorted(here.iterdir()) if path not in before and path.name != "store"] == []
