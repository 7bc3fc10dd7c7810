"""Which rows of fixed data are trained on, and which are tested on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posattn.errors import PosattnError, kind_of, require

#: Rows as a user names them: indices, a slice, a mask, or a share of all rows.
Split = Any
SHARES: Mapping[str, float] = {"train": 0.8, "test": 0.2}
#: Of the shuffle that shares are cut from.
SEED = 0
TRAIN = "train"
FIX = "give indices, a slice or a mask, or shares for all splits, as {'train': 0.8, 'test': 0.2}"


def rows_of(splits: Mapping[str, Split], count: int) -> dict[str, Tensor]:
    """The rows of each split, of `count` in all."""
    if not isinstance(splits, Mapping) or not splits:
        raise PosattnError(f"splits={splits!r:.60}: give rows by name, as {{'train': slice(0, 80), 'test': [80, 81]}}.")
    for name in splits:
        require(isinstance(name, str) and bool(name), f"splits: {name!r} is no name. Name splits by words, as 'train'.")
    require(TRAIN in splits, f"splits {', '.join(splits)}: one must be called '{TRAIN}', it is what models learn from.")
    shares = [isinstance(held, float) for held in splits.values()]
    require(all(shares) or not any(shares), f"splits={dict(splits)!r:.80}: some are shares and some are not: {FIX}.")
    found = _cut(splits, count) if all(shares) else {name: _rows(name, held, count) for name, held in splits.items()}
    for name, rows in found.items():
        require(len(rows) > 0, f"split '{name}' has no row of {count}: give it some, or leave it out.")
    return found


def _cut(shares: Mapping[str, float], count: int) -> dict[str, Tensor]:
    """Shares of all rows, one after the other, from one shuffle."""
    for name, share in shares.items():
        require(0 < share <= 1, f"split '{name}': a share is above 0 and at most 1, not {share}.")
    total = sum(shares.values())
    require(total <= 1 + 1e-9, f"splits {dict(shares)}: shares add up to {total:g}, more than all rows. Use less.")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED))
    found, before = {}, 0.0
    for name, share in shares.items():
        found[name] = order[round(before * count) : round((before + share) * count)].sort().values
        before += share
    return found


def _rows(name: str, held: Any, count: int) -> Tensor:
    """Indices, whatever they were given as."""
    every = torch.arange(count)
    if isinstance(held, slice):
        return every[held]
    if not isinstance(held, (Tensor, np.ndarray, list, tuple, range)):
        raise PosattnError(f"split '{name}' is {kind_of(held)}, {held!r:.40}: {FIX}.")
    try:
        rows = torch.as_tensor(list(held) if isinstance(held, range) else held).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise PosattnError(f"split '{name}': {held!r:.40} are no indices ({error}): {FIX}.") from None
    if rows.dtype == torch.bool:
        require(rows.shape == (count,), f"split '{name}': a mask of shape {tuple(rows.shape)} for {count} rows: {FIX}.")
        return every[rows]
    whole = rows.dim() == 1 and not rows.is_floating_point() and not rows.is_complex()
    require(whole, f"split '{name}': {tuple(rows.shape)}, {rows.dtype}, are no indices: {FIX}.")
    inside = len(rows) == 0 or (int(rows.min()) >= 0 and int(rows.max()) < count)
    require(inside, f"split '{name}' names a row outside 0 … {count - 1}: {FIX}.")
    return rows.long()
