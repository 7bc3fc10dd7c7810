"""Constructors say what they take: every argument with its default and its meaning, as the architecture has it."""

import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import posattn
from posattn.nn.module import MODELS, Model
from posattn.nn.numeric_model import NumericModel

#: Fields that a kind of model does not leave open.
FIXED = {
    "looped-standard": {"layers", "encoding", "encoding_dim", "constants", "constants_dim"},
    "mixed-positional": {"in_dim", "constants", "constants_dim", "symmetry"},
    "mixed-standard": {"in_dim", "constants", "constants_dim", "append_encoding"},
}

every_kind = pytest.mark.parametrize("kind", MODELS)


def arguments(cls: type[Model[Any]]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(cls).parameters)


@every_kind
def test_a_constructor_takes_what_its_architecture_has_with_the_same_defaults(kind: str) -> None:
    taken = arguments(MODELS[kind])
    generator = taken.pop("generator")
    assert generator.default is None
    needed = {dataclasses.MISSING: inspect.Parameter.empty}
    described = dataclasses.fields(MODELS[kind].describes)
    fields = {field.name: needed.get(field.default, field.default) for field in described}
    open_ = {name: default for name, default in fields.items() if name not in FIXED.get(kind, set())}
    assert {name: argument.default for name, argument in taken.items()} == open_
    assert all(argument.kind is argument.KEYWORD_ONLY for argument in taken.values())


@every_kind
def test_help_says_what_every_argument_means(kind: str) -> None:
    cls = MODELS[kind]
    texts = [inspect.getdoc(one.__init__) or "" for one in cls.__mro__ if issubclass(one, Model) and one is not Model]
    if issubclass(cls, NumericModel):
        texts.append(inspect.getdoc(NumericModel.__init__) or "")
    said = "\n".join(texts)
    missing = [name for name in arguments(cls) if f"\n    {name}: " not in said]
    assert missing == []


def test_an_argument_that_there_is_not_is_refused() -> None:
    wrong: dict[str, Any] = {"layer": 4}
    with pytest.raises(TypeError, match="layer"):
        posattn.PositionalTransformer(**wrong)


def test_a_type_checker_flags_an_argument_that_there_is_not(tmp_path: Path) -> None:
    lines = ("import posattn", "posattn.PositionalTransformer(layers=4)", "posattn.PositionalTransformer(layer=4)")
    (tmp_path / "user.py").write_text("\n".join(lines))
    source = Path(posattn.__file__).parents[1]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(source)]}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "user.py"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    flagged = [line for line in ended.stdout.splitlines() if "error" in line and "user.py" in line]
    assert len(flagged) == 1, ended.stdout
    assert ":3:" in flagged[0]
    assert "layer" in flagged[0]
