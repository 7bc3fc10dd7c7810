"""The attention of a model as a page: a map for every layer and head, and the communication graph that they make."""

from torch import Tensor

from posattn import checks
from posattn.errors import require
from posattn.html import render

#: Numbers that a page may hold: four layers of two heads on 256 nodes.
MOST = 1 << 19


def attention_page(attention: Tensor, *, title: str, step: str = "layer") -> str:
    """Attention weights (layers, heads, nodes, nodes) as one self-contained HTML page.

    `title` says whose they are, `step` what a layer is called: iteration, for a looped model.
    """
    checks.tensor("attention", attention)
    require(
        attention.dim() == 4 and attention.shape[2] == attention.shape[3] and attention.numel() > 0,
        f"attention has shape {tuple(attention.shape)}: give (layers, heads, nodes, nodes), as model.attention() does.",
    )
    require(
        attention.numel() <= MOST,
        f"attention holds {attention.numel():,} weights: a page shows up to {MOST:,}. Use a shorter input.",
    )
    checks.finite("attention", attention)
    weights = [[[[round(w, 4) for w in row] for row in head] for head in layer] for layer in attention.tolist()]
    least = max(1, min(50, round(150 / attention.shape[3])))  # in percent: a little more than an even spread
    data = {"step": checks.text("step", step), "attention": weights}
    return render("attention.html", title=checks.text("title", title), data=data, least=least)
