"""Attempts to make a proof lie: each is refused, in one line, by loading, by `posattn prove` or by the checker."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

from command_line import runner
from compile.models import library_model
from posattn import PosattnError
from posattn.compile import load
from posattn.compile.certificate import fingerprint
from posattn.compile.proof import checker
from posattn.compile.proof.findings import Outcome
from posattn.compile.proof.record import Proof

Header = dict[str, Any]
Tensors = dict[str, torch.Tensor]
Edit = Callable[[Header, Tensors], None]

pytestmark = pytest.mark.usefixtures("as_users_run_it")


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sort at length 4 with its proof."""
    path = tmp_path_factory.mktemp("proved") / "sort.safetensors"
    library_model("sort", 4).proved().save(path)
    return path


def edited(path: Path, folder: Path, edit: Edit, *, keep_proof: bool) -> Path:
    """The file with other tensors or another header, its JSON unpacked while it is edited."""
    with safetensors.safe_open(path, framework="pt") as file:
        header: Header = dict(file.metadata())
    tensors = safetensors.torch.load(path.read_bytes())
    if not keep_proof:
        del header["proof"]
    packed = [name for name in ("program", "compiled", "architecture", "proof") if name in header]
    header |= {name: json.loads(header[name]) for name in packed}
    edit(header, tensors)
    header |= {name: json.dumps(header[name], separators=(",", ":")) for name in packed if name in header}
    found = folder / "edited.safetensors"
    safetensors.torch.save_file({name: held.contiguous() for name, held in tensors.items()}, found, metadata=header)
    return found


def put(*places: Any, value: Any) -> Edit:
    """header[a][b]… = value."""

    def edit(header: Header, _: Tensors) -> None:
        held: Any = header
        for place in places[:-1]:
            held = held[place]
        held[places[-1]] = value

    return edit


def weigh(name: str, place: tuple[int, ...], value: float) -> Edit:
    def edit(_: Header, tensors: Tensors) -> None:
        tensors[name][place] = value

    return edit


def cast(dtype: torch.dtype) -> Edit:
    def edit(_: Header, tensors: Tensors) -> None:
        for name in tensors:
            tensors[name] = tensors[name].to(dtype)

    return edit


def duplicate(header: Header, tensors: Tensors) -> None:
    """A second dimension called x, which holds anything, and which the layers read in place of x."""
    registers = header["compiled"]["registers"]
    registers[1] = registers[0]


def add_bias(_: Header, tensors: Tensors) -> None:
    tensors["value_bias"] = torch.ones(tensors["value_weight"].shape[:2])


def add_every_bias(header: Header, tensors: Tensors) -> None:
    """As a trained model has them: the file is a whole model with biases, and it loads as one."""
    header["architecture"]["bias"] = True
    for name in ("encoder", "decoder", "value", "output", "mlp_in", "mlp_out"):
        weight = tensors[f"{name}_weight"]
        tensors[f"{name}_bias"] = torch.zeros(*weight.shape[:-2], weight.shape[-1])
    tensors["mlp_out_bias"][-1, 0] = 100.0


def other_attention(_: Header, tensors: Tensors) -> None:
    tensors["query_weight"] = tensors["query_weight"].roll(1, 0)


def fewer_rounds(header: Header, _: Tensors) -> None:
    del header["program"]["rounds"][-1]


def another_read(header: Header, _: Tensors) -> None:
    table = next(iter(header["program"]["rounds"][0]["receive"].values()))
    table[0], table[1] = table[1], table[0]


def another_node(header: Header, _: Tensors) -> None:
    table = next(iter(header["program"]["rounds"][0]["receive"].values()))
    table[0] = [-1, "x"]


def another_update(header: Header, _: Tensors) -> None:
    header["program"]["rounds"][0]["update"]["x"] = ["Word", "x"]


def one_message(text: str) -> None:
    """One line, or a line and the list of all that is wrong with a program."""
    _, *rest = text.splitlines()
    assert all(line.startswith("  - ") for line in rest)


