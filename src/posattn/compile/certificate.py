"""What was promised of a compiled model, what was tried and what came out; sealed to the model's own weights."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from posattn.compile.input_ranges import Domain, largest_bound, shown_domain, shown_grid
from posattn.errors import PosattnError, require


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is promised, what was tried and what came out."""

    program: str
    length: int
    domain: Domain  # inputs lie in ± this, or each in ± its own …
    grid: float | Mapping[str, float] | None  # … and on this grid, or each on its own
    dtype: str
    random: int
    adversarial: int
    exhaustive: int
    climbed: int  # found by moving on from the inputs that err most
    shorter: int  # filled up to the compiled length, and compared with the oracle
    seed: int
    against: tuple[str, ...]
    error: float  # the largest that was seen
    bound: float | None  # what no input exceeds; None where the error of a fit is not proved
    floor: float  # on top of it: what numbers too small for the dtype can add up to
    relative_to: str  # what error and bound are relative to
    compiled: bool  # whether the weights are those that the compiler makes: the bound is about these alone
    fits: tuple[tuple[str, float], ...]  # each fitted function and its own largest error
    # the first input whose error is beyond the bound, or not finite; one row per node
    counterexample: tuple[tuple[float, ...], ...] | None
    digest: str  # of the model's file and of all of the above

    @property
    def holds(self) -> bool:
        """Whether the weights are the compiler's own and every input that was tried stayed within the bound.

        A model with a fit whose error is not proved has no bound, so its certificate never holds.
        """
        return self.bound is not None and self.compiled and self.counterexample is None

    def sealed(self, what: str) -> "Certificate":
        """The same with its digest, for a model with this fingerprint."""
        said = json.dumps(dataclasses.asdict(self) | {"digest": what}, sort_keys=True)
        return dataclasses.replace(self, digest=hashlib.sha256(said.encode()).hexdigest())

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        try:
            fields = json.loads(text)
            for name in ("against", "fits", "counterexample"):
                if fields[name] is not None:
                    fields[name] = tuple(tuple(e) if isinstance(e, list) else e for e in fields[name])
            found = cls(**fields)
            str(found)  # what cannot be shown is not a certificate
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PosattnError(f"not a certificate ({error}): {text!r:.60}. Certificate.to_json writes one.") from None

    def __str__(self) -> str:
        within = shown_domain(self.domain) + shown_grid(self.grid)
        tried = f"{self.random} random, {self.adversarial} adversarial, {self.exhaustive} exhaustive and {self.climbed}"
        verdict = "holds" if self.holds else f"FAILS, first at input {_shown(self.counterexample)}"
        if self.counterexample is None and not self.compiled:
            verdict = "unknown: the weights are not those that the compiler makes, and its bound is not about them"
        if self.counterexample is None and self.bound is None:
            verdict = "fitted, so that only its error is known"
        bound = f"; no input exceeds {self.bound:.2g}" if self.bound is not None else ""
        if self.floor > 2.0**-60 * largest_bound(self.domain):
            bound += f" by more than {self.floor:.2g}, what numbers too small for {self.dtype} can amount to"
        fits = "".join(f"; {name} fitted to {error:.2g}" for name, error in self.fits)
        shorter = f" {self.shorter} shorter inputs were tried too." if self.shorter else ""
        return (
            f"{self.program}, length {self.length}, {self.dtype}, inputs in {within}: {verdict}.\n"
            f"{tried} searched inputs, against {' and '.join(self.against)}: largest error {self.error:.3g} of "
            f"{self.relative_to}{bound}{fits}.{shorter}"
        )


def has_digest(text: str) -> bool:
    """Whether a certificate says which weights it is about; early versions did not."""
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PosattnError(f"not a certificate ({error}).") from None
    require(isinstance(held, dict), f"not a certificate ({held!r:.40}).")
    return "digest" in held


def _shown(counterexample: tuple[tuple[float, ...], ...] | None) -> str:
    rows = counterexample or ()
    return str([row[0] if len(row) == 1 else row for row in rows[:16]]) + (" …" if len(rows) > 16 else "")


def fingerprint(program: str, about: str, tensors: Mapping[str, Tensor]) -> str:
    """A hash of what a certificate is about: the program and what is said of its model, as text, and every weight."""
    found = hashlib.sha256(f"{program}\n{about}\n".encode())
    for name in sorted(tensors):
        held = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {held.dtype} {tuple(held.shape)}\n".encode())
        found.update(held.numpy().tobytes())
    return found.hexdigest()
