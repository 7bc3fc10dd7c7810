"""Jobs: what comes back, and how they end."""

import pytest

from posattn.lab.shown import Shown
from posattn.lab.work import Explanation, Jobs, Progress

pytestmark = pytest.mark.xdist_group("lab")
SLOW = ["program: cummedian", " ".join(map(str, range(64))), True]


def last(jobs: Jobs, name: str, *inputs: object) -> object:
    *_, found = jobs.run("me", name, inputs)
    return found


def test_a_job_gives_its_pages_or_its_explanation() -> None:
    jobs = Jobs(budget=60)
    found = last(jobs, "execute", "program: sort", "3 1 2")
    assert isinstance(found, Shown)
    assert [page.title for page in found.pages] == ["sort on 3 numbers", "the trace, round by round"]
    wrong = last(jobs, "execute", "program: sort", "3 x")
    assert isinstance(wrong, Explanation)
    assert "'x' is not a number" in wrong.text


def test_a_job_beyond_its_budget_is_ended() -> None:
    found = last(Jobs(budget=0.5), "execute", *SLOW)
    assert isinstance(found, Explanation)
    assert found.text.startswith("This took longer than 0.5 s")


def test_a_job_can_be_cancelled_and_others_go_on() -> None:
    jobs = Jobs(budget=60)
    one, other = jobs.run("me", "execute", SLOW), jobs.run("you", "execute", ["program: sort", "3 1 2"])
    assert isinstance(next(one), Progress)
    next(other)
    jobs.cancel("me")
    *_, found = one
    assert isinstance(found, Explanation)
    assert found.text.startswith("Cancelled after")
    *_, found = other
    assert isinstance(found, Shown)


def test_a_job_that_fails_says_so_and_hides_how(capfd: pytest.CaptureFixture[str]) -> None:
    found = last(Jobs(budget=60), "nosuch")
    assert isinstance(found, Explanation)
    assert "ended by itself" in found.text
    assert "KeyError" not in found.text
