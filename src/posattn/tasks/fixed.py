"""Data that is there already: fixed tensors, cut into splits, as a task.

Loss and metric are those of every task: squared error for numbers, cross-entropy for classes.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from posattn import checks
from posattn.errors import PosattnError, require
from posattn.tasks.base import FIXED, UNSCORED, Task, check_described, drawing_device
from posattn.tasks.data_files import columns, read_arrays
from posattn.tasks.splits import SHARES, Split, rows_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Fixed(Task):
    """Inputs `x` and targets `y`, one row per sample; `x` may be a tuple of several inputs.

    Args:
        x: tensor or NumPy array, or a tuple of them.
        y: what a model is to answer: numbers, or classes as whole numbers from 0 on.
        splits: rows by name, as indices, a slice or a mask; or shares of all rows, as {"train": 0.8, "test": 0.2}, the
            default, cut from one shuffle (`torch.randperm` of a generator with seed 0). There must be a "train".
        name: what trials and commands call it.
        summary: what it is, in a few words.
        classes: how many classes there are; default: one more than the largest in `y`.

    `content` is a hash of all rows and splits. It is part of a trial's id, so trials on other data are other trials.

    >>> x = torch.linspace(-1, 1, 10).reshape(10, 1)
    >>> data = Fixed(x, x**2, {"train": slice(0, 8), "test": [8, 9]}, name="squares")
    >>> inputs, target = data.sample(2, split="test", generator=torch.Generator())
    >>> torch.equal(target, inputs**2), data.sizes
    (True, {'train': 8, 'test': 2})
    """

    x: Any = field(compare=False, repr=False, metadata=FIXED | UNSCORED)
    y: Any = field(compare=False, repr=False, metadata=FIXED | UNSCORED)
    splits: Mapping[str, Split] = field(
        default_factory=lambda: SHARES, compare=False, repr=False, metadata=FIXED | UNSCORED
    )
    name: str = field(default="fixed", kw_only=True)
    summary: str = field(default="fixed data", kw_only=True)
    classes: int | None = field(default=None, kw_only=True, metadata=FIXED | UNSCORED)
    version: int = field(default=1, kw_only=True)
    content: str = field(init=False, metadata=UNSCORED)

    def __post_init__(self) -> None:
        check_described(self)
        several = isinstance(self.x, tuple)
        require(not several or len(self.x) > 0, "x=(): give at least one input.")
        inputs = tuple(_kept(f"x[{at}]" if several else "x", one) for at, one in enumerate(self._inputs))
        target = _kept("y", self.y)
        for at, one in enumerate(inputs):
            require(
                len(one) == len(target),
                f"x{f'[{at}]' * several} has {len(one)} rows and y {len(target)}: give every input its target.",
            )
        rows = rows_of(self.splits, len(target))
        settled = {"x": inputs if several else inputs[0], "y": target, "splits": rows}
        settled |= {"classes": self._classes_of(target), "content": _hash((*inputs, target), rows)}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def _inputs(self) -> tuple[Any, ...]:
        return self.x if isinstance(self.x, tuple) else (self.x,)

    def _classes_of(self, target: Tensor) -> int | None:
        if target.is_floating_point():
            require(self.classes is None, f"classes={self.classes!r}: y holds numbers, not classes. Leave it out.")
            return None
        least, most = int(target.min()), int(target.max())
        require(least >= 0, f"y holds class {least}: classes count from 0. Numbers are floating point: use y.float().")
        known = most + 1 if self.classes is None else checks.whole("classes", self.classes, least=1)
        require(most < known, f"classes={known}: y holds class {most}, so there are {most + 1} or more.")
        return known

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows each split has."""
        return {name: len(rows) for name, rows in self.splits.items()}

    def choosing(self, options: Mapping[str, Any]) -> "Fixed":
        """The same data: `content` says which it must be."""
        wanted = options.get("content", self.content)
        require(
            wanted == self.content,
            f"the data of task '{self.name}' has changed: content {wanted!r} was asked for, and what is registered has "
            f"'{self.content}'. Register the data that it was, or describe the trial anew.",
        )
        return self

    def settled_options(self, options: dict[str, Any]) -> dict[str, Any]:
        return options | {"content": self.content}

    def sample(
        self,
        count: int,
        *,
        split: str = "train",
        generator: torch.Generator,
        device: str | torch.device | None = None,
    ) -> tuple[Any, Tensor]:
        """Rows of a split: all of them in order, or fewer drawn without replacement."""
        where = drawing_device(count, generator, device)
        rows: Any = self.splits[checks.choice(f"split of task '{self.name}'", split, self.splits)]
        require(
            count <= len(rows),
            f"count={count}: split '{split}' of task '{self.name}' has {len(rows)} rows. Ask for at most {len(rows)}.",
        )
        if count < len(rows):
            rows = rows[torch.randperm(len(rows), generator=generator, device=where)[:count].cpu()]
        drawn = tuple(one[rows].to(where) for one in self._inputs)
        return drawn if isinstance(self.x, tuple) else drawn[0], self.y[rows].to(where)

    def target(self, inputs: Any) -> Tensor:
        """What the data has for inputs of its own; there is no answer for others."""
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        fits = len(given) == len(self._inputs) and all(
            isinstance(one, Tensor) and one.shape[1:] == kept.shape[1:]
            for one, kept in zip(given, self._inputs, strict=False)
        )
        shapes = [tuple(one.shape[1:]) for one in self._inputs]
        require(fits, f"task '{self.name}': inputs {inputs!r:.60} have other shapes than the data's rows, {shapes}.")
        found = [self._row(tuple(one[at].cpu() for one in given)) for at in range(len(given[0]))]
        return self.y[found].to(given[0].device)

    def _row(self, sample: tuple[Tensor, ...]) -> int:
        pairs = zip(self._inputs, sample, strict=True)
        same = torch.stack([(kept == one).reshape(len(kept), -1).all(1) for kept, one in pairs]).all(0).nonzero()
        require(len(same) > 0, f"task '{self.name}' holds fixed data: an input is none of its rows, so has no target.")
        return int(same[0])

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        inputs: str | Sequence[str] = "x",
        target: str = "y",
        splits: Mapping[str, Split] | None = None,
        name: str | None = None,
        summary: str | None = None,
    ) -> "Fixed":
        """The arrays of an .npz or .safetensors file by their names there; the name is the file's unless given."""
        file = checks.path("path", path)
        held = read_arrays(file)
        fix = "name an array of the file, or several, as ['x', 'places']"
        names = [inputs] if isinstance(inputs, str) else checks.several("inputs", inputs, str, fix=fix)
        for array in (*names, target):
            checks.choice(f"array of '{file}'", array, held)
        x = held[inputs] if isinstance(inputs, str) else tuple(held[one] for one in names)
        summary = f"fixed data of {file.name}" if summary is None else summary
        return cls(x, held[target], splits or SHARES, name=file.stem if name is None else name, summary=summary)

    @classmethod
    def from_frame(
        cls,
        frame: "pd.DataFrame",
        *,
        target: str,
        name: str,
        inputs: Sequence[str] | None = None,
        splits: Mapping[str, Split] | None = None,
        summary: str = "fixed data",
    ) -> "Fixed":
        """A column of a pandas frame from others (default: all others), which become the rows of one matrix.

        A target of text or categories becomes classes, numbered in the order of its sorted values.
        """
        x, y = columns(frame, target, inputs)
        return cls(x, y, splits or SHARES, name=name, summary=summary)


def _kept(name: str, value: Any) -> Tensor:
    """A copy that nobody else can change, on the CPU."""
    checks.instance(name, value, (Tensor, np.ndarray), fix="give a tensor or a NumPy array, one row per sample")
    try:
        given = np.array(value) if isinstance(value, np.ndarray) else value  # torch warns of what cannot be written
        kept = torch.as_tensor(given).detach().cpu().clone(memory_format=torch.contiguous_format)
    except TypeError:
        raise PosattnError(f"{name} is an array of {value.dtype}: give numbers, as .astype('float32').") from None
    require(kept.dim() >= 1 and len(kept) > 0, f"{name} has shape {tuple(kept.shape)}: it needs one row per sample.")
    require(not kept.is_complex(), f"{name} has dtype {kept.dtype}: split it into real and imaginary parts.")
    return checks.finite(name, kept) if kept.is_floating_point() else kept


def _hash(tensors: Sequence[Tensor], splits: Mapping[str, Tensor]) -> str:
    """Sixteen hex digits of all numbers, their shapes and dtypes, and which rows are in which split."""
    made = hashlib.sha256()
    for label, tensor in [*(("", tensor) for tensor in tensors), *splits.items()]:
        made.update(f"{label} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        made.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return made.hexdigest()[:16]
