"""The compiler's commands: programs, compile, verify, trace and run-model; what they print and refuse, how they end."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
import typer
from typer.testing import CliRunner

import posattn
from command_line import Ended, runner
from posattn import cli, nn
from posattn.compile import Program, compile, library, load
from posattn.compile.lowering import lower

pytestmark = pytest.mark.usefixtures("as_users_run_it")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Compiled models and others, each in its file."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "sort": compile(library.get("sort", 4), domain=10),
        "double": compile(library.get("cumsum", 4), dtype=torch.float64),
        "large": compile(library.get("cumsum", 4), domain=1e6),
        "argsort": compile(library.get("argsort", 4)),
        "fetch": compile(library.get("fetch", 3, route="grid")),
    }
    for name, one in made.items():
        one.verify(samples=4).save(folder / name)
    generator = torch.Generator().manual_seed(0)
    posattn.PositionalTransformer(length=5, layers=1, generator=generator).save(folder / "trained")
    posattn.GPT(vocabulary=7, length=4, embed_dim=6, layers=1).save(folder / "text")
    (folder / "damaged").write_bytes((folder / "sort").read_bytes()[:200])
    broken = folder / "broken"
    with safetensors.safe_open(folder / "sort", framework="pt") as file:
        header, tensors = dict(file.metadata()), safetensors.torch.load((folder / "sort").read_bytes())
    tensors["decoder_weight"] *= 1.5
    del header["certificate"]  # it would not load with one
    safetensors.torch.save_file(tensors, broken, metadata=header)
    return {path.name: path for path in folder.iterdir()}


def one_line(ended: Ended) -> str:
    """The one line on stderr of a mistake."""
    assert ended.code == 2, ended
    (line,) = ended.err.splitlines()
    assert line.startswith("posattn: ")
    return line


# ---- programs


def test_programs_lists_every_program_with_what_it_costs(run):
    ended = run("programs")
    assert (ended.code, ended.err) == (0, "")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in ended.out.splitlines() if "│" in line]
    assert [row[0] for row in rows] == list(library.PROGRAMS)
    for name, told, layers, nodes, encoding in rows:
        made = compile(library.get(name, 8))
        sizes = made.model.architecture
        assert (layers, nodes) == (str(sizes.depth), str(sizes.nodes))
        assert encoding == f"{made.encoding}, {sizes.encoding_width}"
        explained = library.PROGRAMS[name].__doc__
        assert explained is not None
        assert explained.startswith(told)
        assert explained[len(told)] in ".:"  # a whole sentence, and nothing taken for markup


# ---- compile


def test_compile_writes_a_verified_model(run, tmp_path):
    ended = run("compile", "sort", "--length", 4, "--domain", 10, "--out", "made.safetensors")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "sort: 4 nodes, 3 layers, 1 head, state 5, MLP 1 × 8; binary encoding of 2 dimensions"
    assert lines[1] == "sort, length 4, float32, inputs in ±10: holds."
    assert lines[2].startswith(
        "256 random, 22 adversarial, 105 exhaustive and 256 searched inputs, against the interpreter and NumPy"
    )
    assert lines[3] == "written: made.safetensors"
    made = load(tmp_path / "made.safetensors")
    assert made.certificate is not None
    assert made.certificate.holds
    assert made.domain == 10
    assert made(torch.tensor([3.0, 1, 2])).tolist() == [1, 2, 3]


def test_compile_has_a_name_for_its_file_and_takes_a_dtype(run, tmp_path):
    ended = run("compile", "cumsum", "--length", 3, "--dtype", "float64")
    assert ended.out.splitlines()[-1] == "written: cumsum-3.safetensors"
    assert ", float64, inputs in ±1000: holds." in ended.out
    assert next(load(tmp_path / "cumsum-3.safetensors").model.parameters()).dtype == torch.float64


@pytest.mark.parametrize(
    ("program", "options", "x", "expected"),
    [
        ("reduce", ["operation=min"], [3.0, -1, 2], [-1.0, -1, -1]),
        ("permute", ["destinations=2,0,1", "route=direct"], [7.0, 8, 9], [8.0, 9, 7]),
        ("broadcast", ["source=1"], [7.0, 8, 9], [8.0, 8, 8]),
        ("argsort", ["grid=0.5"], [1.5, -1, 1], [1.0, 2, 0]),
    ],
)
def test_compile_takes_options_of_programs(run, tmp_path, program, options, x, expected):
    given = [part for option in options for part in ("--option", option)]
    ended = run("compile", program, "--length", 3, "--out", "m", *given)
    assert (ended.code, ended.err) == (0, "")
    assert load(tmp_path / "m")(torch.tensor(x)).tolist() == expected


COMPILING = {
    "no such program": (["srot", "--length", 4], ["unknown program 'srot'", "did you mean 'sort'?"]),
    "length 0": (["sort", "--length", 0], ["length=0", "a whole number of at least 1"]),
    "length -1": (["sort", "--length", -1], ["length=-1"]),
    "domain 0": (["sort", "--length", 4, "--domain", 0], ["domain=0.0", "above 0"]),
    "domain nan": (["sort", "--length", 4, "--domain", "nan"], ["domain=nan", "finite"]),
    "domain inf": (["sort", "--length", 4, "--domain", "inf"], ["domain=inf", "finite"]),
    "domain huge": (["sort", "--length", 4, "--domain", 1e38], ["too large for torch.float32", "smaller domain"]),
    "dtype": (["sort", "--length", 4, "--dtype", "float16"], ["unknown dtype 'float16'", "float32, float64"]),
    "no equals": (["reduce", "--length", 4, "--option", "min"], ["--option min", "write NAME=VALUE"]),
    "no such option": (["reduce", "--length", 4, "--option", "op=min"], ["'op'", "Known: operation"]),
    "no such operation": (["reduce", "--length", 4, "--option", "operation=mean"], ["unknown operation 'mean'"]),
    "length as option": (["sort", "--length", 4, "--option", "length=5"], ["--option length=5", "is not an option"]),
    "name as option": (
        ["sort", "--length", 4, "--option", "name=cumsum"],
        ["--option name=cumsum", "is not an option"],
    ),
    "source": (["broadcast", "--length", 4, "--option", "source=4"], ["source=4", "0 … 3"]),
    "destinations": (
        ["permute", "--length", 4, "--option", "destinations=0,1"],
        ["destinations=[0, 1]", "of the 4"],
    ),
    "grid": (["argsort", "--length", 4, "--option", "grid=-1"], ["grid=-1", "above 0"]),
    "no folder": (["sort", "--length", 2, "--out", "missing/made"], ["cannot write 'missing/made'"]),
}


@pytest.mark.parametrize(("arguments", "named"), COMPILING.values(), ids=COMPILING)
def test_a_mistake_in_compile_is_one_line_and_no_file(run, tmp_path, arguments, named):
    line = one_line(run("compile", *arguments))
    assert [part for part in named if part not in line] == []
    assert list(tmp_path.iterdir()) == []


def test_a_domain_that_the_dtype_cannot_hold_is_refused(run, tmp_path):
    ended = run("compile", "argsort", "--length", 8, "--domain", 1e8)
    assert (ended.code, ended.out) == (2, "")
    assert "steps of 0.125, and rounding in torch.float32 can move them by more than a quarter of a step" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_what_fails_its_certificate_is_not_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(lower, "check_decisions", lambda *_: None)
    ended = run("compile", "argsort", "--length", 8, "--domain", 1e8)  # more steps than float32 has integers
    assert (ended.code, ended.err) == (1, "")
    assert "on a grid of 1: FAILS, first at input [" in ended.out
    assert "written" not in ended.out
    assert list(tmp_path.iterdir()) == []


# ---- verify


def test_verify_holds_for_what_was_compiled(run, files):
    ended = run("verify", files["sort"], "--samples", 33, "--seed", 5)
    assert (ended.code, ended.err) == (0, "")
    assert "inputs in ±10: holds." in ended.out
    assert ended.out.splitlines()[2].startswith("33 random, 22 adversarial, 105 exhaustive and 36 searched inputs")


def test_verify_ends_with_1_where_the_weights_are_wrong(run, files):
    ended = run("verify", files["broken"])
    assert (ended.code, ended.err) == (1, "")
    found = re.search(r"FAILS, first at input \[(.*)\]\.$", ended.out, re.MULTILINE)
    assert found is not None
    x = np.array([float(value) for value in found[1].split(", ")], dtype=np.float32)
    with torch.no_grad():
        y = load(files["broken"]).model(torch.from_numpy(x)[None, :, None])[0, :, 0].numpy()
    assert np.abs(y - np.sort(x)).max() > 1e-6 * np.abs(x).max()


FILES = {
    "missing": ["is not there: check the path"],
    "damaged": ["damaged or is not a safetensors file"],
}


@pytest.mark.parametrize("command", [["verify"], ["run-model", 1, 2]], ids=["verify", "run-model"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_right_is_one_line(run, files, tmp_path, command, name):
    first, *rest = command
    line = one_line(run(first, files.get(name, tmp_path / "missing"), *rest))
    assert [part for part in FILES[name] if part not in line] == []


def test_verify_refuses_other_models_and_bad_options(run, files, tmp_path):
    assert "holds no compiled program" in one_line(run("verify", files["trained"]))
    assert "is a folder" in one_line(run("verify", tmp_path))
    assert "samples=0: it must be a whole number" in one_line(run("verify", files["sort"], "--samples", 0))
    assert "seed=-1" in one_line(run("verify", files["sort"], "--seed", -1))


# ---- trace


def test_trace_shows_every_round_and_the_output(run):
    ended = run("trace", "sort", 3, 1, 2, 5, 4)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "sort on 5 numbers, 6 rounds"
    assert lines[5] == "           x  3 1 2 5 4  →  1 3 2 5 4"
    assert lines[-1] == "      output  1 2 3 4 5"


@pytest.mark.parametrize("values", [["-3", "-0.5", "-13", "-1e-3"], ["--", "-3", "-0.5", "-13", "-1e-3"]])
def test_negative_numbers_are_values(run, files, values):
    assert run("trace", "sort", *values).out.splitlines()[-1] == "      output  -13 -3 -0.5 -0.001"
    assert run("run-model", files["double"], *values).out == "-3 -3.5 -16.5 -16.501\n"


def test_trace_takes_options_and_two_inputs(run):
    assert run("trace", "reduce", 4, 2, "--option", "operation=max").out.splitlines()[-1].split() == [
        "output",
        "4",
        "4",
    ]
    ended = run("trace", "fetch", "7:2", "8:0", "9:1", "--option", "route=grid")
    assert ended.out.splitlines()[-1].split() == ["output", "9", "7", "8"]


def test_trace_shows_trained_models_layer_by_layer(run, tmp_path):
    ended = run("trace", "zoo:sort-homogeneous", 3, 1, 2, -5, 4, 0, 7, 6, "--html", "zoo.html")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "zoo:sort-homogeneous on 8 numbers"
    assert lines[1].split() == ["input", "3", "1", "2", "-5", "4", "0", "7", "6"]
    answer, exact = ([float(word) for word in line.split()[-8:]] for line in lines[-3:-1])
    assert exact == [-5, 0, 1, 2, 3, 4, 6, 7]
    assert max(abs(a - b) for a, b in zip(answer, exact, strict=True)) < 0.5
    assert "<h1>zoo:sort-homogeneous on 8 numbers</h1>" in (tmp_path / "zoo.html").read_text()


def test_trace_says_where_a_trained_model_was_trained_on_another_length(run, tmp_path):
    ended = run("trace", "zoo:sort-homogeneous", 3, 1, "--html", "zoo.html")
    said = "The model was trained on lists of 8 numbers; on 2 its answer may be anything."
    assert ended.out.splitlines()[0] == said
    assert said in (tmp_path / "zoo.html").read_text()


def test_trace_shows_a_looped_models_file_iteration_by_iteration(run, tmp_path):
    model = nn.LoopedPositionalTransformer(schedule="scan", symmetry=("scale", "shift"))
    model.save(tmp_path / "scan.safetensors")
    lines = run("trace", "scan.safetensors", 3, 1, 2).out.splitlines()
    last = [float(word) for word in lines[-1].split()[2:]]
    expected = model(torch.tensor([[[3.0], [1.0], [2.0]]])).detach().flatten().tolist()
    assert last == pytest.approx(expected, rel=1e-5)
    assert lines[-1].split()[:2] == ["iteration", "2"]


def test_trace_refuses_what_it_cannot_show_in_one_line(run):
    assert "did you mean 'zoo:sort-positional'?" in one_line(run("trace", "zoo:sort-positonal", 1))
    assert "Leave it out" in one_line(run("trace", "zoo:sort-positional", 1, "--option", "route=grid"))
    assert "it must be (batch, nodes, 1)" in one_line(run("trace", "zoo:sort-positional", "1:2"))


def test_trace_writes_a_page_whole(run, tmp_path):
    ended = run("trace", "sort", 3, 1, 2, "--html", "sort.html")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == "page: sort.html"
    page = (tmp_path / "sort.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert "sort on 3 numbers" in page
    assert [path.name for path in tmp_path.iterdir()] == ["sort.html"]
    assert "cannot write 'missing/a.html'" in one_line(run("trace", "sort", 1, "--html", "missing/a.html"))


def test_the_page_of_a_shorter_input_says_where_it_was_filled_up(run, files, tmp_path):
    assert run("trace", files["sort"], 3, 1, "--html", "short.html").code == 0
    page = (tmp_path / "short.html").read_text(encoding="utf-8")
    assert "2 of 4 numbers were given; nodes 2 to 3 were filled up with 10, which changes no answer of theirs" in page


TRACING = {
    "program": (["srot", 1], ["unknown program 'srot'"]),
    "no number": (["sort", 1, "two"], ["the values 1 two", "'two'", "Give numbers"]),
    "nan": (["sort", 1, "nan"], ["the values 1 nan", "not finite"]),
    "inf": (["sort", 1, "-inf"], ["the values 1 -inf", "not finite"]),
    "unknown option": (["sort", 1, "--htlm", "x.html"], ["--htlm"]),
    "off the grid": (["argsort", 1.5, 1], ["holds 1.5 at [0, 0]", "not a multiple of 1", "round it"]),
    "no permutation": (["fetch", "7:0", "8:0"], ["'from' of sample 0 is 0, 0", "once"]),
    "one input of two": (["fetch", 7, 8], ["the values 7 8", "'fetch' takes x:from"]),
    "two inputs of one": (["sort", "7:1", "8:2"], ["the values 7:1 8:2", "'sort' takes x"]),
    "ragged": (["fetch", "7:1", 8], ["the values 7:1 8", "as many inputs"]),
    "option": (["reduce", 1, "--option", "min"], ["write NAME=VALUE"]),
}


@pytest.mark.parametrize(("arguments", "named"), TRACING.values(), ids=TRACING)
def test_a_mistake_in_trace_is_one_line(run, tmp_path, arguments, named):
    ended = run("trace", *arguments)
    line = one_line(ended)
    assert ended.out == ""
    assert [part for part in named if part not in line] == []
    assert list(tmp_path.iterdir()) == []


# ---- run-model


def test_run_model_runs_compiled_models(run, files):
    assert run("run-model", files["sort"], 3, 1, 2) == Ended(0, "1 2 3\n", "")
    assert run("run-model", files["fetch"], "7:2", "8:0", "9:1") == Ended(0, "9 7 8\n", "")
    assert run("run-model", files["argsort"], 30, -1, 2).out == "1 2 0\n"


def test_run_model_prints_numbers_that_can_be_told_apart(run, files):
    assert run("run-model", files["double"], 1000, 0.001, 0.000001).out == "1000 1000.001 1000.001001\n"
    assert run("run-model", files["double"], 0.5, 1e-9).out == "0.5 0.500000001\n"
    assert run("run-model", files["double"], 0.1, 0.2).out == "0.1 0.3\n"
    assert run("run-model", files["large"], 1000000, 1).out == "1000000 1000001\n"


def test_run_model_runs_a_trained_model(run, files):
    model = posattn.load(files["trained"])
    ended = run("run-model", files["trained"], 0.5, -1, 2)
    with torch.no_grad():
        expected = model(torch.tensor([[[0.5], [-1.0], [2.0]]]))[0, :, 0]
    assert (ended.code, ended.err) == (0, "")
    np.testing.assert_allclose(np.array(ended.out.split(), dtype=float), expected.numpy(), rtol=1e-6)


def test_run_model_and_score_take_looped_models_at_any_length(run):
    file = Path(posattn.__file__).parent / "zoo" / "weights" / "sort-looped.safetensors"
    ended = run("run-model", file, *range(11, 0, -1))
    assert ended.out.split() == [str(number) for number in range(1, 12)]
    ended = run("score", file, "--task", "sort", "--length", 21, "--scale", 1, "--samples", 4, "--json")
    assert json.loads(ended.out)["scores"][0]["loss"] < 1e-20


RUNNING = {
    "outside": ("sort", [3, 11], ["holds 11 at [0, 1]", "lies outside ±10"]),
    "too long": ("sort", [1, 2, 3, 4, 5], ["5 numbers", "compiled for length 4"]),
    "nan": ("sort", ["nan"], ["not finite"]),
    "no number": ("sort", ["x"], ["the values x", "Give numbers"]),
    "off the grid": ("argsort", [1.5], ["holds 1.5 at [0, 0]", "not a multiple of 1"]),
    "no permutation": ("fetch", ["1:0", "2:0", "3:1"], ["'from' of sample 0 is 0, 0, 1"]),
    "too short": ("fetch", ["1:0", "2:1"], ["2 numbers", "works on exactly 3"]),
    "one input of two": ("fetch", [1, 2, 3], ["takes (batch, length, 2)"]),
    "trained, too long": ("trained", [1, 2, 3, 4, 5, 6], ["length 6 and the one-hot encoding of the model 5"]),
    "trained, two inputs": ("trained", ["1:2"], ["takes (batch, length, 1)"]),
    "no numbers": ("text", [1, 2], ["holds a ", "models for lists of numbers"]),
}


@pytest.mark.parametrize(("file", "values", "named"), RUNNING.values(), ids=RUNNING)
def test_a_mistake_in_run_model_is_one_line(run, files, file, values, named):
    ended = run("run-model", files[file], *values)
    line = one_line(ended)
    assert ended.out == ""
    assert [part for part in named if part not in line] == []


# ---- all of them


@pytest.mark.parametrize("command", ["compile", "verify", "trace", "run-model"])
def test_a_command_without_its_arguments_says_which_is_missing(run, command):
    ended = run(command)
    assert (ended.code, ended.out) == (2, "")
    assert "Missing argument" in ended.err


def test_the_length_of_a_library_program_has_no_default(run):
    assert "'sort' needs its length: posattn compile sort --length 16" in one_line(run("compile", "sort"))


def test_programs_show_a_text_that_compile_takes(run, tmp_path):
    shown = run("programs", "--show", "cumsum", "--length", 5)
    assert Program.parse(shown.out) == replace(library.get("cumsum", 5), oracle=None)
    (tmp_path / "mine.pos").write_text(shown.out)
    ended = run("compile", "mine.pos", "--domain", 10)
    assert (ended.code, ended.err) == (0, "")
    assert "against the interpreter and NumPy" in ended.out
    assert ended.out.splitlines()[-1] == "written: mine.safetensors"
    assert load(tmp_path / "mine.safetensors").program.recipe == {"name": "cumsum", "length": 5}
    assert run("compile", "mine.pos", "--length", 5).code == 0
    for wrong, said in {
        ("--length", 6): "--length 6: the program in 'mine.pos' has length 5",
        ("--option", "a=1"): "--option a=1: the program in 'mine.pos' is written out",
    }.items():
        assert said in one_line(run("compile", "mine.pos", *wrong))
    (tmp_path / "mine.pos").write_text(shown.out.replace("+ left", "+ letf"))
    told = one_line(run("compile", "mine.pos"))
    assert told.startswith("posattn: 'mine.pos': line ")
    assert "found 'letf', expected a register or a slot; did you mean 'left'?" in told


def test_a_program_in_a_text_file_is_traced(run, tmp_path):
    (tmp_path / "two.pos").write_text('program two\nlength 2\nround "swap"\n  other <- x of i xor 1\n  x = other')
    shown = run("trace", "two.pos", 7, 8).out.splitlines()
    assert "round 1: swap" in shown
    assert shown[-1].split() == ["output", "8", "7"]
    for wrong, said in {
        ("two.pos", 7): "the program in 'two.pos' takes 2 of them",
        ("two.pos", "7:1", "8:1"): "'two' takes x for every node",
        ("two.pos", 7, 8, "--option", "a=1"): "is written out. Leave it out",
        ("none.pos", 7): "'none.pos' cannot be read as the text of a program",
    }.items():
        assert said in one_line(run("trace", *wrong))


def test_inputs_may_have_a_domain_each(run, tmp_path):
    text = "program p\nlength 3\ninputs x, flag\ngrid flag = 1\nround\n  x = gate(x, shut=positive(flag))"
    (tmp_path / "gated.pos").write_text(text)
    ended = run("compile", "gated.pos", "--domain", "x=1000,flag=1")
    assert (ended.code, ended.err) == (0, "")
    assert "inputs in ±1000 for x and ±1 for flag on grids of 1 for flag: holds." in ended.out
    made = load(tmp_path / "gated.safetensors")
    assert made(torch.tensor([[[7.5, 1], [8, 0], [9, -1]]]))[0, :, 0].tolist() == [0.0, 8.0, 9.0]
    for wrong, said in {
        "x=1000": "domain says nothing of input flag",
        "x=1,y=2": "unknown input in domain 'y'",
        "x=1,flag=a": "--domain x=1,flag=a: write a number, as 1000, or one per input",
        "x=1,x=2": "'x' is there twice",
        "wide": "--domain wide: write a number",
        "x=0,flag=1": "domain['x']=0.0: inputs lie in ±domain",
    }.items():
        assert said in one_line(run("compile", "gated.pos", "--domain", wrong))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("programs", ["exact weights", "posattn.compile.compile"]),
        ("compile", ["--length", "--domain", "--dtype", "--option", "--out", "posattn compile sort --length 16"]),
        ("verify", ["--samples", "--seed", "Exit code 1"]),
        ("trace", ["--html", "--option", "posattn trace sort 3 1 2 5 4 --html sort.html"]),
        ("run-model", ["posattn run-model sort16.safetensors 3 1 2", "7:0 8:2 9:1"]),
    ],
)
def test_help_says_how_a_command_is_used(command, shown):
    result = CliRunner(env={"COLUMNS": "140"}).invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", "", result.output).split())
    assert [part for part in shown if part not in text] == []
    assert command in typer.main.get_group(cli.app).commands
