"""What is behind `posattn train`: any task on a list of numbers, whoever has written it."""

import pytest
from torch import Tensor

from posattn import PosattnError, tasks
from posattn.tasks import NumericTask
from posattn.train.numeric_trials import numeric_task


def negated(x: Tensor) -> Tensor:
    return -x


def test_a_users_task_on_numbers_is_one_and_is_named_among_them(monkeypatch):
    monkeypatch.setitem(tasks.REGISTRY, "negate", NumericTask("negate", "", negated))
    assert numeric_task("negate").function is negated
    with pytest.raises(PosattnError, match=r"task 'khop' is not a list of numbers: .*min-sum, negate\."):
        numeric_task("khop")
