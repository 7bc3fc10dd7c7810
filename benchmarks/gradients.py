"""How far are the gradients of the fast forms from float64 on a GPU?

    python benchmarks/gradients.py

Three seeds are trained for 300 steps on `sum` in float32. Then the gradient of the loss over one batch, by the form
that a fleet takes at each precision, beside that of the model itself in float64: the norm of the difference as a part
of the norm.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from posattn import tasks
from posattn.bench import MODELS, TASK
from posattn.nn import Architecture, Standard
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.choose import fast_form
from posattn.nn.initial_weights import Params
from posattn.train import Data, Fleet, Optimiser, Trial
from timing import needs_gpu

STEPS, SEEDS, BATCH = 300, 3, 1000


def trained(model: Architecture) -> Params:
    """Weights of all seeds after some steps, with a leading replica axis."""
    data, optimiser = Data(samples=10 * BATCH, batch=BATCH), Optimiser(steps=STEPS)
    trials = [Trial(task=TASK, model=model, data=data, optimiser=optimiser, seed=seed) for seed in range(SEEDS)]
    fleet = Fleet(trials, device="cuda")
    for _ in fleet.run():
        pass
    return {name: tensor.detach() for name, tensor in fleet.parameters.chunks[0].items()}


def gradient(form: Callable[..., Tensor], p: Params, x: Tensor, y: Tensor) -> Tensor:
    """All gradients of all replicas in one row; 0 where a form leaves out what cannot matter."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in p.items()}
    (form(leaves, x).to(y.dtype) - y).square().mean((1, 2, 3)).sum().backward()
    grads = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves.values()]
    return torch.cat([grad.flatten().double() for grad in grads])


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    needs_gpu()
    for name, model in {**MODELS, "rotary": Standard(rotary=True)}.items():
        p = trained(model)
        drawing = torch.Generator("cuda").manual_seed(7)
        drawn = [tasks.get(TASK).sample(BATCH, generator=drawing) for _ in range(SEEDS)]
        x, y = (torch.stack(parts) for parts in zip(*drawn, strict=True))
        exact = {key: tensor.double() for key, tensor in p.items()}
        expected = gradient(mapped(model), exact, x.double(), y.double())
        for precision in ("float32", "tf32", "bf16"):
            torch.backends.cuda.matmul.fp32_precision = "ieee" if precision == "float32" else "tf32"
            found = gradient(fast_form(model, device=torch.device("cuda"), precision=precision), p, x, y)
            torch.backends.cuda.matmul.fp32_precision = "ieee"
            print(f"{name}, {precision}: {float((found - expected).norm() / expected.norm()):.1e}", flush=True)


if __name__ == "__main__":
    main()
