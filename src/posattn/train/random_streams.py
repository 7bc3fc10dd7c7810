"""Where randomness comes from: a generator for each purpose, made from the trial's seed alone.

A stream is named by (seed, purpose, index), and its generator is seeded with a hash of that name. So nothing has to be
kept to go on after an interruption, and no draw depends on which other draws came before it.
"""

import hashlib

import torch


def stream(seed: int, purpose: str, index: int = 0, *, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator called (seed, purpose, index)."""
    name = f"{seed}/{purpose}/{index}".encode()
    number = int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1  # CUDA takes 63 bits
    return torch.Generator(device).manual_seed(number)
