"""A language model on mixed-type prompts: what it reads, what it learns, how it is scored.

The model is a tiny random GPT-2 over characters, made on the spot.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posattn import PosattnError, tasks
from posattn.tasks.mixed import GLYPHS
from posattn.train.language import fine_tune as module
from posattn.train.language.fine_tune import fine_tune
from posattn.train.language.pretrained import Language, load
from posattn.train.language.prompts import answers, parse, prompts
from posattn.train.language.trial import LanguageTrial
from posattn.train.random_streams import stream
from posattn.train.runnable import Unreachable

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NEAR = {"low": 0.0, "high": 5.0}
FAR = {"low": 0.0, "high": 50.0, "held_out": True}
#: Two decimals make every number of this range 2.50.
CONSTANT = {"low": 2.499, "high": 2.501}
OPERATIONS = {"min": min, "max": max, "sum": sum}


def trial(model: object = "tiny", **fields: Any) -> LanguageTrial:
    return LanguageTrial(
        **{"task": "mixed-min", "model": str(model), "samples": 7, "test_samples": 5, "batch": 3, "epochs": 2}
        | {"options": NEAR, "sets": {"near": NEAR, "far": FAR}, "lr": 1e-2, "warm_up": 2}
        | fields
    )


def refused(message: str, kind: type[PosattnError] = PosattnError) -> Any:
    return pytest.raises(kind, match=re.escape(message))


def drawn(task: str, count: int = 101, **options: Any) -> tuple[tasks.MixedInputs, torch.Tensor]:
    return tasks.get(task).sample(count, **options, generator=torch.Generator().manual_seed(0))


# ---- what a trial is


def test_the_defaults_are_the_papers():
    plain = LanguageTrial(task="mixed-min", samples=50_000, test_samples=1000)
    assert (plain.model, plain.batch, plain.epochs, plain.lr, plain.warm_up) == ("gpt2-large", 16, 3, 2e-5, 100)
    assert plain.steps == 3 * 3125


def test_the_canonical_json_and_its_hash_are_those_written_by_hand():
    text = (
        '{"data":{"batch":3,"epochs":2,"options":{"high":5,"low":0},"samples":7},'
        '"evaluation":{"samples":5,"sets":{"far":{"held_out":true,"high":50,"low":0},"near":{"high":5,"low":0}}},'
        '"kind":"language","model":"tiny",'
        '"optimiser":{"betas":[0.9,0.999],"eps":1e-08,"lr":0.01,"name":"adamw","schedule":"linear","steps":6,'
        '"warmup":2,"weight_decay":0.01},"schema":2,"seed":0,"task":"mixed-min"}'
    )
    assert trial().to_json() == text
    differing = (
        '{"batch":3,"epochs":2,"kind":"language","lr":0.01,"model":"tiny","options":{"high":5,"low":0},"samples":7,'
        '"schema":2,"sets":{"far":{"held_out":true,"high":50},"near":{}},"task":"mixed-min","test_samples":5,'
        '"warm_up":2}'
    )
    assert trial().id == hashlib.sha256(differing.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "other",
    [
        {"task": "mixed-sum"},
        {"model": "gpt2"},
        {"samples": 8},
        {"test_samples": 6},
        {"batch": 4},
        {"epochs": 3},
        {"lr": 1e-3},
        {"warm_up": 1},
        {"seed": 1},
        {"options": {"low": 0.0, "high": 4.0}},
        {"sets": {"near": NEAR}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_every_field_changes_the_id(other):
    assert trial(**other).id != trial().id


def test_equal_trials_have_one_id_however_their_options_are_written():
    same = trial(options={"high": 5, "low": 0}, sets={"far": FAR, "near": dict(reversed(NEAR.items()))}, lr=0.01)
    assert same.id == trial().id
    assert trial(options=NEAR | {"avoid": [1, 2]}).options["avoid"] == (1, 2)


def test_the_last_batch_of_an_epoch_counts_as_a_step():
    assert [trial(samples=n, batch=4, epochs=3, warm_up=0).steps for n in (3, 4, 5, 8)] == [3, 3, 6, 6]
    described = json.loads(trial(samples=9, batch=4).to_json())
    assert described["optimiser"]["steps"] == 6


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": "mixed-mean"}, "unknown task for a language model 'mixed-mean': did you mean 'mixed-min'?"),
        ({"task": "sort"}, "Known: mixed-min, mixed-sum, mixed-multitask."),
        ({"model": " "}, "model=' ': give a name on the hub"),
        ({"samples": 0}, "samples=0: it must be a whole number of at least 1."),
        ({"samples": 2.5}, "samples=2.5: it must be a whole number of at least 1."),
        ({"test_samples": 0}, "samples=0: score at least one sample."),
        ({"batch": 0}, "batch=0: it must be a whole number of at least 1."),
        ({"epochs": True}, "epochs=True: it must be a whole number of at least 1."),
        ({"lr": 0.0}, "lr=0.0: a learning rate is above 0."),
        ({"lr": math.nan}, "lr=nan: it must be a finite number."),
        ({"warm_up": -1}, "warm_up=-1: a number of steps, or 0 for none."),
        ({"seed": "0"}, "seed='0': it must be a whole number."),
        ({"sets": {"train": NEAR}}, "a test set is called 'train'"),
    ],
)
def test_mistakes_are_named(fields, message):
    with refused(message):
        trial(**fields)


def test_the_rate_rises_over_the_warm_up_and_falls_to_0_after_the_last_step():
    plan = trial(samples=30, batch=3, epochs=1, warm_up=4, lr=0.6)
    expected = [Fraction(k, 4) for k in (1, 2, 3, 4)] + [Fraction(k, 6) for k in (6, 5, 4, 3, 2, 1)]
    assert [plan.rate(step) for step in range(10)] == pytest.approx([0.6 * float(share) for share in expected])
    assert plan.rate(10) == 0
    no_rise, no_fall, short = (dataclasses.replace(plan, warm_up=steps) for steps in (0, 10, 20))
    assert [no_rise.rate(0), no_rise.rate(9)] == pytest.approx([0.6, 0.06])
    assert [no_fall.rate(0), no_fall.rate(9)] == pytest.approx([0.06, 0.6])
    assert [short.rate(0), short.rate(9)] == pytest.approx([0.03, 0.3])


# ---- samples as text

PROMPT = re.compile(r"(.*)\. Find (min|max|sum) of categories Cat(\w), Cat(\w), Cat(\w) and Cat(\w)\. Answer:")


@pytest.mark.parametrize("task", ["mixed-min", "mixed-sum", "mixed-multitask"])
@pytest.mark.parametrize("options", [NEAR, FAR])
def test_a_reader_of_the_prompt_finds_the_answer(task, options):
    inputs, target = drawn(task, **options)
    texts = prompts(inputs)
    assert len(texts) == 101
    asked = set()
    for text, reply, codes, numbers in zip(texts, answers(target), inputs.characters, inputs.numbers, strict=True):
        found = PROMPT.fullmatch(text)
        assert found is not None, text
        listed, operation, *labels = found.groups()
        asked.add(operation)
        entries = listed.split(", ")
        valued = [entry.split(" ") for entry in entries if " " in entry]
        assert all(re.fullmatch(r"Cat\w", label) and re.fullmatch(r"\d{3}\.\d\d", value) for label, value in valued)
        assert sum(bool(re.fullmatch(r"Cat[-+*_]\w", entry)) for entry in entries) == 2
        assert [round(100 * float(value)) for _, value in valued] == [round(100 * x) for x in numbers.tolist()]
        # Leave out the numbers, and it is the task's own text.
        bare = "".join(entry.split(" ")[0] for entry in entries) + text[len(listed) + 2 : -len(". Answer:")]
        assert bare == "".join(GLYPHS[code] for code in codes)
        value = {label[3:]: Fraction(number) for label, number in valued}
        assert len(value) == 8
        assert Fraction(reply.strip()) == OPERATIONS[operation]([value[label] for label in labels])
        assert parse(reply) == float(reply)
    assert asked == {"mixed-min": {"min"}, "mixed-sum": {"sum"}, "mixed-multitask": {"min", "max"}}[task]


def test_answers_have_a_blank_and_six_characters():
    target = torch.tensor([[0.0], [3.21], [12.3], [200.0], [999.99]])
    assert answers(target) == [" 000.00", " 003.21", " 012.30", " 200.00", " 999.99"]


@pytest.mark.parametrize("number", [-0.01, 999.996, 1000.0, math.nan, math.inf])
def test_numbers_that_six_characters_cannot_hold_are_refused(number):
    with refused("must lie in 0 … 999.99"):
        answers(torch.tensor([[1.0], [number]]))
    inputs, _ = drawn("mixed-sum", 3)
    inputs.numbers[1, 2] = number
    with refused(f"{number:g}: numbers are written with 6 characters"):
        prompts(inputs)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 003.21", 3.21),
        ("003.21", 3.21),
        ("\n \t003.21", 3.21),
        ("003.219", 3.21),
        ("003.21 CatB 004.00", 3.21),
        ("003.21e9", 3.21),
        ("1234567", 123456.0),
        ("3.2", 3.2),
        ("7", 7.0),
        ("12.", 12.0),
        (".5", 0.5),
        ("-01.50", -1.5),
        ("+1", 1.0),
        ("", None),
        ("   ", None),
        (".", None),
        ("-", None),
        ("3.2 ", None),
        ("3.21\n", None),
        ("3 .21", None),
        ("1.2.3", None),
        ("--1", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1e5", None),
        ("0x10", None),
        ("1_000", None),
        ("1,000", None),
        ("٣.٢١", None),
        ("３.２１", None),
        ("²", None),
        ("CatB", None),
        ("003.2x", None),
    ],
)
def test_six_plain_characters_are_a_number_or_nothing(text, number):
    assert parse(text) == number


@given(st.integers(0, 99_999), st.text(max_size=3))
def test_a_written_number_reads_back_whatever_follows(cents, rest):
    assert parse(f" {cents / 100:06.2f}{rest}") == cents / 100


@given(st.text(alphabet="0123456789.+-e_ naif٣", max_size=8))
def test_what_parses_is_finite_and_what_python_reads(text):
    number = parse(text)
    if number is not None:
        assert math.isfinite(number)
        assert number == float(text.lstrip()[:6])


# ---- learning


def test_only_the_answers_are_learned():
    batch = module.text_batch([[5, 6, 7], [8]], [[1, 2], [3, 4]], pad=9)
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        "input_ids": [[5, 6, 7, 1, 2], [8, 3, 4, 9, 9]],
        "attention_mask": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
        "labels": [[-100, -100, -100, 1, 2], [-100, 3, 4, -100, -100]],
    }


def test_the_loss_is_the_cross_entropy_of_the_answers_tokens(language):
    """Each text alone and without padding, in NumPy, its answer's last token the end of text."""
    asked, replies = ["CatA 001.00. Answer:", "Answer:"], [" 001.00", " 3"]
    seen: list[float] = []
    plan = trial(samples=2, batch=2, epochs=1, warm_up=0)
    _without_dropout(language)
    expected = []
    for prompt, reply in zip(asked, replies, strict=True):
        question = language.tokenizer(prompt)["input_ids"]
        tokens = question + language.tokenizer(reply)["input_ids"] + [language.end]
        assert len(tokens) == len(prompt) + len(reply) + 1
        logits = language.model(torch.tensor([tokens])).logits[0].detach().double().numpy()
        for place in range(len(question), len(tokens)):
            row = logits[place - 1]
            expected.append(np.log(np.exp(row).sum()) - row[tokens[place]])
    assert len(expected) == 8 + 3
    module._train(plan, language, asked, replies, lambda _, loss: seen.append(loss))
    assert seen == pytest.approx([np.mean(expected)], rel=1e-5)


