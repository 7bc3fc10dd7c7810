"""Dropout and other noise inside a module, drawn from a stream of each replica's own.

A draw is named by (replica's key, step, number of the draw within the step), so that a replica in a fleet drops what it
would drop alone, and going on after an interruption needs nothing but the step's number. On a CPU each draw seeds a
generator of its own; on a GPU it is one kernel that counts (Philox), which a captured step can replay.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from posattn.errors import PosattnError

aten = torch.ops.aten
_WORD = 2**64 - 1


@torch.library.custom_op("posattn::draw", mutates_args=())
def draw(keys: Tensor, step: Tensor, number: int, shape: list[int], kind: str, chance: float) -> Tensor:
    """Numbers of shape (replicas, *shape): "uniform" in [0, 1), "normal", or "kept", which is True with `chance`."""
    full = (len(keys), *shape)
    if keys.is_cuda:
        from posattn.nn.kernels.counted_randomness import counted

        return counted(keys, step, number, full, kind, chance)
    found = torch.empty(full, dtype=torch.bool if kind == "kept" else torch.float32)
    generator = torch.Generator()
    for replica, key in enumerate(keys.tolist()):
        generator.manual_seed(mixed(key, int(step), number) >> 1)
        if kind == "kept":
            found[replica].bernoulli_(chance, generator=generator)
        elif kind == "normal":
            found[replica].normal_(generator=generator)
        else:
            found[replica].uniform_(generator=generator)
    return found


@draw.register_fake
def _(keys: Tensor, step: Tensor, number: int, shape: list[int], kind: str, chance: float) -> Tensor:
    return keys.new_empty((len(keys), *shape), dtype=torch.bool if kind == "kept" else torch.float32)


def mixed(*words: int) -> int:
    """64 bits in which every bit depends on every bit of the words (SplitMix64's finaliser)."""
    found = 0
    for word in words:
        found = (found + word + 0x9E3779B97F4A7C15) & _WORD
        found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & _WORD
        found ^= found >> 31
    return found


def _draws_nothing(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operation is one that drops by chance, such as attention, with a chance of 0."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    return "dropout_p" in names and not given.get("dropout_p", 0.0)


class OwnRandomness(TorchDispatchMode):
    """While it is active, whatever is drawn is drawn from the replicas' streams.

    Axis 0 of all tensors counts replicas; with `single`, there is one replica and no such axis. Draws that have no
    stream are refused, or, with `others`, left to PyTorch's own generator.
    """

    def __init__(self, keys: Tensor, step: Tensor, *, single: bool = False, others: bool = False) -> None:
        super().__init__()
        self.keys, self.step, self.single, self.others, self.number = keys, step, single, others, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        replaced = DRAWN.get(func)
        if replaced is not None:
            return replaced(self, *args, **kwargs)
        if (
            not self.others
            and torch.Tag.nondeterministic_seeded in func.tags
            and not _draws_nothing(func, args, kwargs)
        ):
            raise PosattnError(
                f"it draws random numbers by {func}, for which a fleet has no stream per replica: use nn.Dropout, "
                "torch.rand_like or torch.randn_like"
            )
        return func(*args, **kwargs)

    def draw(self, shape: Any, kind: str, chance: float = 0.0) -> Tensor:
        """The next draw, for a tensor of a shape."""
        self.number += 1
        if self.single:
            return draw(self.keys, self.step, self.number, list(shape), kind, chance)[0]
        replicas, *rest = shape
        if replicas != len(self.keys):
            raise PosattnError("it draws random numbers that all replicas would share")
        return draw(self.keys, self.step, self.number, rest, kind, chance)

    def dropout(self, x: Tensor, p: float, train: bool | None = True) -> tuple[Tensor, Tensor]:
        if not train or p == 0:
            return x.clone(), torch.ones_like(x, dtype=torch.bool)
        if p == 1:
            return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
        kept = self.draw(x.shape, "kept", 1 - p)
        return x * kept * (1 / (1 - p)), kept

    def bernoulli(self, x: Tensor, p: float = 0.5, *, generator: Any = None) -> Tensor:
        return self.draw(x.shape, "kept", p).to(x.dtype)

    def bernoulli_into(self, x: Tensor, p: float = 0.5, *, generator: Any = None) -> Tensor:
        return x.copy_(self.draw(x.shape, "kept", p))

    def bernoulli_of(self, chances: Tensor, *, generator: Any = None) -> Tensor:
        return (self.draw(chances.shape, "uniform") < chances).to(chances.dtype)

    def uniform_like(self, x: Tensor, **options: Any) -> Tensor:
        return self.draw(x.shape, "uniform").to(options.get("dtype") or x.dtype)

    def normal_like(self, x: Tensor, **options: Any) -> Tensor:
        return self.draw(x.shape, "normal").to(options.get("dtype") or x.dtype)

    def uniform(self, shape: Any, **options: Any) -> Tensor:
        return self.draw(shape, "uniform").to(options.get("dtype") or torch.get_default_dtype())

    def normal(self, shape: Any, **options: Any) -> Tensor:
        return self.draw(shape, "normal").to(options.get("dtype") or torch.get_default_dtype())

    def uniform_into(self, x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Tensor:
        return x.copy_(low + (high - low) * self.draw(x.shape, "uniform"))

    def normal_into(self, x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
        return x.copy_(mean + std * self.draw(x.shape, "normal"))


DRAWN: dict[Any, Any] = {
    aten.native_dropout.default: OwnRandomness.dropout,
    aten.bernoulli.p: OwnRandomness.bernoulli,
    aten.bernoulli.default: OwnRandomness.bernoulli_of,
    aten.bernoulli_.float: OwnRandomness.bernoulli_into,
    aten.rand_like.default: OwnRandomness.uniform_like,
    aten.randn_like.default: OwnRandomness.normal_like,
    aten.rand.default: OwnRandomness.uniform,
    aten.randn.default: OwnRandomness.normal,
    aten.uniform_.default: OwnRandomness.uniform_into,
    aten.normal_.default: OwnRandomness.normal_into,
}
