"""Compiled library programs, each compiled once for all tests that only look at it."""

from functools import cache

import torch

from posattn.compile import Compiled, compile, library


@cache
def library_model(name: str, length: int, *, domain: float = 1000.0, dtype: torch.dtype = torch.float32) -> Compiled:
    """The program of this name. Whoever changes its weights works on a copy."""
    return compile(library.get(name, length), domain=domain, dtype=dtype)
