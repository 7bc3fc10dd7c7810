"""A program's communication as a picture: nodes from top to bottom, rounds from left to right, a line for each word."""

from matplotlib.figure import Figure

from posattn.compile.program import Program
from posattn.errors import counted

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw(program: Program) -> Figure:
    """The communication graph; slots that read from the same nodes are drawn once, reading oneself is a plain line."""
    rounds = len(program.rounds)
    size = (min(1.2 + 0.75 * max(1, rounds), 30), min(1.0 + 0.28 * program.nodes, 30))
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    for node in range(program.nodes):
        panel.plot([0, rounds], [node, node], color="#8885", linewidth=0.6, zorder=1)
    for number, round_ in enumerate(program.rounds):
        patterns = dict.fromkeys(tuple(s and s[0] for s in table) for table in round_.receive.values())
        for colour, pattern in zip(COLOURS * len(patterns), patterns, strict=False):
            for node, source in enumerate(pattern):
                if source is not None and source != node:
                    panel.plot([number, number + 1], [source, node], color=colour, linewidth=0.8, zorder=2)
    places = [(x, node) for x in range(rounds + 1) for node in range(program.nodes)]
    panel.scatter(*zip(*places, strict=True), s=9, color="#333", zorder=3)
    panel.set_xticks(range(rounds + 1))
    panel.set_yticks(range(program.nodes), [str(n) for n in range(program.nodes)], fontsize=6)
    panel.invert_yaxis()
    panel.set_xlabel("round")
    panel.set_ylabel("node")
    panel.set_title(f"{program.name}: {counted(program.nodes, 'node')}, {counted(rounds, 'round')}", fontsize=10)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return figure
