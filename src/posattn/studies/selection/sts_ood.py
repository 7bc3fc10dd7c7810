"""How does a trained selector do on other lengths and other subset sizes?

    posattn run sts-ood                                                         (minutes on two CPU cores)
    posattn run sts-ood --preset paper --device cuda                            (minutes on one H200)

Wang et al. 2024, Fig. 4: the loss at the end of training by T_test and by q_test. The models are those of
sts-convergence and sts-length: what one study has trained, the others find in the store.
"""

from posattn.studies.core.study import Case, register
from posattn.studies.selection.closed_form import Descent
from posattn.studies.selection.protocol import LEVEL, LEVEL_LABEL, PROTOCOLS, SelectionStudy


@register
class StsOod(SelectionStudy):
    name = "sts-ood"
    question = "How does a trained selector do on other lengths and other subset sizes?"
    answers = "Fig. 4"
    axis = "T_test or q_test"
    cost = {"smoke": "seconds", "quick": "3 min, 2 cores", "paper": "3 min, H200"}
    levels = {"by length T": (LEVEL, LEVEL_LABEL)}
    notes = (
        "One-hot encodings have no places beyond T. The closed form is there with the gap and the value that it has "
        "learned at T. Sizes as in training are in both panels.",
        "For smaller subsets than in training, the value v that training has found is too large: the closed form says "
        "so, too.",
        "Published: every fixed encoding ends at 0.15 or more on longer inputs, stochastic ones go to 0.",
    )

    def places(self, case: Case, test_set: str) -> list[tuple[str, float]]:
        sizes = case.trial.test_sets[0].options
        trained = {"T": sizes["length"], "q": sizes["subset_size"]}
        panels = {"T": "by length T", "q": "by subset size q"}
        if test_set == "validation":
            return [(panels[letter], float(size)) for letter, size in trained.items()]
        letter, number = test_set.split("=")
        return [(panels[letter], float(number))]

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        trained = [self.trial(protocol, encoding) for encoding in ("one-hot", "near-orthogonal", "stochastic")]
        return [*map(self.case, trained), *self.closed_forms(protocol, Descent)]
