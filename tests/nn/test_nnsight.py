"""nnsight with our models, in a process of its own: once imported, it takes over `Tensor.backward` for everybody."""

import subprocess
import sys
from pathlib import Path


def test_nnsight_reads_and_changes_what_passes_between_our_modules() -> None:
    cases = Path(__file__).with_name("nnsight_cases.py")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", cases],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("..... ")
