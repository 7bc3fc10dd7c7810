"""What the models of seed 0 have learned, as pictures: attention head by head, and weights as matrices."""

import os
import re
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from posattn.engine import Store
from posattn.nn import PositionalTransformer, Selector, load
from posattn.report.figures import rendered
from posattn.studies.core.results import Results
from posattn.train.random_streams import stream


def learned(results: Results, out: str | os.PathLike[str]) -> dict[str, tuple[str, bytes]]:
    """What the models of seed 0 have learned: a caption and a picture by the name of its file.

    Of positional models one picture per task; of selectors all.
    """
    pictures: dict[str, tuple[str, bytes]] = {}
    for case in results.cases:
        path = Store(out).path(case.seeded(0)) / "weights.safetensors"
        if not path.is_file():  # a store that was passed on without weights
            continue
        what, name = f"{case.arm} on {case.task}", f"attention-{case.task}"
        if case.arm == "positional" and name not in pictures:
            model = load(path)
            if isinstance(model, PositionalTransformer):
                caption = f"Learned attention, {what}, seed 0: row i shows where node i reads from."
                pictures[name] = caption, rendered(attention_map(model.attention(), what), "png")
        elif isinstance(case.trial.architecture, Selector) and results.study.view.weight_maps:
            caption = (
                f"Weights before and after training, {what}, seed 0. W has a column for every dimension of e_query, "
                "V a row for every output; lines part tokens from positions."
            )
            sizes = case.trial.architecture
            figure = weight_maps(_before_and_after(sizes, path), what, dim=sizes.dim)
            pictures["weights-" + re.sub(r"[^\w=]+", "-", case.arm)] = caption, rendered(figure, "png")
    return pictures


def _before_and_after(sizes: Selector, path: Path) -> dict[str, Tensor]:
    """W and V of a selector, as drawn for seed 0 and as trained."""
    found: dict[str, Tensor] = {}
    shown = 4 * sizes.dim  # columns of V: a picture of all would not show the few that matter
    for when, held in (("start", sizes.init(stream(0, "weights"))), ("end", load(path).weights())):
        matrices = sizes.matrices({name: tensor.unsqueeze(0) for name, tensor in held.items()})
        found |= {f"W, {when}": matrices[0][0], f"V, {when}, first {shown} columns": matrices[1][0, :, :shown]}
    return dict(sorted(found.items(), key=lambda entry: (entry[0][0] == "V", "end" in entry[0])))


def weight_maps(matrices: dict[str, Tensor], title: str, *, dim: int) -> Figure:
    """W (tokens and positions below each other) and V (beside each other), on scales that are symmetric around 0."""
    figure = Figure(figsize=(3.0 * len(matrices), 3.2), layout="constrained")
    axes = figure.subplots(1, len(matrices), squeeze=False)[0]
    for panel, (name, matrix) in zip(axes, matrices.items(), strict=True):
        values = matrix.detach().cpu().numpy()
        most = max(float(abs(values).max()), 1e-12)
        drawn = panel.imshow(values, vmin=-most, vmax=most, cmap="RdBu", aspect="auto", interpolation="nearest")
        part = panel.axhline if name.startswith("W") else panel.axvline
        part(dim - 0.5, color="#555555", linewidth=0.6)
        panel.set_title(name, fontsize=8)
        panel.tick_params(labelsize=6)
        figure.colorbar(drawn, ax=panel, shrink=0.8).ax.tick_params(labelsize=6)
    figure.suptitle(title, fontsize=9)
    return figure


def attention_map(attention: Tensor, title: str) -> Figure:
    """Every head of every layer as a picture: row i shows where node i reads from; the scratchpad is last."""
    layers, heads = attention.shape[:2]
    figure = Figure(figsize=(1.25 * layers, 1.35 * heads + 0.35), layout="constrained")
    axes = figure.subplots(heads, layers, squeeze=False)
    for layer in range(layers):
        for head in range(heads):
            panel = axes[head][layer]
            panel.imshow(attention[layer, head].detach().cpu().numpy(), vmin=0, vmax=1, cmap="Blues")
            panel.set_xticks([])
            panel.set_yticks([])
            panel.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7)
    figure.suptitle(title, fontsize=9)
    return figure
