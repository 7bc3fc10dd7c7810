"""k-hop induction against a search in a Python string."""

import math
import string

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError

KHOP, KHOP_16 = tasks.get("khop"), tasks.get("khop-16")
both = pytest.mark.parametrize("task", [KHOP, KHOP_16], ids=["khop", "khop-16"])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def hopped(text: str, k: int) -> str:
    """Every position's k-hop letter; "~" where a hop finds nothing."""

    def from_index(j: int) -> str:
        for _ in range(k):
            found = text.rfind(text[j], 0, j)
            if found < 0:
                return "~"
            j = found + 1
        return text[j]

    return "".join(from_index(j) for j in range(len(text)))


def tokens_of(text: str, k: int, task: tasks.KHopTask) -> Tensor:
    return torch.tensor([[task.first_hop_token + k, *(string.ascii_lowercase.index(letter) for letter in text)]])


def text_of(row: list[int], task: tasks.KHopTask) -> str:
    return "".join("~" if token == task.missing else string.ascii_lowercase[token] for token in row)


def assert_equally_likely(found: Tensor, cells: int) -> None:
    """χ² with k degrees of freedom exceeds k + 2√(9k) + 18 with probability below e⁻⁹ (Laurent and Massart)."""
    counts = torch.bincount(found.flatten(), minlength=cells).double()
    assert len(counts) == cells
    expected = counts.sum() / cells
    assert ((counts - expected) ** 2 / expected).sum() < cells - 1 + 2 * math.sqrt(9 * (cells - 1)) + 18


def test_string_oracle_follows_a_hand_worked_example() -> None:
    # abacab, one hop: the a at 2 was last at 0, followed by b; the a at 4 at 2, then c; the b at 5 at 1, then a.
    assert hopped("abacab", 0) == "abacab"
    assert hopped("abacab", 1) == "~~b~ca"
    assert hopped("abacab", 2) == "~~~~~b"


@both
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_target_equals_searching_the_string_k_times(task: tasks.KHopTask, data: st.DataObject) -> None:
    letters = string.ascii_lowercase[: data.draw(st.integers(1, task.first_hop_token))]
    text = data.draw(st.text(letters, min_size=1, max_size=41))
    k = data.draw(st.integers(0, task.max_hops))
    y = task.target(tasks.KHopInputs(tokens_of(text, k, task)))
    assert y[0, 0] == task.blank
    assert text_of(y[0, 1:].tolist(), task) == hopped(text, k)


@pytest.mark.parametrize(("name", "held_out"), [("khop", False), ("khop", True), ("khop-16", False)])
def test_sampled_targets_equal_searching_the_string(name: str, held_out: bool) -> None:
    task = tasks.get(name)
    inputs, y = task.sample(61, held_out=held_out, generator=seeded())
    assert torch.equal(y, task.target(inputs))
    for row, found in zip(inputs.tokens.tolist(), y.tolist(), strict=True):
        assert found[0] == task.blank
        assert text_of(found[1:], task) == hopped(text_of(row[1:], task), row[0] - task.first_hop_token)


def test_vocabularies_and_lengths_are_those_of_the_papers() -> None:
    # 10 letters, 4 hop counts, "does not exist", blank; 98 characters after the hop count.
    assert (KHOP.vocabulary, KHOP.nodes) == (16, 99)
    # 4 letters, 17 hop counts, the same two; the authors' code cuts strings of 100 letters to 98.
    assert (KHOP_16.vocabulary, KHOP_16.nodes) == (23, 99)
    for task in (KHOP, KHOP_16):
        inputs, y = task.sample(7, generator=seeded())
        assert inputs.tokens.shape == y.shape == (7, task.nodes)
        assert int(inputs.tokens.max()) < task.missing < task.blank == task.vocabulary - 1


@pytest.mark.parametrize(("held_out", "letters"), [(False, {0, 1, 2, 3, 4}), (True, {5, 6, 7, 8, 9})])
def test_held_out_text_shares_no_letter_with_training(held_out: bool, letters: set[int]) -> None:
    inputs, y = KHOP.sample(53, held_out=held_out, generator=seeded())
    assert set(inputs.tokens[:, 1:].flatten().tolist()) == letters
    assert set(y[:, 1:].flatten().tolist()) <= letters | {KHOP.missing}


@both
def test_letters_are_uniform_among_those_that_differ_from_the_one_before(task: tasks.KHopTask) -> None:
    text = task.sample(499, generator=seeded())[0].tokens[:, 1:]
    step = (text[:, 1:] - text[:, :-1]) % task.letters
    assert step.min() >= 1
    assert_equally_likely(step - 1, task.letters - 1)
    assert_equally_likely(text[:, 0], task.letters)


@both
def test_k_is_uniform_from_zero_to_max_hops(task: tasks.KHopTask) -> None:
    hops = task.sample(3001, generator=seeded())[0].tokens[:, 0] - task.first_hop_token
    assert_equally_likely(hops, task.max_hops + 1)


@both
def test_hops_fixes_k_and_leaves_the_text_alone(task: tasks.KHopTask) -> None:
    free = task.sample(11, generator=seeded())[0].tokens
    fixed = task.sample(11, hops=2, generator=seeded())[0].tokens
    assert torch.equal(fixed[:, 1:], free[:, 1:])
    assert set(fixed[:, 0].tolist()) == {task.first_hop_token + 2}