LIES: dict[str, Edit] = {
    "a wrong constant": weigh("constants", (0, 0), 0.5),
    "a wrong weight": weigh("mlp_out_weight", (0, 0, 0), 0.25),
    "a weight that is not a number": weigh("mlp_in_weight", (0, 0, 0), float("nan")),
    "an infinite weight": weigh("key_bias", (0, 0), float("inf")),
    "a query that overflows": weigh("query_bias", (0, 0), 3e38),
    "half precision": cast(torch.float16),
    "bfloat16": cast(torch.bfloat16),
    "another head": other_attention,
    "a bias that the proof does not see": add_bias,
    "all biases, in a model that has them": add_every_bias,
    "a negative domain": put("compiled", "domain", value=-1.0),
    "no domain": put("compiled", "domain", value=0),
    "an endless domain": put("compiled", "domain", value=float("inf")),
    "a domain that is not a number": put("compiled", "domain", value=float("nan")),
    "a domain in which sums overflow": put("compiled", "domain", value=3e38),
    "two dimensions of one name": duplicate,
    "registers in another order": lambda header, _: header["compiled"]["registers"].reverse(),
    "a register too few": lambda header, _: header["compiled"]["registers"].pop(),
    "another kind of model": put("architecture", "kind", value="standard"),
    "more heads": put("architecture", "heads", value=7),
    "another length": put("program", "length", value=3),
    "no length": put("program", "length", value=0),
    "another constant in the program": lambda header, _: next(iter(header["program"]["constants"].values())).reverse(),
    "a round removed": fewer_rounds,
    "a read moved": another_read,
    "a read from nowhere": another_node,
    "another update": another_update,
    "an unknown operation": put("program", "rounds", 0, "update", "x", value=["Sine", ["Word", "x"]]),
    "another output": put("program", "outputs", value=["up0"]),
    "another grid": put("program", "grid", value=-1.0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies_is_refused_by_the_prover_and_by_the_checker(lie, proved, tmp_path, monkeypatch, capsys):
    path = edited(proved, tmp_path, LIES[lie], keep_proof=False)
    ended = runner(monkeypatch, capsys)("prove", path)
    assert ended.code in (1, 2)
    assert "Traceback" not in ended.out + ended.err
    if ended.code == 2:
        one_message(ended.err)
    else:
        assert "Not proved: step" in ended.out
    assert checker.main(str(path)) in (1, 2)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("REFUSED: ") or "is not a compiled model that can be read" in line


@pytest.mark.parametrize("lie", [*LIES, "another encoding's name"])
def test_no_edit_keeps_a_stored_proof(lie, proved, tmp_path):
    edit = put("compiled", "encoding", value="one-hot") if lie == "another encoding's name" else LIES[lie]
    path = edited(proved, tmp_path, edit, keep_proof=True)
    with pytest.raises(PosattnError, match=r"^'.*' cannot be loaded") as refused:
        load(path)
    one_message(str(refused.value))


def test_an_untouched_file_is_taken_by_all(proved, tmp_path, monkeypatch, capsys):
    path = edited(proved, tmp_path, lambda *_: None, keep_proof=False)
    assert runner(monkeypatch, capsys)("prove", path).code == 0
    assert load(path).proof is not None
    capsys.readouterr()
    assert checker.main(str(path)) == 0
    assert "3 not rechecked" in capsys.readouterr().out


def test_another_dtype_needs_a_proof_of_its_own(proved, tmp_path):
    path = edited(proved, tmp_path, cast(torch.float64), keep_proof=True)
    with pytest.raises(PosattnError, match="are not those that were proved"):
        load(path)
    made = load(proved)
    for other in (made.model.double(), made.model.half()):
        with pytest.raises(PosattnError, match="has changed since it was proved"):
            replace(made, model=other).save(tmp_path / "cast")


def test_a_proof_copied_from_another_file_is_refused(proved, tmp_path):
    other = tmp_path / "other.safetensors"
    library_model("sort", 5).proved().save(other)
    with safetensors.safe_open(other, framework="pt") as file:
        copied = json.loads(file.metadata()["proof"])
    with pytest.raises(PosattnError, match="are not those that were proved"):
        load(edited(proved, tmp_path, put("proof", value=copied), keep_proof=True))


@pytest.mark.parametrize(
    "edit",
    [
        put("proof", "bound", value=0.0),
        put("proof", "steps", 0, "outcome", value="refuted"),
        put("proof", "steps", 2, "outcome", value="stands"),
        put("proof", "domain", value="±1e9"),
        put("proof", "digest", value=""),
        lambda header, _: header["proof"]["steps"].pop(),
        lambda header, _: header["proof"]["steps"].append(header["proof"]["steps"][0]),
        put("proof", "steps", value=[]),
        put("proof", value=[]),
        put("proof", "steps", 0, "outcome", value="certain"),
        put("proof", "more", value=1),
    ],
)
def test_an_edited_proof_is_refused_in_one_line(edit, proved, tmp_path):
    with pytest.raises(PosattnError, match=r"^'.*' cannot be loaded") as refused:
        load(edited(proved, tmp_path, edit, keep_proof=True))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("steps", [(1, 2, 4), (1, 1, 1, 4), (1, 2, 3, 4, 5), (4, 3, 2, 1), ()])
def test_a_proof_with_other_steps_does_not_hold_though_its_hash_is_right(steps, proved):
    made = load(proved)
    assert made.proof is not None
    assert made.proof.holds
    one = made.proof.steps[0]
    forged = replace(made.proof, steps=tuple(replace(one, number=number) for number in steps), digest="")
    text = fingerprint("", "", made.model.weights())
    assert not Proof.from_json(forged.sealed(text).to_json()).holds


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("outcome", [Outcome.OPEN, Outcome.REFUTED, Outcome.ABSENT])
def test_a_proof_never_holds_with_a_step_that_does_not_stand(number, outcome, proved):
    proof = load(proved).proof
    assert proof is not None
    steps = tuple(replace(step, outcome=outcome) if step.number == number else step for step in proof.steps)
    assert not replace(proof, steps=steps).holds
    assert not replace(proof, bound=None).holds


def test_two_dimensions_of_one_name_do_not_stand_for_each_other(tmp_path, capsys):
    """A spare dimension that holds 0, called as a register is: what reads it would be taken to read the register."""
    made = library_model("argsort", 3)
    assert len(made.registers) < made.model.architecture.embed_dim
    path, name = tmp_path / "honest.safetensors", made.program.inputs[0]
    made.proved().save(path)

    def lie(header: Header, tensors: Tensors) -> None:
        place, spare = made.registers.index(name), len(made.registers)
        header["compiled"]["registers"].append(name)
        held = tensors["value_weight"]
        held[0, spare], held[0, place] = held[0, place].clone(), 0.0

    false = edited(path, tmp_path, lie, keep_proof=False)
    assert checker.main(str(false)) == 1
    assert "registers or nodes are not those of the program" in capsys.readouterr().out
    with pytest.raises(PosattnError, match="each in a dimension of its own"):
        load(false)


def test_a_read_from_nowhere_is_not_a_read_of_nothing(tmp_path, capsys):
    path = tmp_path / "honest.safetensors"
    library_model("cumsum", 4).proved().save(path)  # node 0 reads nothing: in the model, the last node, which holds 0
    false = edited(path, tmp_path, another_node, keep_proof=False)
    assert checker.main(str(false)) == 2
    with pytest.raises(PosattnError, match="reads from node -1"):
        load(false)
