"""The command `posattn` among users' files, terminals and machines: what it refuses, and that nothing is lost."""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import posattn
from command_line import Ended, runner, without_colours
from posattn import cli, tasks
from posattn.compile import compile, library, load
from posattn.engine.side_by_side import SideBySide
from posattn.nn.weights import read_header
from posattn.studies import REGISTRY
from posattn.train.numeric_trials import numeric_trials, options_at_scale

pytestmark = pytest.mark.usefixtures("as_users_run_it")

SMALL = ["train", "sum", "--steps", "3", "--batch", "10", "--samples", "30", "--scale", "1", "--device", "cpu"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models in their files: compiled, trained and lost."""
    folder = tmp_path_factory.mktemp("models")
    compile(library.get("sort", 4), domain=50).verify(samples=4).save(folder / "sort.safetensors")
    model = posattn.PositionalTransformer(length=6, layers=1, generator=torch.Generator().manual_seed(0))
    model.save(folder / "trained")
    for name, value in (("nan", math.nan), ("huge", 1e30)):
        with torch.no_grad():
            model.encoder.weight.fill_(value)
        model.save(folder / name)
    posattn.GPT(length=5, embed_dim=6).save(folder / "gpt")
    posattn.MixedPositionalTransformer(length=5, characters=3, vocabulary=4).save(folder / "mixed")
    posattn.nn.RandomPlacesTransformer(length=5, layers=1).save(folder / "places")
    posattn.PositionalTransformer(length=5, layers=1, encoding="sinusoidal").save(folder / "endless")
    return {path.name.split(".")[0]: path for path in folder.iterdir()}


def refused(ended: Ended, *named: str) -> None:
    """Exit code 2 and one line, which names the value, the reason and the fix."""
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("posattn: ")
    assert [part for part in named if part not in line] == []


# ---- runs and score


def test_runs_lists_what_is_finished_and_what_was_begun(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    run(*SMALL, "--seeds", 2)
    run(*SMALL, "--model", "homogeneous", "--lr", "1e308")
    stopped = SideBySide._turn

    def stopping(turns: Any) -> None:
        stopped(turns)
        turns.stopping.asked = 2

    monkeypatch.setattr(SideBySide, "_turn", stopping)
    assert run(*SMALL, "--model", "standard").code == 130
    found = json.loads(run("runs", "--json").out)
    kept = {(one["model"], one["seed"]): one for one in found}
    assert set(kept) == {("positional", 0), ("positional", 1), ("homogeneous", 0), ("standard", 0)}
    assert {one["task"] for one in found} == {"sum"}
    trial = numeric_trials(
        "sum", "standard", length=8, seeds=1, steps=3, samples=30, batch=10, lr=1e-3, scales=(1,), precision="float32"
    )[0]
    begun = kept["standard", 0]
    assert (begun["trial"], begun["finished"], begun["losses"]) == (trial.id, False, {})
    assert begun["step"] == int(next(tmp_path.glob("runs/checkpoints/*/*.safetensors")).stem) > 0
    done = kept["positional", 1]
    metrics = json.loads((tmp_path / "runs" / done["trial"] / "metrics.json").read_text())
    assert done["losses"] == {score["set"]: score["loss"] for score in metrics["scores"]}
    assert (done["finished"], done["step"], done["diverged_at"]) == (True, 3, None)
    lost = kept["homogeneous", 0]
    assert (lost["diverged_at"], lost["losses"]["c=1"]) == (1, None)
    shown = run("runs")
    assert (shown.code, shown.err) == (0, "")
    rows = {line.split("│")[1].strip(): line for line in shown.out.splitlines() if line.startswith("│")}
    assert set(rows) == {one["trial"] for one in found}
    assert "standard on sum, seed 0" in rows[trial.id]
    assert f"unfinished, step {begun['step']}" in rows[trial.id]
    assert "diverged at step 1" in rows[lost["trial"]]
    assert f"c=1 {done['losses']['c=1']:.2g}" in rows[done["trial"]]


def test_runs_of_an_older_store_shows_the_ids_of_now_beside_the_folders_that_are_there(tmp_path: Path) -> None:
    """In a process of its own: here, other tests have loaded the studies."""
    older = json.loads((Path(__file__).parent / "train" / "schema1.json").read_text())
    score = {"set": "validation", "step": 0, "loss": 0.25, "metric": None}
    for held in older:
        folder = tmp_path / held["was"]
        folder.mkdir()
        (folder / "trial.json").write_text(json.dumps(held["trial"]))
        (folder / "metrics.json").write_text(json.dumps({"format": 1, "scores": [score]}))
    (tmp_path / "store.json").write_text('{"format": 1}')
    command = [sys.executable, "-m", "posattn", "runs", "--out", str(tmp_path)]
    listed = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert {(one["trial"], one["folder"]) for one in json.loads(listed.stdout)} == {
        (held["is"], held["was"]) for held in older
    }
    wide = subprocess.run(command, env=os.environ | {"COLUMNS": "200"}, capture_output=True, text=True, check=True)
    assert all(held["is"] in wide.stdout and held["was"] in wide.stdout for held in older)


def test_runs_refuses_a_trial_that_train_refuses(run: Any, tmp_path: Path) -> None:
    assert run(*SMALL).code == 0
    (trial,) = (tmp_path / "runs").glob("*/trial.json")
    trial.write_text('{"seed": 1}')
    trained, listed = run(*SMALL), run("runs")
    refused(listed, f"'{trial.relative_to(tmp_path)}' cannot be read", "run that trial again")
    assert listed.err == trained.err


def test_runs_lists_trials_of_a_task_that_is_not_registered(run: Any, tmp_path: Path) -> None:
    assert run(*SMALL).code == 0
    (trial,) = (tmp_path / "runs").glob("*/trial.json")
    trial.write_text(json.dumps(json.loads(trial.read_text()) | {"task": "mine"}))
    (listed,) = json.loads(run("runs", "--json").out)
    assert (listed["trial"], listed["folder"], listed["task"]) == (trial.parent.name, trial.parent.name, "mine")


def test_runs_of_no_folder_and_of_an_empty_one_are_refused(run: Any, tmp_path: Path) -> None:
    refused(run("runs", "--out", "missing"), "'missing' is not there")
    refused(run("runs", "--out", tmp_path), "holds no trials", "posattn train sum --out")


def test_score_is_the_loss_on_fresh_samples(run: Any, files: dict[str, Path]) -> None:
    ended = run("score", files["trained"], "--task", "sum", "--scale", 1, "--scale", 3, "--samples", 500, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert (found["length"], found["samples"], found["seed"]) == (6, 500, 0)
    assert [one["scale"] for one in found["scores"]] == [1, 3]
    model, task = posattn.load(files["trained"]), tasks.get("sum")
    for one in found["scores"]:  # on samples of our own: an untrained model's loss varies little between samples
        x, y = task.sample(4000, **options_at_scale(6, one["scale"]), generator=torch.Generator().manual_seed(9))
        with torch.no_grad():
            expected = (model(x) - y).square().mean().item()
        assert one["loss"] == pytest.approx(expected, rel=0.3)
    other = json.loads(run("score", files["trained"], "--task", "sum", "--seed", 1, "--json").out)
    assert len(other["scores"]) == 5
    assert other["scores"][0]["loss"] != found["scores"][0]["loss"]
    assert "scale c" in run("score", files["trained"], "--task", "sum", "--length", 3).out


def test_score_of_a_compiled_model_is_exact_on_its_own_task(run: Any, files: dict[str, Path]) -> None:
    for scale in (1, 20):
        (one,) = json.loads(
            run("score", files["sort"], "--task", "sort", "--scale", scale, "--samples", 50, "--json").out
        )["scores"]
        assert one["loss"] < 1e-9
        assert one["metric"] == 1
    (one,) = json.loads(run("score", files["sort"], "--task", "max", "--scale", 1, "--json").out)["scores"]
    assert one["loss"] > 0.01


@pytest.mark.parametrize(
    ("file", "options", "named"),
    [
        ("trained", ["--task", "sotr"], ["unknown task 'sotr'", "did you mean 'sort'?"]),
        ("trained", ["--task", "selection"], ["task 'selection' is not a list of numbers", "takes sum, min"]),
        ("trained", ["--task", "sum", "--length", 7], ["length=7", "up to 6 numbers of task 'sum'"]),
        ("trained", ["--task", "min-sum", "--length", 10**30], ["up to 3 numbers of task 'min-sum'"]),
        ("trained", ["--task", "sum", "--length", 0], ["length=0"]),
        ("trained", ["--task", "sum", "--scale", 0.5], ["scale=0.5", "1 or more"]),
        ("trained", ["--task", "sum", "--scale", "nan"], ["scale=nan", "1 or more"]),
        ("trained", ["--task", "sum", "--scale", "inf"], ["scale=inf", "1 or more"]),
        ("trained", ["--task", "sum", "--samples", 0], ["samples=0", "at least one"]),
        ("trained", ["--task", "sum", "--samples", 10**15], ["the memory is full", "fewer samples"]),
        ("sort", ["--task", "sort", "--scale", 30], ["lies outside ±50", "larger domain"]),
        ("gpt", ["--task", "sum"], ["holds a gpt model", "models for lists of numbers"]),
        ("nan", ["--task", "sum"], ["tensor 'encoder_weight' holds NaN", "lower learning rate"]),
        ("missing", ["--task", "sum"], ["'missing' is not there"]),
    ],
)
def test_a_mistake_in_score_is_one_line(
    run: Any, files: dict[str, Path], file: str, options: list[object], named: list[str]
) -> None:
    refused(run("score", files.get(file, file), *options), *named)


# ---- weights that are no numbers


@pytest.mark.parametrize("command", [["run-model"], ["bounds"]])
def test_weights_that_are_no_numbers_are_refused(run: Any, files: dict[str, Path], command: list[str]) -> None:
    values = [1, 2] if command == ["run-model"] else []
    refused(run(*command, files["nan"], *values), "tensor 'encoder_weight' holds NaN", "use another file")


def test_an_answer_that_is_too_large_is_refused(run: Any, files: dict[str, Path]) -> None:
    refused(run("run-model", files["huge"], "1e20", "-1e20"), "the values 1e20 -1e20", "too large for torch.float32")


# ---- a saved program


def test_trace_of_a_file_shows_the_program_in_it(run: Any, files: dict[str, Path]) -> None:
    whole = run("trace", files["sort"], 3, -1, 2, 0)
    assert whole == run("trace", "sort", 3, -1, 2, 0)
    assert whole.out.splitlines()[-1].split() == ["output", "-1", "0", "2", "3"]
    short = run("trace", files["sort"], 3, 1)  # filled up with what the program ignores
    assert short.out.splitlines()[-1].split() == ["output", "1", "3", "50", "50"]
    said = "2 of 4 numbers were given; filled up with 50, which changes no answer of theirs"
    assert short.out.splitlines()[0] == said
    assert "filled up" not in whole.out
    page = run("trace", files["sort"], 3, 1, "--html", "page.html")
    assert page.out.endswith("page: page.html\n")
    assert Path("page.html").read_text().startswith("<!doctype html>")


def test_a_mistake_in_the_trace_of_a_file_is_one_line(run: Any, files: dict[str, Path]) -> None:
    refused(run("trace", files["sort"], 1, 2, "--option", "route=grid"), "--option route=grid", "Leave it out")
    refused(run("trace", files["sort"], 100), "100", "outside ±50")
    refused(run("trace", files["sort"], 1, 2, 3, 4, 5), "5 numbers", "length 4")
    refused(run("trace", "./missing", 1), "'missing' is not there")
    refused(run("trace", "sotr", 1), "unknown program 'sotr'", "did you mean 'sort'?")


# ---- JSON, -h and completion


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_tasks_studies_and_programs_are_there_as_json(run: Any) -> None:
    assert [one["task"] for one in strict(run("tasks", "--json").out)] == tasks.names()
    studies = {one["study"]: one for one in strict(run("studies", "--json").out)}
    assert set(studies) == set(REGISTRY)
    assert studies["ood-scale"]["tasks"] == list(REGISTRY["ood-scale"].tasks)
    assert studies["ood-scale"]["cost"]["quick"] == REGISTRY["ood-scale"].cost["quick"]
    assert studies["ood-scale"]["options"] == {}
    assert studies["khop-depth"]["options"]["gelu"] == ["tanh", "erf"]
    assert studies["mixed-type"]["options"] == {"gpt2": ["auto", "a folder or a name on the hub"]}
    programs = {one["program"]: one for one in strict(run("programs", "--json").out)}
    assert set(programs) == set(library.PROGRAMS)
    assert (programs["sort"]["layers"], programs["sort"]["nodes"], programs["sort"]["encoding"]) == (6, 8, "binary")


def test_compile_and_verify_answer_with_json(run: Any) -> None:
    made = strict(run("compile", "sort", "--length", 4, "--json").out)
    assert (made["program"], made["length"], made["layers"], made["holds"]) == ("sort", 4, 3, True)
    assert made["certificate"]["random"] == 256
    assert load(made["file"]).certificate is not None
    again = strict(run("verify", made["file"], "--samples", 7, "--json").out)
    assert (again["holds"], again["file"], again["certificate"]["random"]) == (True, None, 7)


def test_a_certificate_that_fails_is_json_too_and_ends_with_1(run: Any, files: dict[str, Path], tmp_path: Path) -> None:
    header, weights = read_header(files["sort"]), safetensors.torch.load_file(files["sort"])
    weights["decoder_weight"].zero_()
    safetensors.torch.save_file(weights, tmp_path / "wrong", metadata=header)
    ended = run("verify", tmp_path / "wrong", "--json")
    assert ended.code in (1, 2)  # 2: refused on loading, where files carry a hash
    assert ended.code == 2 or strict(ended.out)["holds"] is False


def test_bounds_as_json_are_numbers(run: Any, files: dict[str, Path]) -> None:
    found = strict(run("bounds", files["trained"], "--json").out)
    numbers = {name: value for name, (value, _) in found.items() if name != "model"}
    assert all(isinstance(value, (int, float)) for value in numbers.values())
    assert (numbers["heads"], numbers["layers"], numbers["nodes"]) == (2, 1, 7)
    assert found["model"][0] == "positional"


def test_resources_as_json_are_those_of_the_table(run: Any) -> None:
    found = strict(run("resources", "--machines", 4, "--json").out)
    assert found[0] == {"what": "Theorem 5.1", "nodes": 5, "layers": 4, "heads": 2}


@pytest.mark.parametrize("command", [[], *([name] for name in sorted({"train", "trace", "run-model", "bounds"}))])
def test_h_is_help(command: list[str]) -> None:
    shown, short = (CliRunner().invoke(cli.app, [*command, option]) for option in ("--help", "-h"))
    assert short.exit_code == 0
    assert without_colours(short.output) == without_colours(shown.output)


def test_shells_can_complete_commands() -> None:
    asked = {"_POSATTN_COMPLETE": "complete_bash", "COMP_WORDS": "posattn tr", "COMP_CWORD": "1"}
    shown = CliRunner(env=asked).invoke(cli.app, [], prog_name="posattn")
    assert shown.output.split() == ["train", "trace"]
    for option in ("--install-completion", "--show-completion"):
        assert option in without_colours(CliRunner(env={"COLUMNS": "120"}).invoke(cli.app, ["-h"]).output)


def test_help_without_arguments_teaches_three_commands_to_try(run: Any) -> None:
    shown = " ".join(run().out.split())
    for example in ("posattn train sort", "posattn compile sort --length 16", "posattn run ood-scale --task sort"):
        assert example in shown


# ---- files and folders


def test_a_folder_is_named_from_home_where_no_shell_has_done_it(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(*SMALL, "--out=~/deep/runs").code == 0
    assert len(list((tmp_path / "deep" / "runs").glob("*/metrics.json"))) == 1
    assert run("runs", "--out=~/deep/runs").code == 0
    assert run("compile", "sort", "--length", 2, "--out=~/a.safetensors").code == 0
    assert run("trace", "sort", 1, 2, "--html=~/a.html").code == 0
    assert run("run-model", "~/a.safetensors", 2, 1).out == "1 2\n"
    assert run("trace", "~/a.safetensors", 2, 1).code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "a.safetensors", "a.html"}


@pytest.mark.parametrize(
    "command",
    [
        [*SMALL, "--out"],
        ["run", "ood-scale", "--preset", "smoke", "--out"],
        ["report", "ood-scale", "--out"],
        ["runs", "--out"],
        ["compile", "sort", "--length", 2, "--out"],
        ["trace", "sort", 2, 1, "--html"],
        ["verify"],
        ["bounds"],
        ["score", "--task", "sum"],
    ],
    ids=str,
)
def test_no_name_and_the_home_of_nobody_are_refused(run: Any, tmp_path: Path, command: list[object]) -> None:
    refused(run(*command, ""), "empty name", "name one")
    refused(run(*command, "~nobody-of-that-name/x"), "'~nobody-of-that-name/x'", "no such user")
    refused(run(*command, "a\0b"), "zero character")
    assert list(tmp_path.iterdir()) == []


def test_a_link_and_a_fifo_survive_what_is_written_to_them(run: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("page.html")
    os.mkfifo(tmp_path / "fifo")
    assert run("trace", "sort", 2, 1, "--html", "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.html").is_file()
    ended = run("trace", "sort", 2, 1, "--html", "fifo")
    assert ended.code == 2
    assert ended.err == "posattn: cannot write to 'fifo': nobody reads from it. Start the reader first.\n"
    assert (tmp_path / "fifo").is_fifo()


@pytest.mark.parametrize("model", ["/nonexistent", "./nonexistent", "~/nonexistent", "a/b/c"])
def test_a_folder_of_a_language_model_that_is_not_there_is_refused(run: Any, tmp_path: Path, model: str) -> None:
    ended = run("run", "mixed-type", "--preset", "smoke", "--option", f"gpt2={model}")
    refused(ended, f"gpt2={model}", "no such folder", "config.json")
    assert list(tmp_path.iterdir()) == []


def test_files_nested_without_end_are_refused(run: Any, files: dict[str, Path], tmp_path: Path) -> None:
    deep = "[" * 200_000
    run(*SMALL)
    (metrics,) = tmp_path.glob("runs/*/metrics.json")
    for name in ("trial.json", "metrics.json"):
        path = metrics.with_name(name)
        held = path.read_text()
        path.write_text(deep)
        ended = run("runs")
        refused(ended, f"'{path.relative_to(tmp_path)}' cannot be read", "remove the folder")
        path.write_text(held)
    record = tmp_path / "runs" / "studies" / "ood-scale.json"
    record.parent.mkdir()
    record.write_text(deep)
    refused(run("report", "runs"), "ood-scale.json' cannot be read", "run the study again")
    header, weights = read_header(files["sort"]), safetensors.torch.load_file(files["sort"])
    for entry in ("program", "compiled", "certificate", "architecture"):
        safetensors.torch.save_file(weights, tmp_path / entry, metadata=header | {entry: deep})
        refused(run("verify", entry), f"'{entry}' cannot be loaded")


# ---- numbers beyond all measure


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--steps", 99999999999999999999], ["steps=99999999999999999999", "larger than 9223372036854775807"]),
        (["--samples", 99999999999999999999], ["samples=99999999999999999999", "larger than 9223372036854775807"]),
        (
            ["--samples", 10**15],
            ["memory of device 'cpu' is full", "GiB were asked for", "fewer samples", "is kept"],
        ),
        (["--length", 10**17], ["the memory is full", "shorter length"]),
    ],
)
def test_numbers_beyond_all_measure_are_one_line_and_what_is_finished_is_kept(
    run: Any, tmp_path: Path, options: list[object], named: list[str]
) -> None:
    run(*SMALL)
    kept = {path: path.read_bytes() for path in tmp_path.glob("runs/*/*") if "checkpoints" not in path.parts}
    refused(run(*SMALL, *options), *named)
    assert kept == {path: path.read_bytes() for path in kept}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((SMALL, option) for option in ("--seeds", "--length", "--scale")),
        *((["bench"], option) for option in ("--fleet", "--batch")),
        (["run", "ood-scale"], "--seeds"),
        *((["verify", "x"], option) for option in ("--seed", "--samples")),
    ],
)
def test_a_count_that_nothing_can_hold_is_refused_by_its_option(run: Any, command: list[str], option: str) -> None:
    ended = run(*command, option, 10**30)
    assert (ended.code, ended.out) == (2, "")
    assert f"Invalid value for '{option}'" in ended.err


def test_a_program_too_long_to_write_out_is_refused(run: Any, tmp_path: Path) -> None:
    refused(run("compile", "sort", "--length", 10**9), "length=1000000000", "465 rounds", "shorter length")
    refused(
        run("compile", "cumsum", "--length", 10**5), "length=100000", "attention among them", "GiB", "shorter length"
    )
    assert list(tmp_path.iterdir()) == []


def test_scales_of_bounds_need_a_task(run: Any, files: dict[str, Path]) -> None:
    refused(run("bounds", files["trained"], "--scale", 3), "--scale 3", "Add --task")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_memory_that_is_full_is_one_line_wherever_that_happens(run: Any, monkeypatch: Any, error: Exception) -> None:
    monkeypatch.setattr(tasks, "names", lambda: (_ for _ in ()).throw(error))
    refused(run("tasks"), "the memory is full", "What was finished before is kept")


# ---- output


KEPT = "Send it elsewhere; files that were written are kept.\n"


def posattn_alone(arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m posattn {arguments}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=100, **options)


def test_a_full_device_is_said_once() -> None:
    ended = posattn_alone("--version > /dev/full")
    assert (ended.returncode, ended.stderr) == (2, "posattn: cannot write the output: No space left on device. " + KEPT)


@pytest.mark.parametrize(
    "command", ["tasks", "tasks --json", "--version", "--help", "train sum --steps 1 --batch 10 --samples 10 --json"]
)
@pytest.mark.parametrize("full", [False, True])
def test_output_that_nobody_takes_ends_a_command_quietly_or_with_one_line(
    monkeypatch: Any, capsys: Any, tmp_path: Path, command: str, full: bool
) -> None:
    """`posattn tasks | head -1`, whose reader has read enough, and a full device."""
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(os.open("/dev/full", os.O_WRONLY) if full else writer, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["posattn", *command.split()])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    if full:
        os.close(writer)
    said = capsys.readouterr().err
    assert stop.value.code == (2 if full else 141)
    assert said == ("posattn: cannot write the output: No space left on device. " + KEPT if full else "")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_letters_that_the_output_cannot_show_are_written_as_codes(monkeypatch: Any, encoding: str) -> None:
    for command, code in (["tasks"], 0), (["train", "śum"], 2):
        held = [io.BytesIO(), io.BytesIO()]
        streams = [io.TextIOWrapper(buffer, encoding=encoding) for buffer in held]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        monkeypatch.setattr(sys, "argv", ["posattn", *command])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            cli.main()
        for stream in streams:
            stream.flush()
        shown = [buffer.getvalue().decode(encoding) for buffer in held]
        assert (stop.value.code or 0) == code
        assert ("3 -1 2 -4 \\u2192 3 2 4 0" in shown[0]) if code == 0 else ("'\\u015bum'" in shown[1])


@pytest.mark.parametrize("name", ["gpt", "mixed", "places"])
def test_models_that_take_more_than_numbers_are_refused_by_commands_for_numbers(
    run: Any, files: Any, name: str
) -> None:
    for command in (["run-model", files[name], "1", "2"], ["score", files[name], "--task", "sum"]):
        refused(run(*command), f"'{files[name]}'", "models for lists of numbers")


def test_a_model_with_an_endless_encoding_is_scored_on_longer_lists(run: Any, files: Any) -> None:
    ended = run("score", files["endless"], "--task", "sum", "--length", "9", "--scale", "1", "--samples", "5")
    assert ended.code == 0
