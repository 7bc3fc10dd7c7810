"""Can one model serve inputs of every length up to its own?

    posattn run variable-length --preset quick --task sum                       (minutes on two CPU cores)
    posattn run variable-length --preset paper --device cuda                    (hours on one H200)

Back de Luca et al. 2025, appendix: lengths 1 … 8 in equal shares, 500,000 samples in batches of 2,048 of one length,
lr 1e-4, tested on 2,000 samples over all lengths.
"""

import dataclasses

from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import (
    AT_SCALE,
    PROTOCOLS,
    STANDARD,
    TASKS,
    VALIDATION,
    models,
    published_losses,
    scale_places,
    test_sets,
    trial,
)
from posattn.train import TestSet

LENGTHS = tuple(range(1, 9))


@register
class VariableLength(Study):
    name = "variable-length"
    question = "Can one model serve inputs of every length up to its own?"
    answers = "appendix, variable length"
    view = Curves(axis="scale c", at=AT_SCALE, versus=STANDARD)
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "10 min per task, 2 cores", "paper": "3 h, H200"}
    notes = (
        "Our losses are means over the eight lengths. Published test losses are sums over eight batches of one length "
        "each, and are divided by 8 here.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        places = {
            f"{name}, length {length}": place
            for length in LENGTHS
            for name, place in scale_places(protocol.scales).items()
        }
        cases = []
        for arm, model in models(protocol).items():
            usual = trial(task, model, protocol)
            samples, batch, steps, lr = protocol.samples, protocol.batch, protocol.steps, protocol.lr
            if preset == "paper":
                samples, batch, lr = 500_000, 2048, 1e-4
                steps = 2001 * len(LENGTHS) * (samples // len(LENGTHS) // batch)
            options = {name: value for name, value in usual.data.options.items() if name != "length"}
            data = dataclasses.replace(
                usual.data, samples=samples, batch=min(batch, samples // 8), lengths=LENGTHS, options=options
            )
            sets = tuple(
                TestSet(f"{one.name}, length {length}", one.options)
                for length in LENGTHS
                for one in test_sets(protocol, length=length)
            )
            changed = dataclasses.replace(
                usual,
                data=data,
                optimiser=dataclasses.replace(usual.optimiser, steps=steps, lr=lr),
                evaluation=dataclasses.replace(usual.evaluation, sets=sets, samples=protocol.test_samples // 4),
            )
            cases.append(
                Case(
                    task=task, arm=arm, trial=changed, places=places, published=mean_losses(task, arm, protocol.scales)
                )
            )
        return cases


def mean_losses(task: str, arch: str, scales: tuple[int, ...]) -> dict[str, list[float]]:
    """The published losses, those on test sets as means over the lengths."""
    found = published_losses("variable_length_scale", task, arch, scales)
    return {
        name: losses if name == VALIDATION else [loss / len(LENGTHS) for loss in losses]
        for name, losses in found.items()
    }