def test_options_change_letters_hops_and_length() -> None:
    task = tasks.get("khop", letters=3, held_out_letters=2, max_hops=1, characters=7)
    inputs, y = task.sample(101, generator=seeded())
    assert (task.vocabulary, task.nodes) == (3 + 2 + 2 + 2, 8)
    assert set(inputs.tokens[:, 1:].flatten().tolist()) == {0, 1, 2}
    assert set(inputs.tokens[:, 0].tolist()) == {5, 6}
    assert set(y[:, 0].tolist()) == {8}


@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)])
def test_loss_is_cross_entropy_and_metric_leaves_position_0_out(replicas: tuple[int, ...]) -> None:
    prediction = torch.randn(*replicas, 7, 5, 11, generator=seeded(), dtype=torch.float64)
    target = torch.randint(0, 11, (*replicas, 7, 5), generator=seeded(1))
    target[..., :2] = prediction.argmax(-1)[..., :2]  # some right answers, and one of them at position 0
    logits, right = prediction.numpy(), target.numpy()
    probability = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = np.take_along_axis(probability, right[..., None], axis=-1)[..., 0]
    loss, metric = KHOP.loss(prediction, target), KHOP.metric(prediction, target)
    assert loss.shape == metric.shape == replicas
    # Logarithms of at most about 10 in size, off by a few dozen roundings after 11 exponentials and 35 additions.
    np.testing.assert_allclose(loss.numpy(), -np.log(chosen).mean(axis=(-2, -1)), atol=10 * 100 * 2.0**-53)
    found = (logits.argmax(-1) == right)[..., 1:].mean(axis=(-2, -1))
    np.testing.assert_allclose(metric.numpy(), found, rtol=2.0**-52)
    assert 0.25 <= found.min() <= found.max() < 1


@pytest.mark.parametrize("replicas", [(), (3,)])
def test_sixteen_hops_are_scored_where_the_answer_exists(replicas: tuple[int, ...]) -> None:
    prediction = torch.randn(*replicas, 7, 5, 23, generator=seeded(), dtype=torch.float64)
    target = torch.randint(0, 4, (*replicas, 7, 5), generator=seeded(1))
    target[..., :3, 1:] = prediction.argmax(-1)[..., :3, 1:].clamp(max=3)  # some right answers
    target[..., 3:, 1:3] = KHOP_16.missing
    prediction[..., 6, 1:3, KHOP_16.missing] = 9  # right, but not scored
    target[..., 0] = KHOP_16.blank
    guess, truth = prediction.argmax(-1).reshape(-1, 7, 5).tolist(), target.reshape(-1, 7, 5).tolist()
    wanted = []
    for replica in range(len(truth)):
        letters = [(i, j) for i in range(7) for j in range(1, 5) if truth[replica][i][j] < 4]
        wanted.append(sum(guess[replica][i][j] == truth[replica][i][j] for i, j in letters) / len(letters))
    assert KHOP_16.metric(prediction, target).reshape(-1).tolist() == pytest.approx(wanted, rel=2.0**-52)
    assert 0 < min(wanted) <= max(wanted) < 1
    assert (KHOP.metric(prediction, target) != KHOP_16.metric(prediction, target)).any()
    target[..., 1:] = KHOP_16.missing
    assert KHOP_16.metric(prediction, target).eq(0).all()  # nothing is scored


@pytest.mark.parametrize("hops", [1, 2, 4, 8, 16])
def test_of_a_usual_sequence_over_four_letters_all_but_3k_plus_1_answers_exist(hops: int) -> None:
    """Hops are one to one. The first hop misses the four first occurrences, and each later hop leads to three more of
    them: what follows a letter's last occurrence is out of reach, and so is the very first letter. (4 of
    20,000 sequences with 16 hops have fewer.)"""
    _, answers = KHOP_16.sample(53, hops=hops, generator=seeded())
    assert set((answers == KHOP_16.missing).sum(1).tolist()) == {3 * hops + 1}


@pytest.mark.parametrize(
    ("task", "asked", "said"),
    [
        (KHOP, {"hops": 4}, ["hops=4", "'khop' has 0 … 3 hops"]),
        (KHOP, {"hops": -1}, ["hops=-1", "0 … 3 hops"]),
        (KHOP_16, {"held_out": True}, ["'khop-16' has 0 held-out letters", "needs two"]),
        (tasks.get("khop", letters=1), {}, ["'khop' has 1 letters", "neighbours must differ"]),
    ],
)
def test_sample_that_cannot_be_drawn_is_refused(task: tasks.KHopTask, asked: dict, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        task.sample(3, **asked, generator=seeded())
    for words in said:
        assert words in str(refused.value)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([10, 0, 1], ["shape (3,)", "need (batch, ≥ 2)"]),
        ([[10]], ["shape (1, 1)", "need (batch, ≥ 2)"]),
        ([[0, 0, 1]], ["token 0 must be a hop count (10 … 13)"]),
        ([[14, 0, 1]], ["token 0 must be a hop count (10 … 13)"]),
        ([[10, 0, 10]], ["the others letters (0 … 9)"]),
        ([[10, 0, -1]], ["the others letters (0 … 9)"]),
    ],
)
def test_tokens_that_are_no_question_are_refused(tokens: list, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        KHOP.target(tasks.KHopInputs(torch.tensor(tokens)))
    for words in said:
        assert words in str(refused.value)


@pytest.mark.parametrize("option", [{"characters": 0}, {"max_hops": -1}, {"letters": -1}, {"held_out_letters": -2}])
def test_option_out_of_range_is_refused_when_the_task_is_made(option: dict) -> None:
    [(name, value)] = option.items()
    with pytest.raises(PosattnError, match=rf"\b{name}={value}\b.*at least 1 character, and nothing below 0"):
        tasks.get("khop", **option)