def _without_dropout(language: Language) -> None:
    for part in language.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0


def test_training_is_adamw_at_the_planned_rates_and_every_epoch_meets_every_sample(language, monkeypatch):
    plan = trial(samples=7, batch=3, epochs=3, warm_up=2)
    groups, met = [], []
    adamw, text_batch = torch.optim.AdamW.step, module.text_batch

    def step(self: Any, *given: Any) -> Any:
        groups.append(dict(self.param_groups[0]))
        return adamw(self, *given)

    def batched(asked: Any, answered: Any, pad: int) -> Any:
        met.append([language.tokenizer.decode(tokens) for tokens in asked])
        return text_batch(asked, answered, pad)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    monkeypatch.setattr(module, "text_batch", batched)
    asked = [f"Cat{label}" for label in "ABDEGHI"]
    reported: list[int] = []
    module._train(plan, language, asked, [" 001.00"] * 7, lambda number, _: reported.append(number))
    assert reported == list(range(1, 10))
    assert [group["lr"] for group in groups] == pytest.approx([plan.rate(step) for step in range(9)])
    assert {(group["betas"], group["eps"], group["weight_decay"]) for group in groups} == {((0.9, 0.999), 1e-8, 0.01)}
    assert [len(names) for names in met] == [3, 3, 1] * 3
    epochs = [[*met[start], *met[start + 1], *met[start + 2]] for start in (0, 3, 6)]
    assert [sorted(epoch) for epoch in epochs] == [asked] * 3
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_few_samples_are_learned_by_heart(language):
    """Five prompts, each with its own answer: greedy answers are exact in the end, and were not at first."""
    inputs, target = drawn("mixed-sum", 5)
    asked, replies, losses = prompts(inputs), answers(target), []
    assert len(set(replies)) == 5
    plan = trial(samples=5, batch=5, epochs=120, lr=1e-2, warm_up=5)
    questions = language.encode(asked)
    language.model.eval()
    before = module.score("mixed-sum", module.continued(language, questions), target)
    _without_dropout(language)
    module._train(plan, language, asked, replies, lambda _, loss: losses.append(loss))
    language.model.eval()
    after = module.score("mixed-sum", module.continued(language, questions), target)
    assert before["unparseable"] == 5
    assert losses[-1] < losses[0] / 20
    assert module.continued(language, questions) == replies
    assert (after["unparseable"], after["answers"]) == (0, 5)
    assert after["loss"] == pytest.approx(0, abs=1e-9)


