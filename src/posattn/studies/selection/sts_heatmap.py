"""What is left of random first weights?

    posattn run sts-heatmap                                                     (minutes on two CPU cores)
    posattn run sts-heatmap --preset paper --device cuda                        (a minute on one H200)

Wang et al. 2024, Fig. 3: W and V before and after, from random weights; only the position block of W and the token
block of V grow. The report shows both matrices as pictures, the tables their blocks' sizes.
"""

import dataclasses
from collections.abc import Sequence

from posattn.studies.core.case import Case
from posattn.studies.core.points import Level, Point
from posattn.studies.core.sentence import span, times
from posattn.studies.core.study import register
from posattn.studies.core.views import Panel, ThroughTraining
from posattn.studies.selection.protocol import PROTOCOLS, SelectionStudy

#: In the place of the protocol's: the picture does not change any more.
STEPS = {"smoke": 8, "quick": 2000, "paper": 30_000}
#: Of the first weights; the paper's is not known.
DEVIATION = 0.05
BLOCKS = ("W tokens", "W positions", "V tokens", "V positions")
#: The blocks that survive, as published, and those that do not.
SURVIVING = {"W positions": "W tokens", "V tokens": "V positions"}


PANELS = (
    *(Panel(title=f"size of {block}", score=f"norm {block}") for block in BLOCKS),
    *(
        Panel(
            title=f"cosine of {matrix} with {matrix}*",
            score=f"cosine {matrix}",
            share=True,
            log=False,
            level=Level(1.0, "published: → 1"),
        )
        for matrix in ("W", "V")
    ),
)


@register
class StsHeatmap(SelectionStudy):
    name = "sts-heatmap"
    question = "What is left of random first weights?"
    answers = "Fig. 3"
    view = ThroughTraining(panels=lambda _: PANELS)
    cost = {"smoke": "seconds", "quick": "2 min, 2 cores", "paper": "2 min, H200"}
    notes = (
        f"First weights are normal with deviation {DEVIATION}. A block's size is the root mean square of its entries; "
        "columns of W that meet x_query = 0 are never used and not held.",
        "Published: only W's position block and V's token block survive.",
    )

    def sentence(self, points: Sequence[Point]) -> str:
        """The blocks that should survive, over the others."""
        ends = {(p.arm, p.test_set): p.median for p in self.view.summarised(points)}
        found = {
            kept: [
                ends[arm, f"norm {kept}"] / ends[arm, f"norm {lost}"]
                for arm in dict.fromkeys(arm for arm, _ in ends)
                if ends[arm, f"norm {lost}"] > 0
            ]
            for kept, lost in SURVIVING.items()
        }
        said = [
            f"{kept} is {span(ratios, times)} times as large as {SURVIVING[kept]}"
            for kept, ratios in found.items()
            if ratios
        ]
        return f"At the end of training {' and '.join(said)}." if said else self.view.sentence(points)

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = dataclasses.replace(PROTOCOLS[preset], steps=STEPS[preset])
        return [
            self.case(self.trial(protocol, encoding, deviation=DEVIATION))
            for encoding in ("near-orthogonal", "stochastic")
        ]
