"""How fast fleets train, as ratios to a plain loop over one model, measured in the same run.

The plain loop is what one writes first: the module, `torch.optim.Adam` as one kernel, eager, the batch already on the
device. A fleet does everything a training run does: it shuffles, gathers its batch, clips nothing, keeps a schedule.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from posattn import devices, tasks
from posattn.errors import require, unknown
from posattn.nn import Positional, Standard, model_of
from posattn.nn.fast.large_products import product
from posattn.train import Data, Fleet, Optimiser, Trial
from posattn.train.trial import PRECISIONS

MODELS: dict[str, Positional | Standard] = {
    "positional": Positional(),
    "homogeneous": Positional(bias=False),
    "standard": Standard(),
}
TASK = "sum"
#: A measurement goes on for this many seconds and at least this many steps; its median counts.
SECONDS, LEAST = 2.0, 5


@dataclass(frozen=True)
class Measurement:
    """Milliseconds a step for each replica, and what they mean."""

    model: str
    fleet: int
    milliseconds: float
    plain_milliseconds: float
    ratio: float
    matmul_share: float


def multiplications(model: Positional | Standard) -> int:
    """Multiplications that the folded form needs for one sample, forward, with nodes mixed after each product."""
    nodes, heads, hidden = model.nodes, model.heads, model.hidden_dim
    total = 0
    for into in (model.input_width, *[hidden] * (model.depth - 1)):
        total += (1 + heads) * into * hidden + heads * nodes * hidden
        if isinstance(model, Standard):
            total += heads * into * into + heads * nodes * into
    return nodes * (total + hidden * model.out_dim)


def milliseconds(step: Callable[[], Any], device: torch.device) -> float:
    """Median time of a step, after two to warm up."""
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < LEAST + 2 or time.perf_counter() - began < SECONDS:
        start = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(1e3 * (time.perf_counter() - start))
    return sorted(taken[2:])[len(taken[2:]) // 2]


def matmul_rate(device: torch.device, precision: str) -> float:
    """Floating-point operations a second in a large square product."""
    size = 8192 if device.type == "cuda" else 2048
    a = torch.randn(1, size, size, device=device, dtype=torch.float64 if precision == "float64" else torch.float32)
    if device.type == "cuda":
        torch.backends.cuda.matmul.fp32_precision = "ieee" if precision in ("float32", "float64") else "tf32"
        a = a.bfloat16() if precision == "bf16" else a
    rate = 2 * size**3 / (1e-3 * milliseconds(lambda: product(a, a), device))
    if device.type == "cuda":
        torch.backends.cuda.matmul.fp32_precision = "ieee"
    return rate


def plain_step(model: Positional | Standard, batch: int, device: torch.device) -> Callable[[], None]:
    """A step of the loop that one writes first, float32."""
    module = model_of(model, model.init(torch.Generator().manual_seed(0))).to(device)
    x, y = tasks.get(TASK).sample(batch, generator=torch.Generator(device).manual_seed(0))
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-4, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        prediction = module(x)
        (prediction - y).square().mean().backward()
        optimiser.step()

    return step


def fleet_step(model: Positional | Standard, size: int, batch: int, device: torch.device, precision: str) -> Any:
    """A step of a fleet of this size."""
    trials = [
        Trial(
            task=TASK,
            model=model,
            data=Data(samples=10 * batch, batch=batch),
            optimiser=Optimiser(steps=10**9, schedule="plateau"),
            precision=precision,
            seed=seed,
        )
        for seed in range(size)
    ]
    steps = Fleet(trials, device=device).run()
    return lambda: next(steps)


def bench(
    *, device: str = "auto", precision: str = "float32", sizes: tuple[int, ...] = (1, 10, 50, 100), batch: int = 1000
) -> dict[str, Any]:
    """Measure every model at every fleet size."""
    where = devices.resolve(device)
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    require(all(size >= 1 for size in sizes), f"fleet sizes {sizes}: each must be at least 1.")
    require(batch >= 1, f"batch={batch}: a batch has at least one sample.")
    rate = matmul_rate(where, precision)
    # All plain loops come first: on the CPU a fleet changes how the process keeps its memory, which would help them.
    plains = {name: milliseconds(plain_step(model, batch, where), where) for name, model in MODELS.items()}
    found = []
    for name, model in MODELS.items():
        plain = plains[name]
        needed = 3 * 2 * batch * multiplications(model)  # backward is twice forward; a multiplication and an addition
        for size in sizes:
            each = milliseconds(fleet_step(model, size, batch, where, precision), where) / size
            share = needed / (1e-3 * each) / rate
            found.append(Measurement(name, size, each, plain, plain / each, share))
    return {
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "precision": precision,
        "batch": batch,
        "matmul_tflops": rate / 1e12,
        "measurements": [asdict(one) for one in found],
    }
