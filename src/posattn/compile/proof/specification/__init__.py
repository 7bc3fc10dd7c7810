"""The program is its specification, for every input: shown on the rounds as they are stored, never by a name.

`reading` lists the rounds' updates; `follow` follows them as functions of the inputs, comparisons by `zero_one`;
`folds` follows scans and reductions by the laws of their operator; `computes` leaves expressions to z3. What cannot be
shown is tried on inputs (`counterexamples`), and refuted or left open.
"""

from posattn.compile.proof.specification.prove import prove_specification

__all__ = ["prove_specification"]