def test_fine_tuning_scores_every_set(tiny_gpt2, capfd):
    """A range in which every answer is 2.50 is learned exactly; sets of that range and of another tell so."""
    losses: list[float] = []
    plan = trial(
        tiny_gpt2,
        options=CONSTANT,
        sets={"same": CONSTANT, "other": FAR},
        samples=16,
        batch=8,
        epochs=20,
        test_samples=67,
    )
    same, other = fine_tune(plan, device="cpu", report=lambda _, loss: losses.append(loss))
    assert same == {"set": "same", "step": 40, "loss": 0.0, "metric": 0.0, "unparseable": 0, "answers": 67}
    assert (other["set"], other["answers"], other["unparseable"]) == ("other", 67, 0)
    # Whatever is asked there, the answer is 2.50: the scores are those of that constant.
    _, target = tasks.get("mixed-min").sample(67, **FAR, generator=stream(0, "test set other"))
    truth = target.double().numpy()
    assert other["loss"] == pytest.approx(((truth - 2.5) ** 2).mean(), rel=1e-5)
    assert other["metric"] == pytest.approx((abs(truth - 2.5) / np.maximum(truth, 0.01)).mean(), rel=1e-5)
    assert len(losses) == plan.steps
    assert losses[-1] < losses[0] / 10
    assert json.loads(json.dumps([same, other])) == [same, other]
    assert capfd.readouterr() == ("", "")


