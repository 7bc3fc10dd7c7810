"""Which trials answer which question: one file a study, named after the question."""

from posattn.studies import (
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
from posattn.studies.base import PRESETS, REGISTRY, Case, Study, get

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
    "variable_length",
]
