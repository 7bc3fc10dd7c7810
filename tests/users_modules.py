"""Modules and factories as users write them, right and wrong, for tests of `posattn.nn.AnyModule`."""

import importlib
import random
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

five = importlib.import_module("foreign_modules")
mlp, Encoder, GRU, ConvNet, CharGPT = five.mlp, five.Encoder, five.GRU, five.ConvNet, five.CharGPT


class PerNode(nn.Module):
    """A small network at every node, with something extra in the middle."""

    def __init__(self, width: int = 6, middle: nn.Module | None = None) -> None:
        super().__init__()
        self.read = nn.Linear(1, width)
        self.middle = middle or nn.Identity()
        self.write = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.write(self.middle(torch.tanh(self.read(x))))


def dropout(p: float = 0.3) -> nn.Module:
    return PerNode(middle=nn.Dropout(p))


class Functional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.4, self.training)


def functional_dropout() -> nn.Module:
    return PerNode(middle=Functional())


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x) + 0.1 * torch.rand_like(x)


def noise() -> nn.Module:
    return PerNode(middle=Noise())


def layer_norm() -> nn.Module:
    return PerNode(middle=nn.LayerNorm(6))


class Buffers(nn.Module):
    """Buffers of several kinds, one of them random, and a parameter that is not learned."""

    scale: Tensor
    places: Tensor
    open: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(6))
        self.register_buffer("places", torch.arange(5, -1, -1))
        self.register_buffer("open", torch.tensor([True, True, False, True, True, True]), persistent=False)
        self.frozen = nn.Parameter(torch.rand(6), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(self.open, x * self.scale, x[..., self.places]) + self.frozen


def buffers() -> nn.Module:
    return PerNode(middle=Buffers())


class Tied(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


def tied() -> nn.Module:
    return PerNode(middle=Tied())


class OverNodes(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


def batch_norm() -> nn.Module:
    return PerNode(middle=OverNodes(nn.BatchNorm1d(6)))


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return 2 * x
        return x


def branches() -> nn.Module:
    return PerNode(middle=Branches())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


def recurrent() -> nn.Module:
    return PerNode(middle=Recurrent())


class Counts(nn.Module):
    """Changes a buffer, in place or by putting another one in its place."""

    seen: Tensor

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.in_place:
            self.seen += 1
        elif self.training:
            self.seen = self.seen + 1
        return x * (1 + 0.01 * self.seen)


def counts(in_place: bool = True) -> nn.Module:
    return PerNode(middle=Counts(in_place))


class Writes(nn.Module):
    """Writes into a tensor that all replicas share."""

    def __init__(self) -> None:
        super().__init__()
        self.held = torch.zeros(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        self.held.copy_(x.detach().mean(0))
        return x


def writes() -> nn.Module:
    return PerNode(middle=Writes())


class Skips(nn.Module):
    """Leaves itself out by chance, as stochastic depth does."""

    def forward(self, x: Tensor) -> Tensor:
        return x if random.random() < 0.5 else 2 * x


def skips() -> nn.Module:
    return PerNode(middle=Skips())


class Picks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., torch.randperm(x.shape[-1])]


def picks() -> nn.Module:
    return PerNode(middle=Picks())


class Scaled(nn.Module):
    """A scalar that is learned, and a scalar that is kept."""

    share: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("share", torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.temperature * self.share


def scalar() -> nn.Module:
    return PerNode(middle=Scaled())


class Warms(nn.Module):
    """Counts its calls, in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x / self.calls


def warms() -> nn.Module:
    return PerNode(middle=Warms())


class OwnGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(3)

    def forward(self, x: Tensor) -> Tensor:
        return x * (0.5 + self.chance.random())


def own_generator() -> nn.Module:
    return PerNode(middle=OwnGenerator())


class Caches(nn.Module):
    """Makes something at its first call and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones(x.shape[-2:], dtype=x.dtype, device=x.device)
        return x * self.mask


def caches() -> nn.Module:
    return PerNode(middle=Caches())


class TensorHook(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(lambda grad: 0 * grad)
        return x


def hooked(where: str) -> nn.Module:
    """A hook that sets a gradient to 0."""
    found = PerNode(middle=TensorHook() if where == "tensor" else None)
    if where == "parameter":
        found.read.weight.register_hook(lambda grad: 0 * grad)
    if where == "module":
        found.write.register_full_backward_hook(lambda module, into, out: into)
    return found


class WritesInput(nn.Module):
    """Changes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x *= 2
        return self.map(x)


def writes_input() -> nn.Module:
    return WritesInput()


class Breaks(nn.Module):
    """Fails in training, not when it is tried."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            raise IndexError("broken in training")
        return x


def breaks() -> nn.Module:
    return PerNode(middle=Breaks())


def lazy() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 3), nn.LazyLinear(1))


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phase = nn.Parameter(torch.ones(6, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.phase.abs()


def complex_parameter() -> nn.Module:
    return PerNode(middle=Complex())


def nothing() -> object:
    return "no module"


def fails(width: int = 3) -> nn.Module:
    raise KeyError(f"no such width as {width}")


def grows() -> nn.Module:
    """Another shape at every other call."""
    return PerNode(width=random.choice((2, 3)) if random.random() < 2 else 0)


def no_parameters() -> nn.Module:
    return nn.ReLU()


def other_shape() -> nn.Module:
    return nn.Linear(1, 2)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.map(x), x


pair = Pair
number = 3
