"""Mixed-type prompts by position, against the task and against a reader of the text."""

import re

import numpy as np
import pytest
import torch

from posattn import tasks
from posattn.compile import compile
from posattn.compile.interpreter import run
from posattn.compile.programs.mixed import laid_out, mixed
from posattn.errors import PosattnError
from posattn.tasks.mixed import CODE, GLYPHS, MixedInputs, MixedTask

ALL = MixedTask("all", "min, sum or max, as the text says", ("min", "sum", "max"))
DOMAIN = {"code": len(GLYPHS) - 1, "x": 50.0}


def told(prompt: str, numbers: list[float]) -> float:
    """The answer to a prompt, by regular expressions."""
    listed, question = prompt.split("Find ")
    values = dict(zip(re.findall(r"Cat([^-+*_])", listed), numbers, strict=True))
    operation = {"min": min, "max": max, "sum": sum}[question[:3]]
    return operation(values[label] for label in re.findall(r"Cat(.)", question))


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("name", ["mixed-min", "mixed-sum", "mixed-multitask"])
def test_the_compiled_model_gives_the_tasks_answers_at_ten_times_the_range(name, held_out):
    task = tasks.get(name)
    inputs, target = task.sample(60, high=50.0, held_out=held_out, generator=torch.Generator().manual_seed(3))
    model = compile(mixed(task), domain=DOMAIN)
    assert model.model.architecture.layers == 3
    answer = model(laid_out(inputs))
    assert answer.shape == (60, 1, 1)
    assert (answer.squeeze(2) - target).abs().max() < 1e-4


@pytest.mark.parametrize("held_out", [False, True])
def test_a_reader_of_the_text_agrees_with_the_program(held_out):
    g = torch.Generator().manual_seed(4)
    inputs, _ = ALL.sample(300, low=-50.0, high=50.0, held_out=held_out, generator=g, dtype=torch.float64)
    wanted = [told(text, row) for text, row in zip(ALL.text(inputs), inputs.numbers.tolist(), strict=True)]
    found = run(mixed(ALL), laid_out(inputs).numpy())
    # at most 20 operations on numbers of at most 200: 20·200·2⁻⁵³ < 5e-13
    np.testing.assert_allclose(found[:, 0, 0], wanted, rtol=0, atol=1e-12)


def test_distractors_may_stand_anywhere_and_copy_a_label_that_is_asked_for():
    letters, numbers = "ABDEGHIJ", [5.0, -1.0, 4.0, 3.0, -2.0, 6.0, 7.0, 8.0]
    question = "Find min of categories CatD, CatA, CatE and CatH"
    prompts, program = [], mixed(tasks.get("mixed-min"))
    for first in range(10):
        for second in range(first + 1, 10):
            entries = [f"Cat{letter}" for letter in letters]
            entries.insert(first, "Cat+B")
            entries.insert(second, "Cat-D")
            prompts.append("".join(entries) + question)
    codes = torch.tensor([[CODE[glyph] for glyph in prompt] for prompt in prompts])
    inputs = MixedInputs(codes, torch.tensor(numbers, dtype=torch.float64).expand(len(prompts), -1))
    assert run(program, laid_out(inputs).numpy())[:, 0, 0].tolist() == [3.0] * 45  # of 5, 4, 3 and 6


@pytest.mark.parametrize("task", ["mixed-min", tasks.get("khop")])
def test_what_is_no_mixed_type_task_is_refused(task):
    with pytest.raises(PosattnError, match="pass a mixed-type task"):
        mixed(task)
