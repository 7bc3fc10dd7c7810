"""One error class, whose messages name the value, the reason and the fix."""

import pytest

from posattn.errors import PosattnError, require, unknown


def test_posattn_error_is_a_value_error() -> None:
    # So that callers who know nothing of posattn can catch it.
    assert issubclass(PosattnError, ValueError)


def test_require_raises_its_message_exactly_when_the_condition_fails() -> None:
    require(True, "unseen")
    with pytest.raises(PosattnError) as refused:
        require(False, "low=3, high=2: the range must have low < high.")
    assert str(refused.value) == "low=3, high=2: the range must have low < high."


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("sotr", ["sum", "sort"], "unknown task 'sotr': did you mean 'sort'? Known: sum, sort."),
        ("Sum", ["sum", "sort"], "unknown task 'Sum': did you mean 'sum'? Known: sum, sort."),
        ("transpose", ["sum", "min"], "unknown task 'transpose': Known: sum, min."),
        (7, ["sum", "min"], "unknown task 7: Known: sum, min."),
        (None, ["sum"], "unknown task None: Known: sum."),
    ],
)
def test_unknown_lists_the_names_there_are_and_the_nearest_if_one_is_near(
    name: object, known: list[str], message: str
) -> None:
    error = unknown("task", name, known)
    assert isinstance(error, PosattnError)
    assert str(error) == message


def test_unknown_reads_any_iterable_once() -> None:
    assert (
        str(unknown("task", "sun", iter(["sum", "min"]))) == "unknown task 'sun': did you mean 'sum'? Known: sum, min."
    )
    assert str(unknown("task", "sun", {"sum": 1, "min": 2})).endswith("Known: sum, min.")
