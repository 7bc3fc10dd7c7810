"""Attention: all layers and heads of a model as maps, and who reads from whom; also for a file that is uploaded."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posattn import zoo
from posattn.compile import Compiled, compile
from posattn.compile import load as load_compiled
from posattn.compile.typed_input import library_input, typed_rows
from posattn.errors import PosattnError, counted, require
from posattn.lab.limits import typed_words, uploaded_path
from posattn.lab.models import PROGRAM, check_count, named
from posattn.lab.shown import Note, Page, Shown
from posattn.nn import LoopedPositionalTransformer, NumericModel, load
from posattn.nn.weights import check_finite_weights, read_header
from posattn.report import attention_of, attention_page

#: Maps on one page, and nodes of a map.
MOST_MAPS, MOST_NODES = 256, 512


def attention(choice: str, numbers: str, *, note: Note) -> Shown:
    """Maps and the communication graph of a model at work on the numbers."""
    words = typed_words(numbers)
    kind, name, *model = named(choice)
    if kind == PROGRAM:
        note("compiling")
        return _of_compiled(compile(library_input(name, words, {})[0]), note)
    return _of_model(zoo.load(name, model[0]), f"{name}, {model[0]}", words, note)


def uploaded(folder: str, given: Any, numbers: str, *, note: Note) -> Shown:
    """The same for a file that was uploaded to a folder. Nothing in it is executed."""
    words = typed_words(numbers)
    upload = uploaded_path(folder, given)
    name = Path(upload).name
    note("reading the file")
    try:
        if "program" in read_header(upload):
            made = load_compiled(upload)
            check_finite_weights(f"'{name}'", made.model.weights())
            return _of_compiled(made, note)
        model = load(upload)
    except PosattnError as error:
        raise PosattnError(str(error).replace(upload, name)) from None
    return _of_model(model, name, words, note)


def _of_compiled(made: Compiled, note: Note) -> Shown:
    sizes, name = made.model.architecture, made.program.name
    _check_size(sizes.depth, sizes.heads, sizes.nodes)
    note("drawing")
    return _shown(made.model.attention(), f"{name}, compiled", step="layer")


def _of_model(model: Any, name: str, words: list[str], note: Note) -> Shown:
    known = isinstance(model, LoopedPositionalTransformer) or (
        isinstance(model, NumericModel) and model.takes_numbers_alone and model.architecture.in_dim == 1
    )
    if not known:
        raise PosattnError(f"'{name}' holds {_kind(model)}: the lab shows models that take one list of numbers.")
    check_finite_weights(f"'{name}'", model.weights())
    x = torch.tensor(typed_rows(words), dtype=next(model.parameters()).dtype)
    require(x.shape[1] == 1, f"the values {' '.join(words)}: a trained model takes one number per node.")
    check_count(model, name, len(x))
    if not isinstance(model, LoopedPositionalTransformer):
        _check_size(len(model.layers), model.architecture.heads, model.architecture.nodes)
    note("running")
    maps = attention_of(model, x)
    _check_size(*maps.shape[:3])
    note("drawing")
    step = "iteration" if isinstance(model, LoopedPositionalTransformer) else "layer"
    return _shown(maps, name, step=step)


def _shown(attention: Tensor, name: str, *, step: str) -> Shown:
    title = f"Attention of {name}"
    return Shown((Page(title, attention_page(attention, title=title, step=step)),))


def _check_size(layers: int, heads: int, nodes: int) -> None:
    require(
        layers * heads <= MOST_MAPS and nodes <= MOST_NODES,
        f"the model has {counted(layers * heads, 'map')} of {counted(nodes, 'node')}: the lab shows at most "
        f"{MOST_MAPS} of {MOST_NODES}.",
    )


def _kind(model: Any) -> str:
    return f"a {model.architecture.kind} model"
