"""A proof as a record: one line per step, sealed to the weights and the program that it is about."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass

from posattn.compile.proof.findings import Outcome
from posattn.errors import PosattnError, require


@dataclass(frozen=True, kw_only=True)
class Step:
    """What was shown, for which inputs, by what, in how long."""

    number: int
    outcome: Outcome
    claim: str
    inputs: str
    by: str
    detail: str  # the first counterexample, or why the step is open
    seconds: float

    def __str__(self) -> str:
        said = (
            f"{self.number}. {self.outcome.upper() if self.outcome is Outcome.REFUTED else self.outcome}: {self.claim}"
        )
        if self.outcome is Outcome.ABSENT:
            return said + "."
        why = f" {self.detail}." if self.detail else ""
        return f"{said}; for {self.inputs}; by {self.by}; {self.seconds:.2f} s.{why}"


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What holds for every input of the domain."""

    program: str
    length: int
    domain: str
    dtype: str
    steps: tuple[Step, ...]
    bound: float | None  # |model(x) − program(x)| for every input; None where step 4 does not stand
    found: float | None  # the largest such difference that a search found
    digest: str = ""  # of the model's file and of all of the above

    @property
    def holds(self) -> bool:
        """Whether every step that applies stands. An open step is not one that stands."""
        found = [(step.number, step.outcome) for step in self.steps]
        stands = [(number, Outcome.STANDS) for number in (1, 2, 3, 4)]
        absent = [(3, Outcome.ABSENT) if number == 3 else (number, outcome) for number, outcome in stands]
        within = self.bound is not None and (self.found is None or self.found <= self.bound)
        return within and found in (stands, absent)

    @property
    def specified(self) -> bool:
        """Whether the program was shown to compute what it should, and not only the model to compute the program."""
        return any(step.number == 3 and step.outcome is Outcome.STANDS for step in self.steps)

    def sealed(self, what: str) -> "Proof":
        """The same with its digest, for a model with this fingerprint."""
        said = json.dumps(dataclasses.asdict(self) | {"digest": what}, sort_keys=True)
        return dataclasses.replace(self, digest=hashlib.sha256(said.encode()).hexdigest())

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Proof":
        try:
            fields = json.loads(text)
            steps = tuple(Step(**step | {"outcome": Outcome(step["outcome"])}) for step in fields.pop("steps"))
            found = cls(**fields, steps=steps)
            str(found)  # what cannot be shown is not a proof
            require(all(isinstance(step.number, int) for step in steps), "its steps have no numbers.")
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PosattnError(f"not a proof ({error}): {text!r:.60}. posattn prove writes one.") from None

    def __str__(self) -> str:
        about = f"{self.program}, length {self.length}, {self.dtype}, inputs in {self.domain}"
        lines = [f"{about}:", *(f"  {step}" for step in self.steps)]
        if self.bound is not None and self.found is not None:
            times = f"; the bound is {self.bound / self.found:.3g} times that" if self.found else ""
            lines.append(f"  The largest error that a search found is {self.found:.6g}{times}.")
        left = [step for step in self.steps if step.outcome in (Outcome.OPEN, Outcome.REFUTED)]
        if left:
            named = ", ".join(f"{step.number} is {step.outcome}" for step in left)
            lines.append(f"Not proved: step {named}.")
        elif not self.holds:
            lines.append("Not proved: a step is missing, or an input was found whose error is beyond the bound.")
        elif self.specified:
            lines.append(
                "Proved: the model computes its specification for every input of the domain, up to that bound."
            )
        else:
            lines.append(
                "Proved about the program, which has no specification: the model computes it for every input of the "
                "domain, up to that bound."
            )
        return "\n".join(lines)
