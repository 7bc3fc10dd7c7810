"""Programs that have more or fewer outputs than inputs: the model is as long as the longer of the two."""

import torch
from torch import Tensor, nn

from posattn.compile.program import Program


def model_outputs(program: Program, model: nn.Module, x: Tensor) -> Tensor:
    """(batch, length, inputs) → (batch, output nodes, outputs). Nodes without an input start at 0, as they should."""
    missing = program.span - x.shape[1]
    return model(torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x)[:, : program.output_nodes]
