"""Explanations as the lab's users read them: what they say to callers from Python goes, or is said in plain words."""

import re

#: Patterns, and what the lab says instead.
INSTEAD = (
    (r", or allow a fit, fit=\d+", ""),
    (r", or dtype=torch\.float64", ""),
    (r"torch\.(?=float)", ""),
    (r"('\w+') of sample 0 is", r"\1 is"),
    (r"the input holds (\S+) at \[0, (\d+)\]", r"node \2 was given \1"),
    (r"\beta=", "η = "),
    (r"\beta\b", "η"),
    (r"\bdomain=(?=[\d.])", "domain "),
)


def plain(message: str) -> str:
    """The message without names of Python's arguments.

    >>> plain("eta=99: descent diverges. Take smaller steps: it settles with eta below 2.")
    'η = 99: descent diverges. Take smaller steps: it settles with η below 2.'
    """
    for pattern, instead in INSTEAD:
        message = re.sub(pattern, instead, message)
    return message
