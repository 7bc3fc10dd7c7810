"""Pictures of what a model has learned: attention head by head, and weights as matrices."""

from matplotlib.figure import Figure
from torch import Tensor


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