def test_two_runs_are_equal_and_another_seed_differs(tiny_gpt2):
    def run(seed: int) -> tuple[list[float], list[dict[str, Any]]]:
        losses: list[float] = []
        return losses, fine_tune(trial(tiny_gpt2, seed=seed), device="cpu", report=lambda _, loss: losses.append(loss))

    torch.manual_seed(1)
    first = run(0)
    torch.manual_seed(2)
    assert run(0) == first
    assert run(1)[0] != first[0]


def test_dropout_is_at_work_and_the_global_generator_stays_as_it_is(tiny_gpt2, monkeypatch):
    masks: list[torch.Tensor] = []
    dropout = torch.nn.Dropout.forward

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = dropout(self, x)
        if self.training:
            masks.append((y == 0).float().mean())
        return y

    monkeypatch.setattr(torch.nn.Dropout, "forward", forward)
    before = torch.get_rng_state()
    fine_tune(trial(tiny_gpt2), device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.stack(masks).mean().item() == pytest.approx(0.1, abs=0.02)


def test_samples_are_those_a_trial_of_that_seed_meets():
    """The purposes of the streams are the ones of train/data.py and train/evaluate.py."""
    plan = trial(seed=5)
    for purpose in ("data", "test set far"):
        inputs, target = tasks.get("mixed-min").sample(4, **FAR, generator=stream(5, purpose))
        texts, truth = module._drawn(plan, 4, FAR, purpose)
        assert texts == prompts(inputs)
        assert truth.flatten().tolist() == [round(x, 2) for x in target.flatten().tolist()]


# ---- scoring


def test_prompts_of_unequal_length_are_answered_as_if_alone(language, monkeypatch):
    inputs, target = drawn("mixed-sum", 3)
    texts = [text[cut:] for text, cut in zip(prompts(inputs), (0, 31, 97), strict=True)] + ["Find", "CatB 003.21"]
    plan = trial(samples=5, batch=5, epochs=30, warm_up=0)
    module._train(plan, language, texts, [*answers(target), " 1", " 123"], None)  # so that they are told apart
    language.model.eval()
    tokens = language.encode(texts)
    assert len({len(row) for row in tokens}) == 5
    together = module.continued(language, tokens)
    assert together == [module.continued(language, [row])[0] for row in tokens]
    assert len(set(together)) > 1
    monkeypatch.setattr(module, "TEST_BATCH", 2)
    assert module.continued(language, tokens) == together


def test_greedy_answers_are_the_likeliest_tokens_whatever_the_models_own_settings_say(language, copied):
    """Against a loop of arg max without a cache; the folder's settings ask for other things."""
    (copied / "generation_config.json").write_text(
        json.dumps({"do_sample": True, "temperature": 3.0, "max_new_tokens": 2, "repetition_penalty": 9.0})
    )
    other = load(str(copied), new_tokens=module.NEW_TOKENS)
    tokens = language.encode(["CatA 001.00", "Answer:"])
    for row in tokens:
        text = list(row)
        for _ in range(module.NEW_TOKENS):
            text.append(int(language.model(torch.tensor([text])).logits[0, -1].argmax()))
        new = text[len(row) :]
        new = new[: new.index(language.end)] if language.end in new else new
        expected = language.tokenizer.decode(new)
        assert module.continued(language, [row]) == module.continued(other, [row]) == [expected]


def test_six_characters_fit_even_where_each_is_a_token():
    assert len(" 003.21") <= module.NEW_TOKENS


def test_loss_and_metric_are_mse_and_mape_of_the_answers_that_are_numbers():
    target = torch.tensor([[2.0], [0.0], [4.0], [8.0], [1.0]], dtype=torch.float64)
    texts = [" 003.00", "000.02", "CatB", "", "nan"]
    found = module.score("mixed-min", texts, target)
    assert found.pop("loss") == pytest.approx((1.0 + 0.0004) / 2)
    assert found.pop("metric") == pytest.approx((0.5 + 2.0) / 2)
    assert found == {"unparseable": 3, "answers": 5}


def test_a_model_that_says_no_number_has_no_score_but_a_count(tiny_gpt2, monkeypatch):
    monkeypatch.setattr(module, "continued", lambda language, asked: ["Cat"] * len(asked))
    nothing = {"step": 6, "loss": None, "metric": None, "unparseable": 5, "answers": 5}
    assert fine_tune(trial(tiny_gpt2), device="cpu") == [{"set": "near"} | nothing, {"set": "far"} | nothing]


# ---- when there is none


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with refused("model 'tiny' needs transformers", Unreachable) as caught:
        fine_tune(trial(), device="cpu")
    assert "pip install 'posattn[gpt2]'" in str(caught.value)


def test_the_module_is_imported_without_transformers():
    program = "import sys; sys.modules['transformers'] = None"
    program += "; import posattn.train.language.prompts as l; l.parse('1')"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)
