"""A trained or looped model at work on one input, as a trace: what every node holds after each layer or iteration.

A layer's state has many numbers. The page shows the one that the model's decoder would read from it, as if the layer
were the last, beside the size of the state; a looped model's state is the number itself.
"""

import torch
from torch import Tensor

from posattn import checks
from posattn.errors import PosattnError, counted, kind_of, require
from posattn.html.trace import Frame, Read, Trace, Update, trace_page
from posattn.nn import LoopedPositionalTransformer, NumericModel
from posattn.report.inside import looped_reads, looped_updates, numbers, reads_of, traced

NUMBER, SIZE = "number", "size of the state"
#: Nodes of which a page shows an MLP's inside; more would make it too large.
MOST_INSIDE = 70


def model_trace(
    model: NumericModel | LoopedPositionalTransformer,
    x: Tensor,
    *,
    exact: Tensor | None = None,
    title: str | None = None,
) -> Trace:
    """The trace of one input of shape (length, in_dim).

    `exact`: the right answer, a number for every node, where it is known. `title`: what the model is called.
    """
    checks.tensor("x", x)
    require(x.dim() == 2, f"x has shape {tuple(x.shape)}: give one input, (length, numbers per node).")
    looped = isinstance(model, LoopedPositionalTransformer)
    if not looped and not (isinstance(model, NumericModel) and model.takes_numbers_alone):
        raise PosattnError(f"the model is {kind_of(model)}: models for lists of numbers can be traced.")
    frames = _looped_frames(model, x) if isinstance(model, LoopedPositionalTransformer) else _frames(model, x)
    if exact is not None:
        checks.tensor("exact", exact)
        require(
            tuple(exact.shape) == (len(x),),
            f"exact has shape {tuple(exact.shape)}: give a number for each of the {len(x)} nodes, ({len(x)},).",
        )
        checks.finite("exact", exact)
    named = f"{model.architecture.kind} model" if title is None else checks.text("title", title)
    return Trace(
        title=f"{named} on {counted(len(x), 'number')}",
        step="iteration" if looped else "layer",
        frames=frames,
        length=len(x),
        shown=NUMBER,
        said=None if looped else _scratchpad(model, len(x)),
        exact=None if exact is None else numbers(exact),
    )


def model_page(
    model: NumericModel | LoopedPositionalTransformer,
    x: Tensor,
    *,
    exact: Tensor | None = None,
    title: str | None = None,
) -> str:
    """The trace as one self-contained HTML page, as `posattn trace --html` writes it."""
    return trace_page(model_trace(model, x, exact=exact, title=title))


def model_text(trace: Trace) -> str:
    """The trace for a terminal: what every node holds, step by step."""
    lines = [trace.title]
    for place, frame in enumerate(trace.frames):
        name = f"{trace.step} {place}" if place else "input"
        lines.append(f"{name:>12}  {' '.join(f'{v:.6g}' for v in list(frame.registers[NUMBER])[: trace.length])}")
    if trace.exact is not None:
        lines.append(f"{'exact':>12}  {' '.join(f'{v:.6g}' for v in trace.exact)}")
    return "\n".join(lines)


def _scratchpad(model: NumericModel, length: int) -> str | None:
    count = model.architecture.scratchpad
    where = f"node {length} is" if count == 1 else f"nodes {length} to {length + count - 1} are"
    return f"{where.capitalize()} the scratchpad." if count else None


def _frames(model: NumericModel, x: Tensor) -> list[Frame]:
    """The input, then every layer: its attention, its MLP, and what the decoder makes of its state."""
    steps, held = traced(model, x[None].to(next(model.parameters())))
    encoder, *layers = [step for step in steps if step.name != "decoder"]
    shown = torch.zeros(encoder.state.shape[1])
    shown[: len(x)] = x[:, 0].to(shown)
    found = [Frame(note="the input", registers=_registers(shown, encoder.state))]
    before = encoder.state
    for step in layers:
        assert step.attention is not None
        reads = reads_of(step.attention, shown)
        inside = {}
        if len(shown) <= MOST_INSIDE:
            inside = {"state before": before, "attention brings": held.get(f"{step.name}.output")}
            inside |= {"MLP, hidden": held.get(f"{step.name}.mlp_in"), "state after": step.state}
        with torch.no_grad():
            shown = model.decoder(step.state)[0, :, 0].cpu()
        if model.architecture.carried:  # relative to the first number
            shown = shown + x[0, 0].to(shown)
        found.append(
            Frame(
                note="as the decoder would read it",
                registers=_registers(shown, step.state),
                heads=[f"head {head + 1}" for head in range(step.attention.shape[-3])],
                reads=reads,
                inside={
                    name: [numbers(row.relu() if "hidden" in name else row) for row in state[0]]
                    for name, state in inside.items()
                    if state is not None
                },
            )
        )
        before = step.state
    return found


def _registers(shown: Tensor, state: Tensor) -> dict[str, list[float]]:
    return {NUMBER: numbers(shown), SIZE: numbers(state[0].square().mean(-1).sqrt())}


def _looped_frames(model: LoopedPositionalTransformer, x: Tensor) -> list[Frame]:
    """The input, then every iteration: whom a node reads, and its number as carrier plus the MLP's answer."""
    batch = x[None].to(next(model.parameters()))
    steps, _ = traced(model, batch)
    *iterations, answer = steps
    wide = model.architecture.state_dim
    names = [NUMBER, *(f"state {place}" for place in range(2, wide + 1))]
    before = batch[0, :, :1]
    first = [before[:, 0], *(torch.zeros_like(before[:, 0]) for _ in names[1:])]
    found = [Frame(note="the input", registers={name: numbers(v) for name, v in zip(names, first, strict=True)})]
    for place, step in enumerate(iterations):
        state, updates = step.state[0], list[Update]()
        heads, reads = looped_reads(model, place, step.attention, before[:, 0])
        if wide == 1:
            updates = looped_updates(model, place, before[:, 0], state[:, 0])
        registers = {name: numbers(column) for name, column in zip(names, state.T, strict=True)}
        inside = {} if wide == 1 else {"state before": before, "state after": state}
        found.append(
            Frame(
                note="the same layer again" if place else "one layer for all iterations",
                registers=registers,
                heads=heads,
                reads=reads,
                updates=updates,
                inside={name: [numbers(row) for row in rows] for name, rows in inside.items()},
            )
        )
        before = state
    if not torch.equal(answer.state[0, :, 0], before[:, 0]):
        own = [Read(node, node, value, 1.0, 0) for node, value in enumerate(numbers(before[:, 0]))]
        registers = dict(found[-1].registers) | {NUMBER: numbers(answer.state[0, :, 0])}
        found.append(Frame(note="the answer, read from the state", registers=registers, heads=["own"], reads=own))
    return found
