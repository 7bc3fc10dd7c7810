"""A study's answer in one sentence, made of its points: what stands at the far end of its axis, model by model."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from posattn.errors import counted
from posattn.studies.core.points import Point

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, kw_only=True)
class Versus:
    """The two arms that a study's answer compares: the usual one, and the one in question."""

    usual: str
    other: str


def brief(value: float) -> str:
    """A number in as few letters as it takes to compare it.

    >>> brief(0.00007123), brief(0.191), brief(132.4), brief(float("inf")), brief(0.0)
    ('7.1e-5', '0.19', '132', 'inf', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 0.01 <= abs(value) < 1000:
        return f"{value:.3g}" if abs(value) >= 100 else f"{value:.2g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def times(ratio: float) -> str:
    """A ratio to two digits.

    >>> times(1.234), times(52.4), times(694), times(17_730), times(3.2e7)
    ('1.2', '52', '690', '18,000', '3.2e7')
    """
    if not 0.01 <= ratio < 1e5:
        return brief(ratio)
    return f"{float(f'{ratio:.2g}'):,g}"


def percent(share: float) -> str:
    """A share of 1, as 98.3 %."""
    return f"{100 * share:.3g} %"


def span(values: Sequence[float], written: Callable[[float], str] = brief) -> str:
    """The lowest and the highest, or the one that there is.

    >>> span([3.0, 1.0, 2.0]), span([0.5])
    ('1 to 3', '0.5')
    """
    low, high = written(min(values)), written(max(values))
    return low if low == high else f"{low} to {high}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    >>> listed(["sum"]), listed(["sum", "min", "sort"])
    ('sum', 'sum, min and sort')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def furthest(points: Sequence[Point], arms: Sequence[str]) -> list[list[Point]]:
    """For each task that has all the arms, their points at the last place that they share, in their order.

    Where several test sets stand at that place, the last of them counts.
    """
    found = []
    for task in dict.fromkeys(point.task for point in points):
        held = {arm: {p.x: p for p in points if (p.task, p.arm) == (task, arm)} for arm in arms}  # the last one stays
        shared = set.intersection(*(set(places) for places in held.values()))
        if shared:
            found.append([held[arm][max(shared)] for arm in arms])
    return found


def compared(points: Sequence[Point], versus: Versus, *, at: str, measure: str) -> str | None:
    """How many times the other arm's score the usual arm's is, task by task; None where an arm is not there."""
    pairs = furthest(points, (versus.usual, versus.other))
    if not pairs:
        return None
    where, on = placed(at, [one for one, _ in pairs]), _on([one for one, _ in pairs])
    usual, other = [one.median for one, _ in pairs], [one.median for _, one in pairs]
    named, than = f"the {versus.usual} model's {measure}", f"the {versus.other} one's"
    if pairs[0][0].share:
        return f"{where} {named} is {span(usual, percent)}, {than} {span(other, percent)}{on}."
    if not all(0 < value < math.inf for value in (*usual, *other)):
        return f"{where} {named} is {span(usual)}, {than} {span(other)}{on}."
    ratios = [a / b for a, b in zip(usual, other, strict=True)]
    if span(ratios, times) == "1":
        return f"{where} {named} is about {than}{on}."
    return f"{where} {named} is {span(ratios, times)} times {than}{on}."


def ranked(points: Sequence[Point], *, at: str, measure: str) -> str:
    """Which arm is best at the far end, and how far the worst is from it; or, of a single arm, what there is."""
    ends: dict[str, list[Point]] = {}
    for point in points:
        ends.setdefault(point.task, [])
    for task, held in ends.items():
        for arm in dict.fromkeys(point.arm for point in points if point.task == task):
            ((last,),) = furthest([point for point in points if point.task == task], (arm,))
            held.append(last)
    every = [point for held in ends.values() for point in held]
    share, where = every[0].share, placed(at, every)
    written = percent if share else brief
    if len({point.arm for point in every}) == 1:
        return f"{where} “{every[0].arm}” has a {measure} of {span([p.median for p in every], written)}{_on(every)}."
    if not any(math.isfinite(point.median) for point in every):
        return f"{where} no model has a finite {measure}."
    ordered = [sorted(held, key=lambda point: -point.median if share else point.median) for held in ends.values()]
    firsts = [held[0].arm for held in ordered]
    most = max(dict.fromkeys(firsts), key=firsts.count)
    first, last = ("highest", "lowest") if share else ("lowest", "highest")
    best, worst = [held[0] for held in ordered], [held[-1] for held in ordered]
    if len(ordered) == 1:
        said = f"that of “{most}”, {written(best[0].median)}; the {last} is that of “{worst[0].arm}”"
    else:
        said = f"that of “{most}” on {firsts.count(most)} of {counted(len(ordered), 'task')}; the {last}"
    if share or not all(0 < point.median < math.inf for point in (*best, *worst)):
        verb = "," if len(ordered) == 1 else " is"
        return f"{where} the {first} {measure} is {said}{verb} {span([p.median for p in worst], written)}."
    ratios = [high.median / low.median for low, high in zip(best, worst, strict=True)]
    verb = "," if len(ordered) == 1 else " is"
    far = "about as high" if span(ratios, times) == "1" else f"{span(ratios, times)} times as high"
    return f"{where} the {first} {measure} is {said}{verb} {far}."


def _written(x: float) -> str:
    return f"{int(x):,}" if x == int(x) else f"{x:,g}"


def placed(at: str, points: Sequence[Point]) -> str:
    """Where the points stand, as “At {times}the training range” has it for points at one place."""
    low, high = min(point.x for point in points), max(point.x for point in points)
    number = _written(low) if low == high else f"{_written(low)} to {_written(high)}"
    word = WORDS[int(low)] if low == high and low in range(len(WORDS)) else number
    times, s = ("", "") if low == high == 1 else (f"{word} times ", "s")
    return at.format(x=number, times=times, s=s, test_set=points[0].test_set)


def _on(points: Sequence[Point]) -> str:
    """The tasks, where they can be named in a few words."""
    tasks = list(dict.fromkeys(point.task for point in points))
    return f" on {listed(tasks)}" if len(tasks) <= 5 else f" on {counted(len(tasks), 'task')}"
