"""Every tab's function, without a page: right inputs, and mistakes that are explained."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from posattn import nn
from posattn.compile import library, load
from posattn.errors import PosattnError
from posattn.lab import write
from posattn.lab.attention import attention, uploaded
from posattn.lab.drawing import Panel, drawn
from posattn.lab.execute import domain_of, execute
from posattn.lab.generalise import Contestant, contestants, generalise
from posattn.lab.select import select
from posattn.lab.tabs import FUNCTIONS, catalogue
from posattn.theory.longer_selection import fixed_loss
from posattn.theory.selection import loss, trajectory

from .pages import cells, silent, text_of

ZOO = Path(nn.__file__).parents[1] / "zoo" / "weights"


# ---- Execute


@pytest.mark.parametrize("model", ["program: sort", "trained: sort, looped"])
def test_execute_answers_and_shows_the_error(model: str) -> None:
    answers, trace = execute(model, "3 1 2 -7", note=silent).pages
    assert [float(cell) for cell in cells(answers, "answer")] == [-7, 1, 2, 3]
    assert [float(cell) for cell in cells(answers, "exact")] == [-7, 1, 2, 3]
    assert max(float(cell) for cell in cells(answers, "error")) < 1e-6
    assert "const data = " in trace.html


def test_execute_proves_a_program_line_by_line() -> None:
    *_, proof = execute("program: sort", "3 1 2", True, note=silent).pages
    assert len(re.findall(r"<li>stands: ", proof.html)) == 4
    assert "Proved: the model computes its specification" in text_of(proof)


def test_execute_proves_what_a_looped_model_has_learned() -> None:
    *_, proof = execute("trained: min, looped", "3 1 2", True, note=silent).pages
    assert re.search(r"has learned the program 'learned-min'.* off by at most \S+e-1\d · max|x|", text_of(proof))


@pytest.mark.parametrize(
    ("model", "numbers", "said"),
    [
        ("program: nosuch", "1", "unknown model"),
        (None, "1", "unknown model"),
        ("program: gather", "1 2", "takes x:from for every node"),
        ("trained: sort, standard", " ".join("123456789"), "'sort, standard' takes at most 8. Type fewer"),
        ("program: sort", "3 x", "'x' is not a number. Give numbers, as 3 1 2"),
        ("trained: sort, standard", "1:2", "one number per node"),
        ("trained: sort, positional", "1e300", "not finite|finite"),
        ("program: sort", "1e300 1", r"1e\+300 is too large for a compiled program: type numbers in ±1e\+30"),
    ],
)
def test_execute_explains_mistakes(model: str, numbers: str, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        execute(model, numbers, note=silent)


def test_models_are_compiled_for_a_thousand_or_for_what_was_typed() -> None:
    assert [domain_of(np.array([[x]])) for x in (0.0, -1000.0, 1001.0, -123456.0)] == [1000, 1000, 10_000, 1_000_000]


# ---- Generalise


def test_contestants_answer_the_task_and_say_how_many_numbers_they_take() -> None:
    models = {model.kind: model for model in contestants("sort")}
    assert {kind: model.longest for kind, model in models.items()} == {
        "standard": 8, "positional": 8, "homogeneous": 8, "looped": 4096, "compiled": 512,
    }  # fmt: skip
    x = torch.rand(3, 8, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for model in models.values():
        assert (model.answer(x) - x.sort(1).values).square().mean() < 0.01


def test_generalise_shows_losses_and_one_example_at_the_scale_and_length_asked_for() -> None:
    (page,) = generalise("min", 10, 9, 0, note=silent).pages
    assert cells(page, "standard") == ["takes at most 8 numbers"]
    assert float(cells(page, "looped")[0]) < 1e-20
    example = {row: [float(cell) for cell in re.findall(r"<td>(.*?)</td>", found)] for row, found in
               re.findall(r'<th scope="row">(input|truth)</th>(.*?)</tr>', page.html)}  # fmt: skip
    assert example["truth"] == np.minimum.accumulate(example["input"]).tolist()
    assert 2 < max(map(abs, example["input"])) <= 20


@pytest.mark.parametrize("off", [math.inf, math.nan, 1e15])
def test_generalise_says_who_diverged_and_does_not_draw_it(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    wrong = Contestant(kind="wild", answer=lambda x: x + (off if x.abs().max() > 4 else 0.5), longest=8)
    right = Contestant(kind="tame", answer=lambda x: x + 0.5, longest=8)
    monkeypatch.setattr("posattn.lab.generalise.contestants", lambda task: [wrong, right])
    panels: list[Panel] = []
    monkeypatch.setattr("posattn.lab.generalise.drawn", lambda said, *some: panels.extend(some) or drawn(said, *some))
    (page,) = generalise("min", 10, 8, 0, note=silent).pages
    assert cells(page, "wild")[0] == "diverged"
    assert "Diverged, and not drawn there: wild at c=10, length 8" in text_of(page)
    scales, _ = panels
    assert [x for x, _ in scales.curves["tame"]] == [1, 2, 3, 5, 10]
    assert [x for x, _ in scales.curves["wild"]] == [1, 2]


@pytest.mark.parametrize(
    "wrong", [("nosuch", 1, 1), ("min", 0, 1), ("min", 1001, 1), ("min", 1, 4097), ("min", 1, 1.5), ("min", None, 1)]
)
def test_generalise_explains_mistakes(wrong: tuple[object, ...]) -> None:
    with pytest.raises(PosattnError, match=r"task|scale|length"):
        generalise(*wrong, note=silent)  # type: ignore[arg-type]


# ---- Attention


@pytest.mark.parametrize("model", ["program: sort", "trained: min, standard", "trained: sort, looped"])
def test_attention_shows_maps_and_a_graph(model: str) -> None:
    (page,) = attention(model, "3 1 2 4", note=silent).pages
    assert page.title.startswith("Attention of ")
    assert "const data = " in page.html


def test_attention_of_an_uploaded_file_names_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes((ZOO / "min-looped.safetensors").read_bytes())
    (maps,) = uploaded(str(tmp_path), {"path": str(file)}, "3 1 2", note=silent).pages
    assert "Attention of mine.safetensors" in text_of(maps)


def test_a_file_that_is_no_model_or_needs_somebodys_code_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(b"no tensors")
    with pytest.raises(PosattnError, match=r"^'mine.safetensors' is damaged or is not a safetensors file"):
        uploaded(str(tmp_path), {"path": str(file)}, "3 1 2", note=silent)
    nn.SelectorTransformer(length=6, dim=2, encoding_dim=8).save(file)
    with pytest.raises(PosattnError, match="holds a selector model: the lab shows models that take one list"):
        uploaded(str(tmp_path), {"path": str(file)}, "3 1 2", note=silent)
    with pytest.raises(PosattnError, match="no command imports that"):
        uploaded(str(tmp_path), {"path": str(_of_somebody(file))}, "3 1 2", note=silent)


def _of_somebody(file: Path) -> Path:
    """A file that asks for a function to be imported and called."""
    from posattn.nn.weights import write_weights

    write_weights(file, nn.AnyModule(factory="os:getcwd"), {"weight": torch.zeros(1)})
    return file


# ---- Select


def test_with_all_tokens_selected_a_loss_of_a_tenth_is_passed_at_72_of_64() -> None:
    """Attention is uniform then, so among L tokens the loss is 1 − 64/L of that of answering 0."""
    (page,) = select(64, 64, 5, 1.0, 1000, note=silent).pages
    assert "At 72 tokens a fixed encoding fails; a stochastic one fails at 72." in text_of(page)


def test_one_of_something_is_called_so() -> None:
    (page,) = select(4, 1, 1, 1.0, 1, note=silent).pages
    assert "After 1 step the loss" in text_of(page)
    (page,) = write.compiled("program a\nlength 1\nround\n  x = x + x", 10, note=silent).pages
    assert "a: 1 node, 1 layer" in text_of(page)


def test_select_names_the_first_lengths_that_fail() -> None:
    (page,) = select(50, 3, 5, 1.0, 20_000, note=silent).pages
    found = re.search(
        r"At ([\d,]+) tokens a fixed encoding fails; a stochastic one (fails at ([\d,]+)|holds)", text_of(page)
    )
    assert found
    run = trajectory(T=50, q=3, d=5, eta=1.0, steps=20_000)
    v, g, limit = float(run.v[-1]), float(run.g[-1]), 0.1 * 0.5 * 5 / 3
    first = int(found[1].replace(",", ""))
    assert fixed_loss(v, g, T=first, q=3, d=5, trained=50) > limit
    assert fixed_loss(v, g, T=first - 1, q=3, d=5, trained=50) <= limit
    assert float(loss(v, g, T=first, q=3, d=5)) <= limit


@pytest.mark.parametrize(
    "wrong",
    [
        (1, 1, 1, 1.0, 1),
        (5, 6, 1, 1.0, 1),
        (5, 1, 0, 1.0, 1),
        (5, 1, 1, 0.0, 1),
        (5, 1, 1, 1.0, 10**6),
        (5, 1, 9, 99.0, 999),
    ],
)
def test_select_explains_mistakes(wrong: tuple[float, ...]) -> None:
    with pytest.raises(PosattnError, match=r"out of range|at most all|eta=99"):
        select(*wrong, note=silent)


# ---- Write


def test_write_compiles_watches_proves_and_saves_a_program(tmp_path: Path) -> None:
    text = write.library_text("cumsum")
    (made,) = write.compiled(text, 10, note=silent).pages
    assert "holds." in text_of(made)
    answers, _ = write.watched(text, 10, "1 2 3 4 5 6 7 8", note=silent).pages
    assert [float(cell) for cell in cells(answers, "answer")] == np.cumsum(range(1, 9)).tolist()
    (proof,) = write.proved(text, 10, note=silent).pages
    assert "Proved" in text_of(proof)
    saved = write.weights(str(tmp_path), text, 10, note=silent).file
    assert saved is not None
    assert load(saved)(torch.tensor([1.0, 2.0])).tolist() == [1.0, 3.0]


DOUBLE = "program double\nlength 2\nround\n  x = x + x"
SORT, MERGE = str(library.get("sort", 2)), str(library.get("merge", 4))
LAZY = SORT.replace("x = exchange(x, other, upper=upper0, lower=lower0)", "x = x")


@pytest.mark.parametrize(
    ("text", "numbers", "row", "said"),
    [
        (DOUBLE, "1 2", "own steps: 2 4", "no specification, so the answer is compared with the program's own steps."),
        (DOUBLE, "1 2", "own steps: 2 4", "The answer equals the program's own steps, to the last digit."),
        (SORT, "5 -3", "exact: -3 5", "what its specification, Sorted, asks for, to the last digit."),
        (LAZY, "5 -3", "exact: -3 5", "does not do what its specification says: its own steps are off by 8.00e+00."),
        (MERGE, "3 1 2 5", "own steps: 1 3 2 5", "Merged, does not speak of these numbers"),
        (MERGE, "1 3 2 5", "exact: 1 2 3 5", "what its specification, Merged, asks for"),
    ],
)
def test_an_answer_says_what_it_is_compared_with(text: str, numbers: str, row: str, said: str) -> None:
    page, _ = write.watched(text, 100, numbers, note=silent).pages
    assert said in " ".join(text_of(page).split())
    name, _, values = row.partition(": ")
    assert cells(page, name) == values.split()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("program a", "needs a line 'length"),
        ("program a\nlength 2\nround\n  x = y", "a register or a slot"),
        ("program a\nlength 300\nround\n  x = x + x", "300 nodes: the lab takes at most 256"),
        ("program a\nlength 2\n" + "round\n  x = x\n" * 257, "257 rounds"),
        ('program a\nlength 2\nrecipe {"name": "sort"}\nround\n  x = x', "recipe"),
        ("program a\nlength 2\nround\n  x = __import__('os')", "a function|a number"),
    ],
)
def test_write_explains_mistakes(text: str, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        write.compiled(text, 10, note=silent)


def test_a_name_with_a_path_in_it_stays_in_the_folder(tmp_path: Path) -> None:
    text = 'program "../../evil"\nlength 2\nround\n  x = x + x'
    saved = write.weights(str(tmp_path), text, 10, note=silent).file
    assert saved is not None
    assert Path(saved).resolve().is_relative_to(tmp_path.resolve())


# ---- all


def test_the_catalogue_offers_every_program_and_every_trained_model() -> None:
    found = catalogue(note=silent)
    assert set(found["texts"]) == set(library.PROGRAMS)
    assert "trained: sort, looped" in found["trained"]
    assert len(found["programs"]) == len(library.PROGRAMS)
    assert {"execute", "generalise", "attention", "select", "compile", "runs"} <= set(FUNCTIONS)


def test_numbers_outside_the_domain_of_a_written_program_are_refused_and_others_run_in_it() -> None:
    text = write.library_text("sort")
    page, _ = write.watched(text, 10, "1 2 3 4 5 6 7 8", note=silent).pages
    assert "inputs in ±10." in page.html
    with pytest.raises(PosattnError, match=r"reach 100, and inputs lie in ±10: use a larger domain"):
        write.watched(text, 10, "1 2 3 4 5 6 7 100", note=silent)
