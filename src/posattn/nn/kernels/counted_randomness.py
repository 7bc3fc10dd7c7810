"""Random numbers as a function of (key, step, number of the draw, place), by Triton's Philox."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
KINDS = {"uniform": 0, "normal": 1, "kept": 2}


@triton.jit
def _mixed(found, word):
    found += word + -7046029254386353131  # 0x9E3779B97F4A7C15
    found = (found ^ ((found >> 30) & 0x3FFFFFFFF)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    found = (found ^ ((found >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685  # 0x94D049BB133111EB
    return found ^ ((found >> 31) & 0x1FFFFFFFF)


@triton.jit(do_not_specialize=["number"])
def _counted(keys_pointer, step_pointer, out_pointer, number, each, chance, KIND: tl.constexpr, BLOCK: tl.constexpr):
    replica = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_pointer + replica)
    key = _mixed(_mixed(_mixed(key * 0, key), tl.load(step_pointer)), number.to(tl.int64))
    found = tl.randn(key, at) if KIND == 1 else tl.rand(key, at)
    if KIND == 2:
        tl.store(out_pointer + replica * each + at, found < chance, mask=at < each)
    else:
        tl.store(out_pointer + replica * each + at, found, mask=at < each)


def counted(keys: Tensor, step: Tensor, number: int, shape: tuple[int, ...], kind: str, chance: float) -> Tensor:
    """Numbers of a shape whose first axis counts replicas: see `posattn.train.fleet.own_randomness.draw`."""
    out = torch.empty(shape, dtype=torch.bool if kind == "kept" else torch.float32, device=keys.device)
    each = out.numel() // len(keys)
    if each:
        grid = (triton.cdiv(each, BLOCK), len(keys))
        _counted[grid](keys, step, out, number, each, chance, KIND=KINDS[kind], BLOCK=BLOCK)
    return out
