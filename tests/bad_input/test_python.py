"""Every argument of every public function, class and method: one wrong value at a time, one `PosattnError`."""

from pathlib import Path

import pytest

from posattn import PosattnError

from .calls import CALLS
from .spoil import SECONDS, call, cases, tells, within
from .values import Bad, File
from .walk import public

PUBLIC = public()
CASES = [case for name, function in PUBLIC.items() if name in CALLS for case in cases(name, function, CALLS[name]())]


#: A call that costs seconds, or needs a network; other tests make it.
DEAR = (
    "report.write",
    "report.write_sweep",
    "studies.sweep.sweep",
    "nn.to_onnx",
    "compile.Compiled.to_onnx",
    "nn.GPT.push_to_hub",
)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name in CALLS and name not in DEAR])
def test_the_valid_call_works(name: str, here: Path) -> None:
    call(name, PUBLIC[name], CALLS[name]())


@pytest.mark.parametrize(("name", "parameter", "bad"), CASES, ids=[f"{n}-{p}-{b.label}" for n, p, b in CASES])
def test_a_wrong_value_is_one_error_that_names_it(name: str, parameter: str, bad: Bad, here: Path, shelf: Path) -> None:
    value = bad.value.below(shelf) if isinstance(bad.value, File) else bad.value
    with pytest.raises(PosattnError) as refused, within(SECONDS):
        call(name, PUBLIC[name], CALLS[name]() | {parameter: value})
    assert not tells(str(refused.value), bad), str(refused.value)
