"""What is proved about a looped model at one size, beside what is measured there."""

from collections.abc import Callable
from fractions import Fraction

import torch
from torch import Tensor

from posattn import checks
from posattn.errors import require
from posattn.nn import LoopedPositionalTransformer
from posattn.nn.law import Law, check_looped, law
from posattn.nn.schedules import Step
from posattn.theory.looped_errors import Bound, error_bound

#: The largest sizes at which errors are measured: lengths, and sides of graphs and tables.
LONGEST, WIDEST = 65_536, 128
SAMPLES = 4

#: Name → (value, meaning). None: there is no such number.
Facts = dict[str, tuple[str | float | None, str]]


def about_looped(model: LoopedPositionalTransformer, size: int) -> Facts:
    """The law, ε, the bound at a size in real arithmetic and with rounding, and the measured error up to some size."""
    check_looped(model)
    sizes = model.architecture
    proved, rounded = error_bound(model, size), error_bound(model, size, rounding=True)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    facts: Facts = {
        "model": (sizes.schedule, f"symmetry {', '.join(map(str, sizes.symmetry))}; {dtype}; size {size:,}")
    }
    if sizes.sloped or sizes.linear:
        facts |= _law_facts(law(model))
    nearest = "simple fractions" if sizes.sloped else "of min, max and sum"
    facts["step"] = (proved.target, f"what a step nearly is, by the nearest {nearest}")
    facts["epsilon"] = (proved.epsilon, "ε, the largest deviation of one step from that")
    facts["steps"] = (proved.steps, "k, steps that follow one another")
    facts["proved"] = (proved.value, f"the largest error of any input, in real arithmetic, as a share of {proved.of}")
    facts["proved with rounding"] = (
        rounded.value,
        f"the same as computed in {dtype} without gradients, as a share of {rounded.of}",
    )
    if size <= (WIDEST if sizes.schedule in ("pairs", "grid") else LONGEST):
        found = measure(model, size, generator=torch.Generator().manual_seed(0))
        facts["measured"] = (found, f"the largest of {SAMPLES} random inputs, as a share of {proved.of.split(', ')[0]}")
    return facts


def _law_facts(found: Law) -> Facts:
    names = ("self", "partner") if found.linear else ("up", "down")
    facts: Facts = {}
    for role, (pair, near) in enumerate(zip(found.factors, found.snapped, strict=True)):
        for name, given, simple in zip(names, pair, near, strict=True):
            facts[f"role {role} {name}"] = (float(given), f"{simple}, off by {float(given - simple):.3g}")
    return facts


@torch.no_grad()
def measure(model: LoopedPositionalTransformer, size: int, *, generator: torch.Generator) -> float:
    """The largest error on a few random inputs, against the simple step in float64, in the unit of `error_bound`."""
    check_looped(model)
    checks.generator(generator)
    size = checks.whole("size", size, least=1)
    limit = WIDEST if model.architecture.schedule in ("pairs", "grid") else LONGEST
    require(size <= limit, f"size={size}: errors are measured up to {limit:,}.")
    dtype = next(model.parameters()).dtype
    x = _drawn(model.architecture.schedule, size, generator).to(dtype)
    given = model(x.to(model.logits.device)).cpu().double()
    proved = error_bound(model, size)
    wanted = _simple(model, proved, x.double())
    off = (given - wanted).abs()
    if model.architecture.schedule == "pairs" and model.architecture.translation == "potential":
        least, most = x.masked_fill(x <= 0, torch.inf).amin((1, 2)), x.amax((1, 2))  # of each graph
        share = (off / wanted).masked_fill(wanted <= 0, 0.0).amax((1, 2)) * least / most
        return float(share.max()) if size > 1 else 0.0
    unit = {
        "(max x − min x)/2": (x.amax((1, 2)) - x.amin((1, 2))) / 2,
        "max|x|": x.abs().amax((1, 2)),
        "Σ|x|": x.abs().sum((1, 2)),
    }.get(proved.of, x.amax((1, 2)))
    return float((off.amax((1, 2)) / unit.clamp(min=1e-300)).max()) if size > 1 else 0.0


def _drawn(schedule: str, size: int, generator: torch.Generator) -> Tensor:
    """Sequences in ±1; graphs with weights in [1, 2] and a diagonal of 0; tables with costs in [0, 1]."""
    if schedule == "pairs":
        weights = 1 + torch.rand(SAMPLES, size, size, generator=generator, dtype=torch.float64)
        return (weights * (1 - torch.eye(size, dtype=torch.float64))).reshape(SAMPLES, -1, 1)
    if schedule == "grid":
        return torch.rand(SAMPLES, size * size, 3, generator=generator, dtype=torch.float64)
    return 2 * torch.rand(SAMPLES, size, 1, generator=generator, dtype=torch.float64) - 1


def _simple(model: LoopedPositionalTransformer, proved: Bound, x: Tensor) -> Tensor:
    """What the simple step gives, by the same schedule. Comparisons round nothing."""
    sizes = model.architecture
    step = _SimpleStep(model) if sizes.sloped else _named(proved.target.split(", "))
    state = x[..., :1]
    for found, _ in sizes.wiring.iterations(state, x, step, len(sizes.actions)):
        state = found
    if sizes.reads == "all":
        return state
    length = state.shape[1]
    return (state[:, [(length - 1) // 2]] + state[:, [length // 2]]) / 2


class _SimpleStep:
    """The step with simple slopes; min and max are taken as such, so that nothing is rounded but sums."""

    def __init__(self, model: LoopedPositionalTransformer) -> None:
        self.model, self.kinds, self.slopes = model, len(model.kinds), law(model).snapped

    def __call__(self, values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        (invariant,), carrier = self.model.kinds[kind]
        own = _weighed(values, carrier)
        other = _weighed(values, tuple(a + b for a, b in zip(carrier, invariant, strict=True)))
        first = sum(self.model.architecture.wiring.roles[:kind])
        roles = range(self.model.architecture.wiring.roles[kind])
        found = [_between(own, other, *self.slopes[first + each]) for each in roles]
        return _of_role(found, role)


def _between(own: Tensor, other: Tensor, up: Fraction, down: Fraction) -> Tensor:
    if (up, down) == (0, -1):
        return torch.minimum(own, other)
    if (up, down) == (1, 0):
        return torch.maximum(own, other)
    return own + float(up) * (other - own).relu() + float(down) * (own - other).relu()


def _weighed(values: Tensor, row: tuple[Fraction, ...]) -> Tensor:
    """A combination with the factors 0 and 1, which carriers and their candidates are, or any others."""
    terms = [values[:, :, place] * float(factor) for place, factor in enumerate(row) if factor]
    return sum(terms[1:], start=terms[0])


def _of_role(found: list[Tensor], role: Tensor | int) -> Tensor:
    """The answer in each node's role: (batch, m, width) from one such tensor for each role."""
    if isinstance(role, int):
        return found[role]
    return torch.stack(found, dim=2).gather(2, role[None, :, None, None].expand_as(found[0][:, :, None])).squeeze(2)


def _named(targets: list[str]) -> Step:
    functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "min": torch.minimum, "max": torch.maximum, "sum": torch.add,
    }  # fmt: skip

    def step(values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        found = [functions[target](values[:, :, 0], values[:, :, 1]) for target in targets]
        return _of_role(found, role)

    return step
