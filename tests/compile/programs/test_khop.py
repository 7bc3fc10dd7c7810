"""The k-hop program, interpreted and compiled, against the task's own targets and against a search through the text."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError, tasks
from posattn.compile import compile
from posattn.compile.error_bound import promise
from posattn.compile.interpreter import run
from posattn.compile.programs.khop import khop
from posattn.tasks import KHopInputs, KHopTask

KHOP: Any = tasks.get("khop")
LAST_COUNT = KHOP.missing - 1  # the largest token of an input


def small(*, letters: int = 3, characters: int = 5) -> KHopTask:
    return KHopTask(name="small", letters=letters, held_out_letters=0, max_hops=3, characters=characters)


def searched(text: str, hops: int) -> str:
    """The answers to a text, by str.rfind; ~ for missing."""

    def follow(node: int, hops: int) -> str:
        if hops == 0:
            return text[node]
        last = text.rfind(text[node], 0, node)
        return "~" if last < 0 else follow(last + 1, hops - 1)

    return "".join(follow(node, hops) for node in range(len(text)))


def tokens_of(text: str, hops: int) -> list[int]:
    return [KHOP.first_hop_token + hops, *("abcdefghij".index(letter) for letter in text)]


def answers_of(text: str, hops: int) -> list[int]:
    return [KHOP.blank, *(KHOP.missing if a == "~" else "abcdefghij".index(a) for a in searched(text, hops))]


@pytest.fixture(scope="module")
def model():
    return compile(khop(KHOP), domain=LAST_COUNT).harden()


def test_three_heads_follow_three_hops_in_thirteen_layers(model):
    sizes = model.model.architecture
    assert (sizes.nodes, sizes.layers, sizes.heads) == (99, 13, 3)
    assert (sizes.embed_dim, sizes.mlp_layers, sizes.hidden_dim) == (36, 4, 76)
    assert model.encoding == "parabolic"


def test_the_page_of_results_gives_the_sizes(model):
    page = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    section = page.split("### Without training: three hops in 13 layers")[1].split("\n##")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and line[2].isdigit()]
    for row in rows:
        heads, layers, per_hop, state, mlp, weights = (cell.strip(" *") for cell in row.strip("|").split("|"))
        made = model if heads == "3" else compile(khop(KHOP, heads=int(heads)), domain=LAST_COUNT)
        sizes = made.model.architecture
        assert (sizes.heads, sizes.depth, sizes.depth - 1) == (int(heads), int(layers), 3 * int(per_hop))
        assert (sizes.embed_dim, f"{sizes.mlp_layers - 1} × {sizes.hidden_dim}") == (int(state), mlp)
        assert sum(weight.numel() for weight in made.model.parameters()) == int(weights.replace(",", ""))
    assert len(rows) == 3


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("hops", range(4))
def test_the_compiled_model_gives_the_tasks_answers(model, hops, held_out):
    g = torch.Generator().manual_seed(hops)
    inputs, target = KHOP.sample(24, hops=hops, held_out=held_out, generator=g)
    assert torch.equal(model(inputs.tokens).long(), target)
    anything = inputs.tokens.clone()  # letters of both alphabets, neighbours alike too
    anything[:, 1:] = torch.randint(0, KHOP.first_hop_token, (24, 98), generator=g)
    assert torch.equal(model(anything).long(), KHOP.target(KHopInputs(anything)))


def adversarial() -> list[str]:
    rng = np.random.default_rng(0)
    far = ["".join(rng.choice(list("bcde"), 96)) for _ in range(4)]
    texts = [
        "a" * 98,  # every hop leads to the node itself
        "ab" * 49,
        "abcdefghij" + "b" * 88,  # nine letters never again
        "b" * 97 + "a",  # the last letter is new
        *(f"a{middle}a" for middle in far),  # the only match is as far away as can be
        *(f"{middle}aa" for middle in far),  # and as near
        *("ab" + "cdefghij"[: 8 - k] * 12 + "a" * k for k in range(5)),
    ]
    for shift in (1, 4, 16, 64):  # matches at, before and after the distances that heads read at
        for head, beside in itertools.product((1, 2, 3), (-1, 0, 1)):
            place = 97 - head * shift + beside
            if 0 <= place < 97:
                texts.append("".join("a" if p in (place, 97) else "bcde"[p % 4] for p in range(98)))
    return [text[:98] for text in texts if len(text) >= 98]


def test_the_compiled_model_is_right_where_a_scan_could_slip(model):
    asked = [(text, hops) for text in adversarial() for hops in range(4)]
    assert len(asked) > 4 * 35
    found = model(torch.tensor([tokens_of(*one) for one in asked])).long()
    assert found.tolist() == [answers_of(*one) for one in asked]


def test_the_search_finds_what_a_reader_finds():
    assert [searched("abacab", hops) for hops in range(4)] == ["abacab", "~~b~ca", "~~~~~b", "~~~~~~"]


@pytest.mark.parametrize("heads", [2, 3, 5])
def test_every_short_text_is_followed_exactly_by_the_compiled_model(heads):
    task = small()
    texts = torch.tensor(list(itertools.product(range(3), repeat=5)))
    tokens = torch.cat([torch.cat([torch.full((len(texts), 1), 3 + k), texts], dim=1) for k in range(4)])
    made = compile(khop(task, heads=heads), domain=task.missing - 1)
    assert torch.equal(made(tokens).long(), task.target(KHopInputs(tokens)))


@pytest.mark.parametrize(("name", "heads", "rounds"), [("khop", 4, 10), ("khop", 9, 7), ("khop-16", 9, 33)])
def test_more_heads_need_fewer_rounds(name, heads, rounds):
    task: Any = tasks.get(name)
    program = khop(task, heads=heads)
    assert len(program.rounds) == rounds
    inputs, target = task.sample(12, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(run(program, inputs.tokens.double().numpy()[:, :, None])[:, :, 0], target.numpy())


def test_nothing_rounds_and_no_whole_number_is_answered_otherwise_than_said():
    assert promise(khop(KHOP), float(LAST_COUNT), torch.float32).bound == 0
    found = compile(khop(small(), heads=2), domain=9).verify(samples=64)  # ±9: strange letters and counts among them
    assert found.certificate is not None
    assert found.certificate.holds
    assert (found.certificate.bound, found.certificate.error) == (0, 0)
    assert "NumPy" in found.certificate.against
    strange = torch.tensor([[99, 0, 7, 0, 7, 1], [-4, 0, -1, 0, 5, 1]]).clamp(-9, 9)
    missing, blank = small().missing, small().blank
    # three hops, from the second 0 to the 7, which is no letter; no hops at all
    assert found(strange).tolist() == [[blank, *[missing] * 5], [blank, 0, missing, 0, missing, 1]]


def test_shorter_texts_are_answered_too(model):
    tokens = torch.tensor(tokens_of("abacabc", 1))
    assert model(tokens).tolist() == answers_of("abacabc", 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 1}, "heads=1: in the first round nodes read their neighbour and node 0, .* Use 2 … 98"),
        ({"heads": 99}, "heads=99: .* Use 2 … 98"),
        ({"heads": 2.5}, "heads=2.5"),
        ({"task": "khop"}, "task .*'khop'.*: pass a k-hop task"),
        ({"task": small(letters=0)}, "task 'small' has no letters: it needs one"),
        ({"task": small(characters=10**6)}, "task 'small': 1,000,001 nodes receive .* Choose fewer characters"),
    ],
)
def test_what_cannot_be_followed_is_refused(options, said):
    with pytest.raises(PosattnError, match=said):
        khop(**({"task": KHOP} | options))
