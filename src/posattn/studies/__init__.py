"""Which trials answer which question: one file a study, named after the question."""

from posattn.studies.core.study import PRESETS, REGISTRY, Case, Study, get
from posattn.studies.length import stochastic_length
from posattn.studies.positional import (
    ablation,
    accuracy,
    bounds_vs_gap,
    encodings,
    khop_depth,
    khop_ood,
    mixed_type,
    ood_scale,
    rotary,
    sample_complexity,
    sizes,
    small_standard,
    variable_length,
)
from posattn.studies.selection import (
    sts_adam,
    sts_bound,
    sts_choices,
    sts_convergence,
    sts_fcn,
    sts_heatmap,
    sts_length,
    sts_ood,
)

__all__ = [
    "PRESETS",
    "REGISTRY",
    "Case",
    "Study",
    "ablation",
    "accuracy",
    "bounds_vs_gap",
    "encodings",
    "get",
    "khop_depth",
    "khop_ood",
    "mixed_type",
    "ood_scale",
    "rotary",
    "sample_complexity",
    "sizes",
    "small_standard",
    "stochastic_length",
    "sts_adam",
    "sts_bound",
    "sts_choices",
    "sts_convergence",
    "sts_fcn",
    "sts_heatmap",
    "sts_length",
    "sts_ood",
    "variable_length",
]
