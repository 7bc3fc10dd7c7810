"""One training step as a CUDA graph, which is replayed without a word from Python."""

from collections.abc import Callable

import torch

#: Steps that run before a graph is captured; their effect is undone.
WARM_UP = 3


def captured(step: Callable[[], None], *, undo: Callable[[], None]) -> Callable[[], None]:
    """Record one step; `undo` takes back what the steps before it have changed."""
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    try:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(side)
        # PyTorch keeps one scratch memory of cuBLAS for the stream of all captures. Graphs that are replayed side by
        # side would write into it at once, and one that ends would free it for all: each has one of its own.
        torch._C._cuda_clearCublasWorkspaces()
        try:
            with torch.cuda.graph(graph):
                step()
        finally:
            torch._C._cuda_clearCublasWorkspaces()
    finally:
        undo()
    return graph.replay
