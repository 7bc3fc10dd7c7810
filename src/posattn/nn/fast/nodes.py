"""How a fleet's numbers become nodes: what `posattn.nn.numeric_model.NumericModel` does for one model."""

import torch
from jaxtyping import Float
from torch import Tensor

from posattn import encodings
from posattn.nn.initial_weights import Params
from posattn.nn.numeric_sizes import Numeric
from posattn.nn.standard import Standard


def rows(sizes: Numeric, p: Params, name: str, length: int) -> Float[Tensor, "replicas nodes width"]:
    """The rows of P, or of the constants, for `length` numbers and then for the scratchpad (`NumericModel.rows`)."""
    table, longest = p[name], sizes.length
    if length == longest:
        return table
    if length > longest:
        more = encodings.make(getattr(sizes, name), length + sizes.scratchpad, dim=table.shape[2]).to(table)
        further = more[sizes.nodes :].expand(table.shape[0], -1, -1)
        table = torch.cat([table[:, :longest], further, table[:, longest:]], dim=1)
    return torch.cat([table[:, :length], table[:, table.shape[1] - sizes.scratchpad :]], dim=1)


def inputs(
    sizes: Numeric, p: Params, x: Float[Tensor, "replicas batch length in_dim"]
) -> Float[Tensor, "replicas batch nodes input_width"]:
    """x with the scratchpad's zeros below it, and the constants, and a standard model's P, beside it."""
    names = ["constants"] if sizes.constants is not None else []
    if isinstance(sizes, Standard) and sizes.append_encoding:
        names.append("encoding")
    nodes = torch.nn.functional.pad(x, (0, 0, 0, sizes.scratchpad)) if sizes.scratchpad else x
    if not names:
        return nodes
    tables = (rows(sizes, p, name, x.shape[2]).unsqueeze(1).expand(-1, x.shape[1], -1, -1) for name in names)
    return torch.cat([nodes, *tables], dim=-1)
