"""Whether a program that was read from a file is the library's, by its recipe: then the library knows its oracle."""

import dataclasses

from posattn.compile.program import Program
from posattn.compile.programs import library
from posattn.compile.programs.size_limits import library_size
from posattn.errors import PosattnError, require


def made_by_library(program: Program) -> bool:
    """Whether the library makes this program of its recipe, apart from its name."""
    try:
        made = library.get(**(program.recipe or {}))
    except (PosattnError, TypeError):
        return False
    return dataclasses.replace(made, name=program.name, oracle=None) == dataclasses.replace(program, oracle=None)


def with_oracle(program: Program, size: int, *, older: bool = False) -> Program:
    """The program with the library's oracle, if it is the library's in all but name. `size`: of the text it came from.

    An older text has no specification, and gets the library's too. A later library may write the same algorithm
    differently; then the program stays as it is, without an oracle.
    """
    recipe = program.recipe
    if recipe is None:
        return program
    # The text holds a table for every node, so a short one cannot make the library build something large.
    require(recipe["length"] == program.length <= size, "its recipe has another length.")
    route = recipe.get("route", "sort")
    sizes = library_size(str(recipe["name"]), program.length, route if isinstance(route, str) else "sort")
    if sizes != (program.nodes, len(program.rounds)):
        return dataclasses.replace(program, recipe=None)
    made = library.get(**recipe)
    if older:
        program = dataclasses.replace(program, specification=made.specification)
    if dataclasses.replace(made, name=program.name, recipe=recipe, oracle=None) == program:
        return dataclasses.replace(program, oracle=made.oracle)
    return dataclasses.replace(program, recipe=None, specification=None if older else program.specification)
