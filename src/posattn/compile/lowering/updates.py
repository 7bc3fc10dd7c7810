"""Every round's updates as one MLP, all of the same depth."""

from collections.abc import Sequence

from posattn.compile.expressions import Word
from posattn.compile.lowering.heads import Column, Heads
from posattn.compile.lowering.linear_forms import Form, levels, mentions
from posattn.compile.lowering.mlp_matrices import Network, network
from posattn.compile.lowering.register_bounds import Bounds
from posattn.compile.lowering.relu import Translator
from posattn.compile.program import ONE, Program
from posattn.compile.rounds import Round


def local_forms(
    rounds: Sequence[Round],
    ranges: Sequence[Bounds],
    live: Sequence[set[str]],
    heads: Sequence[Heads],
) -> list[dict[str, Form]]:
    """Every live register after every round, as a form in the registers before it and the columns that arrive."""
    forms = []
    for round_, (registers, words), after, head in zip(rounds, ranges, live[1:], heads, strict=False):
        aliases: dict[str, Form] = {slot: {_atom(c): 1.0 for c in columns} for slot, columns in head.slots.items()}
        translator = Translator(registers | words, aliases)
        kept = {name: round_.update.get(name, Word(name)) for name in registers if name in after}
        forms.append({name: translator.form(expression) for name, expression in kept.items()})
    return forms


def _atom(column: Column) -> str:
    return f"@{column[0]}.{column[1]}"


def kept_registers(program: Program, forms: Sequence[dict[str, Form]]) -> tuple[str, ...]:
    """The program's registers, and `one` where an update uses a constant."""
    counted = any(mentions(form, ONE) for round_ in forms for form in round_.values())
    return program.registers + ((ONE,) if counted else ())


def local_networks(
    forms: Sequence[dict[str, Form]],
    registers: tuple[str, ...],
    ranges: Sequence[Bounds],
    heads: Sequence[Heads],
) -> list[Network]:
    """The MLP of every round, all equally deep; `one` keeps its value to the end."""
    depth = max(levels(round_.values()) for round_ in forms)
    networks = []
    for round_, (before, words), head in zip(forms, ranges, heads, strict=False):
        columns = [_atom((h, c)) for h, carried in enumerate(head.carried) for c in range(len(carried))]
        unsigned = {name for name, held in before.items() if held.low.min() >= 0} | {ONE}
        unsigned |= {_atom(c[0]) for slot, c in head.slots.items() if len(c) == 1 and words[slot].low.min() >= 0}
        ones: dict[str, Form] = {ONE: {ONE: 1.0}}
        outputs = [(ones | round_).get(name, {}) for name in registers]
        networks.append(network([*registers, *columns], outputs, depth=depth, unsigned=unsigned))
    return networks
