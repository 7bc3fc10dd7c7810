"""The signs of stochastic encodings, one bit after another. Nothing here calls posattn."""

import numpy as np


def signs(key: int, tokens: int, width: int) -> np.ndarray:
    """Bits of splitmix64 in Python's own integers."""
    whole, words, found = 2**64, -(-width // 64), []
    for number in range(1, tokens * words + 1):
        z = (key + number * 0x9E3779B97F4A7C15) % whole
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % whole
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % whole
        z ^= z >> 31
        found.append([1 if z >> bit & 1 else -1 for bit in range(64)])
    return np.array(found).reshape(tokens, words * 64)[:, :width]
