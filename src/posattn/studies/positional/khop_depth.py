"""How deep must a model be to follow k induction hops?

    posattn run khop-depth --task khop --preset quick                           (a quarter of an hour on two cores)
    posattn run khop-depth --task khop --preset paper --device cuda             (half an hour on one H200)
    posattn run khop-depth --task khop --preset paper --model "by tables"       (minutes on two CPU cores)
    posattn run khop-depth … --option standard_layers=4                         (the standard model up to 4 layers)

Back de Luca et al. 2025, Fig. 3: up to 3 hops, depth 1 … 8. Task `khop-16` is the setting of Sanford, Hsu, Telgarsky
2024 with up to 16 hops, beside that paper's error table (as accuracy). Hops take their time to be learned: after the
2,000 steps of the quick preset three standard layers find 57 % of the letters and three positional ones 53 %, after
the 100,000 of the paper 99.9 and 86 % (GELU in the erf form).
"""

from posattn.studies.core.study import register
from posattn.studies.core.views import CurvesOverCases
from posattn.studies.positional.khop_protocol import TABLES_NOTE, KHopStudy
from posattn.studies.positional.numeric_protocol import STANDARD


@register
class KHopDepth(KHopStudy):
    name = "khop-depth"
    question = "How deep must a model be to follow k induction hops?"
    answers = "Fig. 3"
    view = CurvesOverCases(
        axis="layers",
        score="metric",
        measure="token accuracy",
        share=True,
        at="With {x} layer{s}",
        versus=STANDARD,
        decided_on="validation",
    )
    tasks = ("khop", "khop-16")
    notes = (
        "Accuracy over letters; position 0, always blank, is left out, and with up to 16 hops so are letters without "
        "an answer. All models are also kept for khop-ood.",
        "The published figures for up to 16 hops are of GPT-2 models (4 heads, width 128, layer norm) in one run each: "
        "100,001 steps of batch 32 on fresh samples, AdamW from 1e-4 down to 0 after 1,000 steps of warm-up. Ours have "
        "width 60 and no layer norm, and train as for three hops.",
        TABLES_NOTE,
    )
