"""A thousand odd inputs through the lab's HTTP API; `tests/lab` tries fifty."""

from lab.fuzzing import complaints
from lab.odd_inputs import odd_calls


def test_1000_odd_inputs_get_an_explanation_each(address: str) -> None:
    assert complaints(address, list(odd_calls(1000, seed=1))) == []
