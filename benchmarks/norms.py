"""How much faster are the norms of a hundred models at once than in a loop over models and layers?

    python benchmarks/norms.py

The paper's size, two threads on two cores of an Intel Xeon at 2.8 GHz: three runs gave 4.0, 3.3 and 3.0 (666 to 882 ms
against 220 ms).
"""

import torch

from posattn.nn import Positional, model_of
from posattn.theory.norms import LAYER_MAPS, norms
from timing import seconds

MODELS = 100


@torch.no_grad()
def loop(models: list) -> list[tuple[float, float]]:
    """What one writes first: every matrix by itself, with torch's own norms."""
    found = []
    for model in models:
        spectral, column = 0.0, 0.0
        for name in (*LAYER_MAPS, "encoder", "decoder"):
            weight = model.weights().get(f"{name}_weight")
            if weight is None:
                continue
            for matrix in weight.reshape(-1, *weight.shape[-2:]):
                spectral = max(spectral, float(torch.linalg.matrix_norm(matrix, 2)))
                column = max(column, float(matrix.norm(dim=0).sum()))
        found.append((spectral, column))
    return found


def main() -> None:
    torch.set_num_threads(2)
    architecture = Positional()
    models = [model_of(architecture, architecture.init(torch.Generator().manual_seed(seed))) for seed in range(MODELS)]
    stacked = {name: torch.stack([model.replica()[name][0] for model in models]) for name in models[0].replica()}
    together = norms(architecture, stacked)
    for (spectral, column), a, b in zip(loop(models), together.spectral, together.column, strict=True):
        assert abs(spectral - a) < 1e-4 * a
        assert abs(column - b) < 1e-4 * b
    slow, fast = seconds(lambda: loop(models)), seconds(lambda: norms(architecture, stacked))
    print(f"loop {1e3 * slow:.0f} ms, together {1e3 * fast:.0f} ms, ratio {slow / fast:.1f}")


if __name__ == "__main__":
    main()
