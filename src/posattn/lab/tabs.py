"""All tabs' functions in one place: what a process that jobs are forked from has to import."""

from posattn.lab.execute import execute
from posattn.lab.write import compiled, library_text, proved, watched, weights

__all__ = ["compiled", "execute", "library_text", "proved", "watched", "weights"]
