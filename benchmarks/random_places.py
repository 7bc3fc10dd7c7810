"""How long does a step of random places take by tables, and how long layer by layer, on this CPU?

    OMP_NUM_THREADS=1 python benchmarks/random_places.py

Prints a row for every shape (samples, numbers, places): milliseconds of a training step and of an evaluation for one
replica by tables, the best of several in turn with the other form, and their ratio to layer by layer. The first two
are those of the study stochastic-length; the last two look up too few pairs for tables, so both go layer by layer.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from posattn.nn import RandomPlaces, RandomPlacesTransformer
from posattn.nn.fast import layer_by_layer, random_places

SHAPES = ((512, 5, 32), (512, 8, 32), (128, 32, 32), (64, 64, 64), (250, 128, 128), (256, 64, 1024), (4, 512, 1024))
TIMES = 7


def training(form: Callable[..., Tensor], p: dict[str, Tensor], x: Tensor, places: Tensor) -> None:
    leaves = {name: value.detach().requires_grad_(name != "encoding") for name, value in p.items()}
    form(leaves, x, places).square().mean().backward()


def evaluation(form: Callable[..., Tensor], p: dict[str, Tensor], x: Tensor, places: Tensor) -> None:
    with torch.no_grad():
        form(p, x, places)


def best(runs: list[Callable[[], None]]) -> list[float]:
    """Milliseconds of each, the best of several rounds."""
    found = [float("inf")] * len(runs)
    for _ in range(TIMES):
        for index, run in enumerate(runs):
            began = time.process_time()
            run()
            found[index] = min(found[index], 1e3 * (time.process_time() - began))
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    drawing = torch.Generator().manual_seed(0)
    print("| samples, numbers, places | training | ratio | evaluation | ratio |\n|---|---|---|---|---|")
    for samples, numbers, length in SHAPES:
        model = RandomPlacesTransformer(
            length=length, layers=4, encoding="sinusoidal", encoding_dim=32, bias=False, generator=drawing
        )
        sizes: RandomPlaces = model.architecture
        p = {name: value.detach().unsqueeze(0) for name, value in model.weights().items()}
        x = torch.randn(1, samples, numbers, 1, generator=drawing)
        places = torch.rand(1, samples, length, generator=drawing).argsort(-1)[..., :numbers].sort(-1).values
        forms = [partial(random_places.folded, sizes), partial(layer_by_layer.numeric, sizes)]
        cells = []
        for way in (training, evaluation):
            tables, layers = best([partial(way, form, p, x, places) for form in forms])
            cells += [f"{tables:.1f}", f"{tables / layers:.2f}"]
        print(f"| {samples}, {numbers}, {length} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
