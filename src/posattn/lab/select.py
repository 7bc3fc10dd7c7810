"""Select: sparse token selection in closed form, and the length at which a fixed encoding fails."""

# ruff: noqa: N803 (the letters of the paper)

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from posattn.errors import plural, require
from posattn.lab.drawing import Panel, drawn
from posattn.lab.limits import MOST_LENGTH, real, whole
from posattn.lab.panels import Table, panel
from posattn.lab.shown import Note, Shown
from posattn.theory.longer_selection import fixed_loss
from posattn.theory.selection import asymptote, loss, trajectory

MOST_STEPS = 200_000
#: An encoding fails where its loss is more than this share of the loss of answering 0.
FAILS = 0.1
#: Losses that a curve shows.
KEPT = 400
#: Lengths that are tried, as multiples of the trained one.
FARTHEST = 16


def select(T: float, q: float, d: float, eta: float, steps: float, *, note: Note) -> Shown:
    """The trajectory of descent, and what the end of it loses on more tokens."""
    tokens = whole("T", T, least=2, most=MOST_LENGTH)
    subset = whole("q", q, least=1, most=64)
    require(subset <= tokens, f"q={subset}, T={tokens}: a subset has at most all of the tokens.")
    width = whole("d", d, least=1, most=1024)
    rate = real("η", eta, least=1e-6, most=100)
    count = whole("steps", steps, least=1, most=MOST_STEPS)
    note("descending")
    run = trajectory(T=tokens, q=subset, d=width, eta=rate, steps=count, every=max(1, count // KEPT))
    v, g, nothing = float(run.v[-1]), float(run.g[-1]), 0.5 * width / subset
    note("trying more tokens")
    lengths = sorted({round(tokens * 2**power) for power in np.linspace(0, np.log2(FARTHEST), 33)})
    sizes = {"q": subset, "d": width}

    def fixed_at(n: int) -> float:
        return fixed_loss(v, g, T=n, **sizes, trained=tokens)

    def stochastic_at(n: int) -> float:
        return float(loss(v, g, T=n, **sizes))

    fixed, stochastic = ([(n, at(n)) for n in lengths] for at in (fixed_at, stochastic_at))
    limit = FAILS * nothing
    fails = {
        "fixed": _first_above(fixed, limit, fixed_at),
        "stochastic": _first_above(stochastic, limit, stochastic_at),
    }
    steps_taken = [(float(s), float(one)) for s, one in zip(run.step, run.loss, strict=True) if s > 0]
    limit_line = [(s, float(asymptote(s, tokens, rate))) for s, _ in steps_taken]
    limit_line = [(s, value) for s, value in limit_line if value < nothing]
    figure = drawn(
        "Loss by step, and by the number of tokens after the last step.",
        Panel("Descent", "step", "loss", {"closed form": steps_taken, "limit: (T − 1)/(4ηt)": limit_line}),
        Panel(
            "More tokens", "tokens", "loss", {"fixed encoding": fixed, "stochastic encoding": stochastic}, mark=tokens
        ),
    )
    taken = f"{count:,} {plural(count, 'step')}"
    rows = tuple(
        (f"{n:,}", f"{a:.3g}", f"{b:.3g}") for (n, a), (_, b) in list(zip(fixed, stochastic, strict=True))[::4]
    )
    return Shown(
        (
            panel(
                f"{subset} of {tokens:,} tokens",
                [
                    f"After {taken} the loss is {run.loss[-1]:.3g}; answering 0 loses {nothing:.3g}.",
                    _verdict(tokens, lengths[-1], fails),
                ],
                pictures=[figure],
                tables=[Table(caption="Loss by tokens", header=("tokens", "fixed", "stochastic"), rows=rows)],
                notes=[
                    "Closed form of gradient descent on the population loss with one-hot positions, κ = ½.",
                    "Fixed: places after the trained ones have weights 0. Stochastic: an encoding that carries the gap "
                    "between selected and other tokens over to any number of them.",
                    f"Fails: a loss above {FAILS:.0%} of that of answering 0.",
                ],
            ),
        )
    )


def _first_above(points: list[tuple[int, float]], limit: float, at: Callable[[int], float]) -> int | None:
    """The first number of tokens at which a loss that grows with it is above a limit, between the points, too."""
    above = next((place for place, (_, value) in enumerate(points) if value > limit), None)
    if not above:
        return None if above is None else points[0][0]
    between = range(points[above - 1][0] + 1, points[above][0] + 1)
    return between[bisect_left(between, True, key=lambda n: at(n) > limit)]


def _verdict(tokens: int, farthest: int, fails: dict[str, int | None]) -> str:
    fixed, stochastic = fails["fixed"], fails["stochastic"]
    if fixed == tokens:
        return f"Trained so far, it has not learned to select among {tokens:,} tokens: take more steps."
    later = f"holds up to {farthest:,}" if stochastic is None else f"fails at {stochastic:,}"
    if fixed is None:
        return f"Neither encoding fails up to {farthest:,} tokens."
    return f"At {fixed:,} tokens a fixed encoding fails; a stochastic one {later}."
