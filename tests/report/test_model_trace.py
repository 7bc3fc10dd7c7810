"""The trace of a trained model shows its own numbers and its own attention."""

import json
import re
from typing import Any

import pytest
import torch

from posattn import zoo
from posattn.errors import PosattnError
from posattn.report.model_trace import LEAST, model_page


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r"const data = (.*);\n", page)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("kind", ["positional", "standard", "looped"])
def test_the_first_frame_is_the_input_and_the_last_the_answer(kind: str) -> None:
    model = zoo.load("sort", kind)
    x = torch.tensor([[1.5], [-0.5], [0.25]], dtype=next(model.parameters()).dtype)
    data = data_of(model_page(model, x, title="t"))
    with torch.no_grad():
        answer = model(x[None])[0, :, 0].tolist()
    assert data["frames"][0]["registers"]["value"][:3] == [1.5, -0.5, 0.25]
    assert data["frames"][-1]["registers"]["value"][:3] == pytest.approx(answer, rel=1e-5, abs=1e-5)  # six digits


@pytest.mark.parametrize("kind", ["positional", "standard", "looped"])
def test_lines_are_the_reads_that_count(kind: str) -> None:
    model = zoo.load("sort", kind)
    x = torch.tensor([[1.5], [-0.5], [0.25], [1.0]], dtype=next(model.parameters()).dtype)
    shown = [{(a, b) for a, b, _ in frame["edges"]} for frame in data_of(model_page(model, x, title="t"))["frames"]]
    wanted = []
    for step in model.trace(x[None]):
        if step.attention is not None:
            heads = step.attention.reshape(-1, *step.attention.shape[-2:])
            nodes = range(heads.shape[-1])
            wanted.append({(j, i) for i in nodes for j in nodes if i != j and any(h[i, j] >= LEAST for h in heads)})
    assert shown[-len(wanted) :] == wanted
    assert any(wanted)


def test_other_models_are_refused() -> None:
    with pytest.raises(PosattnError, match="pass a model for numbers"):
        model_page(torch.nn.Linear(1, 1), torch.zeros(1, 1), title="t")  # type: ignore[arg-type]
