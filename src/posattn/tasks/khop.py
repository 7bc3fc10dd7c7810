"""k-hop induction heads: follow "the same letter, last time, and what came after it" k times.

Two settings: `khop` (Back de Luca et al. 2025, Figs 3 and 5) and `khop-16` (Sanford, Hsu, Telgarsky 2024,
"Transformers, parallel computation, and logarithmic depth"). The second has the inputs and the measure of its authors'
public code: 98 letters, scored where the answer exists. With k > 0 hops over four letters, that is so for all but
3k + 1 of them in nearly every sequence, half for k = 16. Version 1 had 99 letters and scored all of them.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posattn.checks import keep_whole, switch, tensor, whole
from posattn.errors import require
from posattn.tasks.base import UNSCORED, Task, check_described, check_inputs, drawing_device


class KHopInputs(NamedTuple):
    """Token 0 says how many hops; the others are letters, no two neighbours alike."""

    tokens: Int[Tensor, "batch nodes"]


@dataclass(frozen=True)
class KHopTask(Task):
    """For every letter, the letter that k hops lead to.

    One hop from index j: find the last occurrence before j of the letter at j, step to its successor. No such
    occurrence: the answer is `missing`. k = 0 is the letter itself. The answer at position 0 is `blank`.

    Token ids: training letters, held-out letters, hop counts 0 … max_hops, `missing`, `blank`.
    """

    name: str = "khop"
    summary: str = "letter found by k induction hops, every position"
    letters: int = field(default=5, metadata=UNSCORED)
    held_out_letters: int = field(default=5, metadata=UNSCORED)
    max_hops: int = field(default=3, metadata=UNSCORED)
    characters: int = field(default=98, metadata=UNSCORED)
    #: Whether letters without an answer count in the metric. The loss has them in any case.
    score_missing: bool = True
    version: int = 1

    metric_name = "token accuracy"

    def __post_init__(self) -> None:
        check_described(self)
        keep_whole(self, "letters", "held_out_letters", "max_hops", "characters")
        switch("score_missing", self.score_missing)
        require(
            self.letters >= 0 and self.held_out_letters >= 0 and self.max_hops >= 0 and self.characters >= 1,
            f"letters={self.letters}, held_out_letters={self.held_out_letters}, max_hops={self.max_hops}, "
            f"characters={self.characters}: use at least 1 character, and nothing below 0.",
        )

    @property
    def loss_key(self) -> tuple[Any, ...]:
        """The metric may leave out `missing`, whose id depends on fields that otherwise enter no score."""
        return *super().loss_key, None if self.score_missing else self.missing

    @property
    def first_hop_token(self) -> int:
        return self.letters + self.held_out_letters

    @property
    def missing(self) -> int:
        return self.first_hop_token + self.max_hops + 1

    @property
    def blank(self) -> int:
        return self.missing + 1

    @property
    def vocabulary(self) -> int:
        return self.blank + 1

    @property
    def classes(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.vocabulary

    @property
    def nodes(self) -> int:
        return self.characters + 1

    def sample(
        self,
        count: int,
        *,
        held_out: bool = False,
        hops: int | None = None,
        generator: torch.Generator,
        device: str | torch.device | None = None,
    ) -> tuple[KHopInputs, Int[Tensor, "count nodes"]]:
        """Random letters with k uniform in 0 … max_hops (or `hops`); `held_out` uses the letters kept for testing."""
        where = drawing_device(count, generator, device)
        start, letters = (self.letters, self.held_out_letters) if switch("held_out", held_out) else (0, self.letters)
        require(
            letters >= 2,
            f"task '{self.name}' has {letters} {'held-out ' if held_out else ''}letters: neighbours must differ, "
            "so it needs two.",
        )
        require(
            hops is None or 0 <= whole("hops", hops) <= self.max_hops,
            f"hops={hops}: task '{self.name}' has 0 … {self.max_hops} hops.",
        )
        # A first letter, then steps of 1 … letters − 1 around the alphabet: uniform among what differs.
        first = torch.randint(0, letters, (count, 1), generator=generator, device=where)
        steps = torch.randint(1, letters, (count, self.characters - 1), generator=generator, device=where)
        text = start + torch.cat([first, steps], dim=1).cumsum(1) % letters
        k = torch.randint(0, self.max_hops + 1, (count, 1), generator=generator, device=where)
        k = k if hops is None else torch.full_like(k, hops)
        inputs = KHopInputs(torch.cat([self.first_hop_token + k, text], dim=1))
        return inputs, self._solve(inputs.tokens)

    def target(self, inputs: KHopInputs) -> Int[Tensor, "batch nodes"]:
        (tokens,) = check_inputs(self.name, inputs, KHopInputs)
        require(
            tokens.dim() == 2 and tokens.shape[1] >= 2 and tokens.dtype == torch.int64,
            f"tokens of shape {tuple(tokens.shape)}, {tokens.dtype}: need (batch, ≥ 2), int64.",
        )
        require(
            bool(((tokens[:, 0] >= self.first_hop_token) & (tokens[:, 0] < self.missing)).all())
            and bool(((tokens[:, 1:] >= 0) & (tokens[:, 1:] < self.first_hop_token)).all()),
            f"task '{self.name}': token 0 must be a hop count ({self.first_hop_token} … {self.missing - 1}) and the "
            f"others letters (0 … {self.first_hop_token - 1}).",
        )
        return self._solve(tokens)

    def _solve(self, tokens: Int[Tensor, "batch nodes"]) -> Int[Tensor, "batch nodes"]:
        k, text = tokens[:, :1] - self.first_hop_token, tokens[:, 1:]
        batch, length = text.shape
        nowhere = length  # a pointer past the end stands for "does not exist", and leads to itself
        last = text.new_full((batch, self.first_hop_token), nowhere)
        hop = text.new_full((batch, length + 1), nowhere)
        for j in range(length):
            letter = text[:, j : j + 1]
            seen = last.gather(1, letter)
            hop[:, j : j + 1] = torch.where(seen == nowhere, nowhere, seen + 1)
            last.scatter_(1, letter, j)
        pointer = torch.arange(length, device=text.device).expand(batch, length)
        for done in range(self.max_hops):
            pointer = torch.where(done < k, hop.gather(1, pointer), pointer)
        padded = torch.cat([text, text.new_full((batch, 1), self.missing)], dim=1)
        return torch.cat([text.new_full((batch, 1), self.blank), padded.gather(1, pointer)], dim=1)

    def loss(
        self,
        prediction: Float[Tensor, "*replicas batch nodes vocabulary"],
        target: Int[Tensor, "*replicas batch nodes"],
    ) -> Float[Tensor, "*replicas"]:
        """Cross-entropy over all positions."""
        self._check_scored(prediction, target)
        log_probability = prediction.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return -log_probability.mean(dim=(-2, -1))

    def _check_scored(self, prediction: Tensor, target: Tensor) -> None:
        tensor(f"task '{self.name}': the prediction", prediction)
        tensor(f"task '{self.name}': the target", target)
        require(
            prediction.is_floating_point() and target.dtype == torch.int64,
            f"task '{self.name}': the prediction is {prediction.dtype} and the target {target.dtype}: logits are "
            "floating point, tokens int64.",
        )
        require(
            prediction.shape[:-1] == target.shape and target.dim() >= 2,
            f"task '{self.name}': the prediction has shape {tuple(prediction.shape)} and the target "
            f"{tuple(target.shape)}: the prediction must have one axis more, with a logit for every token.",
        )

    def metric(
        self,
        prediction: Float[Tensor, "*replicas batch nodes vocabulary"],
        target: Int[Tensor, "*replicas batch nodes"],
    ) -> Float[Tensor, "*replicas"]:
        """The share of letters found; position 0, always blank, is left out. Where none is scored, it is 0."""
        self._check_scored(prediction, target)
        right: Bool[Tensor, "*replicas batch nodes"] = prediction.argmax(-1) == target
        scored = torch.ones_like(right) if self.score_missing else target != self.missing
        found, asked = ((which & scored)[..., 1:].sum(dim=(-2, -1)) for which in (right, scored))
        return (found.double() / asked.clamp(min=1)).to(prediction.dtype)

    def example(self) -> str:
        letters = "abcde"
        text = "abacab"
        tokens = [self.first_hop_token + 1] + [letters.index(letter) for letter in text]
        found = self.target(KHopInputs(torch.tensor([tokens])))[0, 1:].tolist()
        shown = "".join("~" if token == self.missing else letters[token] for token in found)
        return f"1 {text} → _ {shown}"


TASKS = (
    KHopTask(),
    KHopTask(
        name="khop-16",
        summary="the same with up to 16 hops, 4 letters, scored where the answer exists",
        letters=4,
        held_out_letters=0,
        max_hops=16,
        score_missing=False,
        version=2,
    ),
)
