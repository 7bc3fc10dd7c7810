"""What the k-hop studies share: the GPT-style pair, its training, and the test sets.

50,000 sequences, AdamW 5e-4 with betas (0.9, 0.95), weight decay 0.1 on matrices, gradients clipped at 1, batch 64,
100,000 steps (Back de Luca et al. 2025, section 7 and appendix).
"""

from typing import Any

from posattn import tasks
from posattn.nn import Gpt
from posattn.train import Data, Evaluation, Optimiser, Trial

STEPS = {"smoke": 4, "quick": 2000, "paper": 100_000}
SAMPLES = {"smoke": 16, "quick": 20_000, "paper": 50_000}
BATCH = {"smoke": 8, "quick": 64, "paper": 64}
HEADS = {"khop": 3, "khop-16": 4}
HOPS = (1, 2, 4, 8, 16)


def trial(task: str, preset: str, *, layers: int, positional: bool) -> Trial:
    """One depth of one of the pair."""
    found = tasks.get(task)
    model = Gpt(
        vocabulary=found.vocabulary, length=found.nodes, layers=layers, heads=HEADS[task], positional=positional
    )
    sets: dict[str, dict[str, Any]] = {"validation": {}}
    if task == "khop":
        sets["held-out letters"] = {"held_out": True}
    else:
        sets |= {f"k={hops}": {"hops": hops} for hops in HOPS}
    return Trial(
        task=task,
        model=model,
        data=Data(samples=SAMPLES[preset], batch=BATCH[preset]),
        optimiser=Optimiser(steps=STEPS[preset], name="adamw", lr=5e-4, betas=(0.9, 0.95), weight_decay=0.1, clip=1.0),
        evaluation=Evaluation(samples=8 if preset == "smoke" else 1000, sets=sets),
    )
