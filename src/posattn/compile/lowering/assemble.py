"""The parts of a compiled model, each put in its place in the weights of a positional Transformer.

Register r is dimension r of the state. Head h reads through the columns h·width … of the value matrix, and the MLP
sees them behind the state.
"""

from collections.abc import Sequence

import numpy as np
import torch

from posattn.compile.expressions import Array
from posattn.compile.lowering.heads import Heads
from posattn.compile.lowering.mlp_matrices import Network
from posattn.compile.lowering.positions import Positions
from posattn.compile.program import ONE, Program
from posattn.errors import require
from posattn.nn import ExactPositional, ExactPositionalTransformer, model_of


def assemble(
    program: Program,
    registers: tuple[str, ...],
    heads: Sequence[Heads],
    positions: Positions,
    networks: Sequence[Network],
    dtype: torch.dtype,
) -> ExactPositionalTransformer:
    """The model, with every matrix in its place."""
    constants = [name for name in registers if name in program.constants or name == ONE]
    architecture = _architecture(program, len(registers), len(constants), heads, positions, networks)
    w = {name: np.zeros(shape) for name, shape in architecture.shapes().items()}
    place = {name: number for number, name in enumerate(registers)}
    _fill_ends(w, program, constants, place)
    w["encoding"] = positions.matrix
    for layer, (head, net) in enumerate(zip(heads, networks, strict=True)):
        _fill_attention(w, layer, head, positions, count=architecture.heads, nodes=program.nodes)
        arriving = _fill_values(w, layer, head, place, embed=architecture.embed_dim, count=architecture.heads)
        _fill_mlp(w, layer, net, rows=[*place.values(), *arriving], columns=list(place.values()))
    model = model_of(architecture, _tensors(w, dtype))
    assert isinstance(model, ExactPositionalTransformer)
    return model


def _architecture(
    program: Program,
    registers: int,
    constants: int,
    heads: Sequence[Heads],
    positions: Positions,
    networks: Sequence[Network],
) -> ExactPositional:
    """The smallest sizes that hold everything: as many heads as the busiest layer has, each as wide as the widest."""
    count = max(1, *(len(head.patterns) for head in heads))
    most = max([1, *(len(carried) for head in heads for carried in head.carried)])
    width = max(most, -(-registers // count))
    return ExactPositional(
        length=program.span,
        scratchpad=len(positions.matrix) - program.span,
        in_dim=len(program.inputs),
        out_dim=len(program.outputs),
        embed_dim=count * width,
        heads=count,
        layers=len(networks),
        hidden_dim=max(net.width for net in networks),
        mlp_layers=len(networks[0].matrices),
        bias=False,
        encoding="given",
        encoding_dim=positions.width,
        constants="given" if constants else None,
        constants_dim=constants or None,
    )


def _fill_ends(w: dict[str, Array], program: Program, constants: Sequence[str], place: dict[str, int]) -> None:
    """Inputs and constants into their registers, and output registers into the outputs."""
    for column, name in enumerate(program.inputs):
        w["encoder_weight"][column, place[name]] = 1.0
    for column, name in enumerate(constants):
        w["constants"][: program.nodes, column] = program.constants.get(name, (1.0,) * program.nodes)
        w["encoder_weight"][len(program.inputs) + column, place[name]] = 1.0
    for column, name in enumerate(program.outputs):
        w["decoder_weight"][place[name], column] = 1.0


def _fill_attention(
    w: dict[str, Array], layer: int, head: Heads, positions: Positions, *, count: int, nodes: int
) -> None:
    """Queries and keys; in idle heads, nodes read themselves."""
    for h in range(count):
        block = slice(h * positions.width, (h + 1) * positions.width)
        pattern = head.patterns[h] if h < len(head.patterns) else tuple(range(nodes))
        w["query_weight"][layer][:, block] = positions.queries[pattern]
        w["key_weight"][layer][:, block] = positions.key


def _fill_values(
    w: dict[str, Array], layer: int, head: Heads, place: dict[str, int], *, embed: int, count: int
) -> list[int]:
    """What each head carries; the rows of the MLP's input at which it arrives."""
    arriving = []
    for h, carried in enumerate(head.carried):
        for c, register in enumerate(carried):
            column = h * (embed // count) + c
            w["value_weight"][layer][place[register], column] = 1.0
            arriving.append(embed + column)
    w["output_weight"][layer] = np.eye(embed)
    return arriving


def _fill_mlp(w: dict[str, Array], layer: int, net: Network, *, rows: list[int], columns: list[int]) -> None:
    """An MLP's matrices within the model's; units beyond the MLP's own stay at 0."""
    first, *middle, last = net.matrices
    w["mlp_in_weight"][layer][rows, : first.shape[1]] = first
    for number, matrix in enumerate(middle):
        w["mlp_middle_weight"][layer][number, : matrix.shape[0], : matrix.shape[1]] = matrix
    w["mlp_out_weight"][layer][: last.shape[0], columns] = last


def _tensors(w: dict[str, Array], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The weights in the model's dtype, which has to hold every one of them."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)).to(dtype) for name, value in w.items()}
    lost = [name for name, value in w.items() if ((value != 0) & (np.abs(value) < torch.finfo(dtype).tiny)).any()]
    require(not lost, f"{', '.join(lost)}: a factor is too small for {dtype}. Scale it, or compile in torch.float64.")
    large = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    require(not large, f"{', '.join(large)}: too large for {dtype}. Compile for a smaller domain, or in float64.")
    return tensors
