"""A pretrained language model on mixed-type samples: GPT-2, fine-tuned on the prompts as plain text.

Back de Luca et al. 2025, Fig. 6: `gpt2-large`, AdamW at 2e-5, 100 warm-up steps, linear decay, 3 epochs in batches
of 16, numbers written as 003.21, greedy answers of which the first 6 characters count. The wording of the prompt is
ours:

    CatA 003.21, Cat+A, CatD 001.20, … Find min of categories CatD, CatK, CatA and CatP. Answer: 001.20

Answers that are no number are counted beside the scores of those that are. Samples and test sets are those a `Trial`
with the same seed meets on the CPU. Needs the extra `gpt2`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn import devices, tasks
from posattn.tasks.mixed import MixedInputs
from posattn.train.fleet.data import draw
from posattn.train.language.pretrained import Language, check_installed, load, quiet
from posattn.train.language.prompts import READ_CHARACTERS, answers, parse, prompts
from posattn.train.language.trial import ADAMW, LanguageTrial
from posattn.train.random_streams import stream
from posattn.train.runnable import Outcome, Report, execute
from posattn.train.sample_options import Options

#: A token may be as little as one character: room for a blank, the number and the end.
NEW_TOKENS = READ_CHARACTERS + 2
TEST_BATCH = 64
IGNORED = -100  # the label that cross-entropy leaves out


@execute.register
def _(trial: LanguageTrial, *, device: torch.device, report: Report) -> Outcome:
    """Its weights are gigabytes that anyone can make again, so they are not kept."""
    return Outcome(scores=fine_tune(trial, device=device, report=lambda step, loss: report(step, [loss])))


def text_batch(
    asked: Sequence[list[int]], answered: Sequence[list[int]], pad: int
) -> dict[str, Int[Tensor, "batch tokens"]]:
    """Prompts followed by their answers, padded at the end. Only the answers have labels, so only they are learned."""
    width = max(len(prompt) + len(answer) for prompt, answer in zip(asked, answered, strict=True))
    ids = torch.full((len(asked), width), pad)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORED)
    for row, (prompt, answer) in enumerate(zip(asked, answered, strict=True)):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        mask[row, :end] = 1
        labels[row, len(prompt) : end] = torch.tensor(answer)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def continued(language: Language, asked: list[list[int]]) -> list[str]:
    """What the model greedily says after each prompt. Prompts are padded in front, so that all end at one place."""
    texts: list[str] = []
    for start in range(0, len(asked), TEST_BATCH):
        part = asked[start : start + TEST_BATCH]
        width, device = max(map(len, part)), language.model.device
        ids = torch.tensor([[language.end] * (width - len(prompt)) + prompt for prompt in part], device=device)
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in part], device=device)
        with torch.inference_mode():
            said = language.model.generate(input_ids=ids, attention_mask=mask)[:, width:]
        texts += language.tokenizer.batch_decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return texts


def fine_tune(
    trial: LanguageTrial, *, device: str | torch.device = "auto", report: Callable[[int, float], None] | None = None
) -> list[dict[str, Any]]:
    """Train on the answers, then score every test set, one row each. `report` gets each step's number and loss.

    A row's loss and metric are means over the answers that are numbers, None where no answer is one.
    """
    where = devices.resolve(device)
    asked, target = _drawn(trial, trial.samples, trial.options, "data")
    tested = {
        one.name: _drawn(trial, trial.test_samples, one.options, f"test set {one.name}") for one in trial.test_sets
    }
    check_installed(trial.model)
    with quiet(), _own_randomness(trial.seed, where):
        language = load(trial.model, new_tokens=NEW_TOKENS)
        language.model.to(device=where, dtype=torch.float32)
        questions = {name: language.encode(texts, room=NEW_TOKENS) for name, (texts, _) in tested.items()}
        _train(trial, language, asked, answers(target), report)
        language.model.eval()
        return [
            {"set": name, "step": trial.steps} | score(trial.task, continued(language, questions[name]), truth)
            for name, (_, truth) in tested.items()
        ]


def _drawn(trial: LanguageTrial, count: int, options: Options, purpose: str) -> tuple[list[str], Tensor]:
    """Prompts and exact answers. Both have two decimals, which float32 only comes near to."""
    generator = stream(trial.seed, purpose)
    *inputs, target = draw(tasks.get(trial.task), count, options, generator, torch.float64)
    return prompts(MixedInputs(*inputs)), target.mul(100).round().div(100)


def _train(
    trial: LanguageTrial,
    language: Language,
    asked: list[str],
    answered: list[str],
    report: Callable[[int, float], None] | None,
) -> None:
    model = language.model.train()
    optimiser = torch.optim.AdamW(model.parameters(), **ADAMW)
    questions = language.encode(asked, room=NEW_TOKENS)
    replies = [[*tokens, language.end] for tokens in language.encode(answered, special=False)]
    step = 0
    for epoch in range(trial.epochs):
        order = torch.randperm(trial.samples, generator=stream(trial.seed, "shuffle", epoch))
        for chosen in order.split(trial.batch):
            rows = chosen.tolist()
            batch = text_batch([questions[row] for row in rows], [replies[row] for row in rows], language.end)
            for group in optimiser.param_groups:
                group["lr"] = trial.rate(step)
            loss = model(**{name: tensor.to(model.device) for name, tensor in batch.items()}).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            if report is not None:
                report(step, loss.item())


def score(task: str, texts: list[str], target: Float[Tensor, "count 1"]) -> dict[str, Any]:
    """MSE and MAPE over the answers that are numbers, and how many are not."""
    pairs = [([number], truth) for number, truth in zip(map(parse, texts), target.tolist(), strict=True)]
    pairs = [(guess, truth) for guess, truth in pairs if guess != [None]]
    counts = {"unparseable": len(texts) - len(pairs), "answers": len(texts)}
    if not pairs:
        return {"loss": None, "metric": None} | counts
    guess, truth = (torch.tensor(side, dtype=torch.float64) for side in zip(*pairs, strict=True))
    judge = tasks.get(task)
    return {"loss": judge.loss(guess, truth).item(), "metric": judge.metric(guess, truth).item()} | counts


@contextmanager
def _own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Dropout draws from the global generators: they start from a stream of the trial's, and are put back."""
    cuda = [device] if device.type == "cuda" else []
    number = stream(seed, "dropout").initial_seed()
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(number)
        for each in cuda:
            with torch.cuda.device(each):
                torch.cuda.manual_seed(number)
        yield
