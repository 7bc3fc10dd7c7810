"""The answer to a study's question in one sentence, and what to bear in mind when reading it."""

from posattn.errors import counted
from posattn.studies.core.results import Results


def answer(results: Results) -> str:
    """The study's own sentence, made of the rows of trained models; of what is computed where nothing was trained."""
    computed = {case.arm for case in results.cases if not case.trial.trained}
    trained = [point for point in results.points if point.arm not in computed]
    return results.study.sentence(trained or results.points)


def caveats(results: Results) -> list[str]:
    """What makes the answer weaker: few seeds, a short preset, changes, and models that diverged or are not there."""
    counts = sorted({len(point.seeds) for point in results.points})
    several = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else counted(counts[0], "seed")
    found = ["One seed" if counts == [1] else f"Medians of {several}"]
    if results.preset == "smoke":
        found.append("the smoke preset only shows that everything runs")
    elif results.preset != "paper":
        found.append(f"the {results.preset} preset trains less than the paper did")
    if results.changes:
        found.append(f"{counted(len(results.changes), 'setting')} changed")
    if results.diverged:
        found.append(f"{counted(len(results.diverged), 'trial')} diverged")
    if results.record.left_out:
        found.append(f"without {', '.join(results.record.left_out)}")
    return found
