"""Proofs that a compiled model computes its program, and the program its specification, for every input."""
