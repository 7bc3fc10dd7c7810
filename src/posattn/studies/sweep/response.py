"""How losses respond to each field of a sweep, as pictures: the best median at each value, whatever the others are."""

from posattn.studies.core.points import Curve, Picture, Point
from posattn.studies.sweep.tried import Sweep, Tried, best
from posattn.studies.sweep.validation import VALIDATION
from posattn.train.changes import written

#: Values of one field that are drawn as numbers when they span more than this factor, on a logarithmic axis.
WIDE = 20


def pictures(sweep: Sweep) -> list[Picture]:
    """One panel per field and task, a curve per model: at each value the best setting that has it, all its seeds."""
    found = []
    for path in sweep.request.space.fields:
        for task in dict.fromkeys(case.task for case in sweep.cases):
            curves = {
                named(case.arm, case.x): _response([one for one in sweep.of(case) if path in one.setting], path)
                for case in sweep.cases
                if case.task == task
            }
            found.append(_picture(path, task, curves))
    return found


def named(arm: str, x: float | None) -> str:
    """What a case is called where several of an arm differ in their place on the study's axis."""
    return arm if x is None else f"{arm} at {x:g}"


def _response(tried: list[Tried], path: str) -> list[tuple[object, Tried]]:
    """By value of a field, the best of the settings that have it."""
    values = list(dict.fromkeys(one.setting[path] for one in tried))
    chosen = [(value, best([one for one in tried if one.setting[path] == value])) for value in values]
    return [(value, one) for value, one in chosen if one is not None]


def _picture(path: str, task: str, curves: dict[str, list[tuple[object, Tried]]]) -> Picture:
    values = list(dict.fromkeys(value for line in curves.values() for value, _ in line))
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    places = {value: float(value) if numbers else at for at, value in enumerate(values)}  # pyright: ignore[reportArgumentType]
    ticks = tuple(sorted(places.values()))
    drawn = tuple(
        Curve(
            arm=arm,
            label=arm,
            marker="o",
            points=tuple(
                Point(task, arm, VALIDATION, places[value], one.losses, (), tuple(range(len(one.losses))))
                for value, one in sorted(line, key=lambda entry: places[entry[0]])
            ),
        )
        for arm, line in curves.items()
        if line
    )
    lowest = min((min(point.ours) for curve in drawn for point in curve.points), default=0.0)
    return Picture(
        title=task,
        curves=drawn,
        x_label=path,
        y_label="validation loss",
        log=lowest > 0,
        log_x=numbers and bool(ticks) and ticks[0] > 0 and ticks[-1] >= WIDE * ticks[0],
        ticks=ticks,
        tick_labels=() if numbers else tuple(written("", value)[1:] for value in values),
    )
