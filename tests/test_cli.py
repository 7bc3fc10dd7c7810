"""The command `posattn`: what it prints, what it refuses, and how it ends."""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from rich.table import Table
from typer.testing import CliRunner

import posattn
from command_line import Ended, runner, without_colours
from posattn import cli, engine, tasks
from posattn.cli import output
from posattn.errors import PosattnError
from posattn.train.looped_for import SUITED

SMALL = ["train", "sum", "--steps", "3", "--batch", "100", "--samples", "300", "--scale", "1", "--device", "cpu"]
COMMANDS = list(typer.main.get_group(cli.app).commands)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    return runner(monkeypatch, capsys)


def alone(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """`posattn …` in a process of its own."""
    command = [Path(sys.executable).with_name("posattn"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, **options)


def events(text: str) -> list[dict[str, Any]]:
    """Every line as JSON, as strict as other languages read it: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


# ---- version and help


def test_installed_command_prints_its_version() -> None:
    ended = alone("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"posattn {posattn.__version__}\n", "")


def test_source_tree_prints_its_own_version_without_being_installed(tmp_path: Path) -> None:
    source = Path(posattn.__file__).parent
    shutil.copytree(source, tmp_path / "posattn", ignore=shutil.ignore_patterns("__pycache__"))
    init = tmp_path / "posattn" / "version.py"
    init.write_text(re.sub(r'__version__ = ".*"', '__version__ = "9.8.7.dev6"', init.read_text()))
    # Whoever asked for the installed package's version would get another one than this tree's.
    ended = subprocess.run(
        [sys.executable, "-m", "posattn", "--version"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "posattn 9.8.7.dev6\n", "")


def test_no_file_but_that_of_plugins_asks_for_what_is_installed() -> None:
    asking = [p.name for p in Path(posattn.__file__).parent.rglob("*.py") if "importlib.metadata" in p.read_text()]
    assert asking == ["plugins.py"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_explains_it(command: str) -> None:
    result = CliRunner(env={"COLUMNS": "120"}).invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    shown = " ".join(without_colours(result.output).split())
    function = next(found.callback for found in cli.app.registered_commands if _name(found) == command)
    assert function is not None
    explained = function.__doc__ or ""
    assert len(explained.split()) >= 10
    for paragraph in explained.split("\n\n"):
        assert " ".join(paragraph.split()) in shown


def _name(command: Any) -> str:
    return command.name or command.callback.__name__


def test_help_lists_every_command() -> None:
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(cli.app, ["--help"])
    assert shown.exit_code == 0
    assert {"tasks", "train", "bench"} <= set(COMMANDS)
    assert all(f" {command} " in without_colours(shown.output) for command in COMMANDS)


def test_every_option_is_explained() -> None:
    for name, command in typer.main.get_group(cli.app).commands.items():
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_no_arguments_show_the_help(run: Any) -> None:
    ended = run()
    assert ended.code == 2
    assert "Usage:" in ended.out
    assert all(f" {command} " in ended.out for command in COMMANDS)


# ---- tasks


def test_tasks_lists_every_task_with_an_example_computed_on_the_spot(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = run("tasks")
    assert (ended.code, ended.err) == (0, "")
    for name in tasks.names():
        task = tasks.get(name)
        (row,) = [line for line in ended.out.splitlines() if re.match(rf"│ {name} +│", line)]
        assert [cell.strip() for cell in row.strip("│").split("│")] == [name, task.summary, task.example()]
    monkeypatch.setattr(tasks.NumericTask, "example", lambda self: f"alive {self.name}")
    assert "alive sum" in run("tasks").out


# ---- mistakes


def test_unknown_command_is_refused_with_the_nearest(run: Any) -> None:
    ended = run("stuides")
    assert (ended.code, ended.out) == (2, "")
    assert "No such command 'stuides'" in ended.err
    assert "Did you mean 'studies'?" in ended.err


def test_unknown_option_is_refused_with_the_nearest(run: Any) -> None:
    ended = run("train", "sum", "--step", "3")
    assert (ended.code, ended.out) == (2, "")
    assert "No such option: --step" in ended.err
    assert "--steps" in ended.err


def test_unknown_task_ends_with_one_line_and_no_traceback() -> None:
    ended = alone("train", "sotr")
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("posattn: unknown task 'sotr': did you mean 'sort'? Known: sum, min, ")


#: What is wrong, and what the message must name: the value, the reason and the fix.
MISTAKES = [
    (["--steps", 0], ["steps=0", "at least one step"]),
    (["--steps", -5], ["steps=-5", "at least one step"]),
    (["--batch", 301], ["batch=301", "larger than the data", "samples=300", "smaller batch or more samples"]),
    (["--batch", 0], ["batch=0", "at least one sample"]),
    (["--samples", 0], ["samples=0", "more samples"]),
    (["--lr", -1], ["lr=-1.0", "above 0"]),
    (["--lr", "nan"], ["lr=nan", "finite"]),
    (["--lr", "inf"], ["lr=inf", "finite"]),
    (["--seeds", 0], ["seeds=0", "at least one"]),
    (["--seeds", -1], ["seeds=-1", "at least one"]),
    (["--scale", 0], ["scales (1, 0)", "1 or more"]),
    (["--scale", 2, "--scale", -3], ["scales (1, 2, -3)", "1 or more"]),
    (["--length", 0], ["length=0", "at least"]),
    (["--model", "postional"], ["unknown model 'postional'", "did you mean 'positional'?", "homogeneous, standard"]),
    (["--precision", "fp16"], ["unknown precision 'fp16'", "Known: float32, tf32, bf16, float64"]),
    (["--device", "cuda:99"], ["device 'cuda:99' is not there", "CUDA device", "Use 'auto' or 'cpu'"]),
    (["--device", "gpu"], ["device 'gpu' is not a device's name", "use 'auto', 'cpu' or 'cuda'"]),
]


@pytest.mark.parametrize(("options", "named"), MISTAKES, ids=lambda value: " ".join(map(str, value)))
def test_bad_option_of_train_names_the_value_the_reason_and_the_fix(
    run: Any, tmp_path: Path, options: list[object], named: list[str]
) -> None:
    out = tmp_path / "runs"
    ended = run(*SMALL, "--out", out, *options)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("posattn: ")
    assert [part for part in named if part not in line] == []
    assert not out.exists()  # refused before anything was done


def test_cuda_is_refused_where_there_is_none(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ended = run(*SMALL, "--out", tmp_path / "runs", "--device", "cuda")
    said = "posattn: device 'cuda' is not there: this machine has no CUDA device. Use 'auto' or 'cpu'.\n"
    assert ended == Ended(2, "", said)


NUMERIC = [name for name in tasks.names() if isinstance(tasks.get(name), tasks.NumericTask)]


@pytest.mark.parametrize("name", [name for name in tasks.names() if name not in NUMERIC])
def test_train_refuses_a_task_that_is_no_list_of_numbers(run: Any, tmp_path: Path, name: str) -> None:
    ended = run("train", name, "--out", tmp_path / "runs")
    (line,) = ended.err.splitlines()
    assert (ended.code, ended.out) == (2, "")
    assert line.startswith(f"posattn: task '{name}' is not a list of numbers")
    assert line.endswith("use model='looped', or a module of your own." if name in SUITED else f"{', '.join(NUMERIC)}.")


def test_results_do_not_go_where_a_file_is(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for out in (file, file / "runs"):
        ended = run(*SMALL, "--out", out)
        assert (ended.code, ended.out) == (2, "")
        (line,) = ended.err.splitlines()
        assert str(file) in line
        assert file.read_text() == "mine"


@pytest.mark.parametrize("option", ["--steps", "--seeds", "--batch", "--lr", "--scale", "--length"])
def test_option_that_is_no_number_is_refused(run: Any, option: str) -> None:
    ended = run("train", "sum", option, "many")
    assert (ended.code, ended.out) == (2, "")
    assert f"Invalid value for '{option}'" in ended.err


def test_a_bug_is_no_mistake_of_the_users(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only PosattnError is one line; anything else keeps its traceback."""
    for error in (ValueError("ours"), RuntimeError("ours")):
        monkeypatch.setattr(tasks, "names", lambda error=error: (_ for _ in ()).throw(error))
        monkeypatch.setattr(sys, "argv", ["posattn", "tasks"])
        with pytest.raises(type(error), match="ours") as raised:
            cli.main()
        assert not isinstance(raised.value, PosattnError)


# ---- train


def test_train_prints_a_table_and_keeps_what_it_trained(run: Any, tmp_path: Path) -> None:
    ended = run("train", "sum", "--steps", 3, "--batch", 10, "--samples", 30, "--seeds", 2, "--out", tmp_path / "runs")
    assert (ended.code, ended.err) == (0, "")
    assert "positional on sum, 2 seeds" in ended.out
    rows = {cells[0]: cells[1:] for cells in table(ended.out)}
    assert list(rows) == ["test set", "train", "c=1", "c=2", "c=3", "c=5", "c=10"]
    # Without training to speak of, the error grows as the square of the range.
    losses = {name: [float(cell) for cell in cells] for name, cells in rows.items() if name != "test set"}
    assert all(low <= median <= high for median, low, high in losses.values())
    assert losses["c=1"][0] < losses["c=2"][0] < losses["c=10"][0]
    folders = re.findall(r"^weights and metrics of seed ([01]): (.*)$", ended.out, flags=re.MULTILINE)
    assert [seed for seed, _ in folders] == ["0", "1"]
    kept = [Path(folder) / "weights.safetensors" for _, folder in folders]
    assert sorted(kept) == sorted((tmp_path / "runs").glob("*/weights.safetensors"))
    assert isinstance(posattn.load(kept[0]), posattn.PositionalTransformer)


def table(text: str) -> list[list[str]]:
    """The cells of every row that rich drew."""
    return [
        [cell.strip() for cell in line[1:-1].split(line[0])] for line in text.splitlines() if line[:1] in ("│", "┃")
    ]


def test_the_table_counts_a_seed_that_diverged_as_the_worst(run: Any, tmp_path: Path) -> None:
    command = [*SMALL, "--seeds", 3, "--out", tmp_path]
    run(*command)
    losses = {}
    for path in sorted(tmp_path.glob("*/metrics.json")):
        metrics = json.loads(path.read_text())
        losses[path] = next(score["loss"] for score in metrics["scores"] if score["set"] == "c=1")
    for lost in losses:
        kept = lost.read_text()
        metrics = json.loads(kept)
        for score in metrics["scores"]:
            score["loss"] = None  # what is kept of NaN
        lost.write_text(json.dumps(metrics))
        low, median = sorted(loss for path, loss in losses.items() if path != lost)
        assert table(run(*command).out)[-1] == ["c=1", f"{median:.2e}", f"{low:.2e}", "inf"]
        lost.write_text(kept)


@pytest.mark.parametrize("task", NUMERIC)
def test_train_takes_every_numeric_task(run: Any, tmp_path: Path, task: str) -> None:
    ended = run("train", task, *SMALL[2:], "--out", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert f"positional on {task}, 1 seed" in ended.out


def test_what_is_finished_is_not_trained_again(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [*SMALL, "--seeds", 2, "--out", tmp_path / "runs"]
    first = run(*command)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "runs").glob("*/*")}
    assert len(before) == 6
    monkeypatch.setattr("posattn.engine.training.Fleet", None)  # nothing can be trained any more
    assert run(*command) == first
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "runs").glob("*/*")} == before


def test_another_seed_trains_that_seed_alone(run: Any, tmp_path: Path) -> None:
    run(*SMALL, "--seeds", 1, "--out", tmp_path)
    (start, *_) = events(run(*SMALL, "--seeds", 2, "--out", tmp_path, "--json").out)
    assert start["event"] == "start"
    assert start["fleet"].endswith("× 1")
    assert len(list(tmp_path.glob("*/metrics.json"))) == 2


def test_results_of_other_trials_in_the_folder_are_left_out(run: Any, tmp_path: Path) -> None:
    run(*SMALL, "--model", "standard", "--out", tmp_path)
    ended = run(*SMALL, "--out", tmp_path, "--json")
    rows = events(ended.out)[-1]["rows"]
    assert len({row["trial"] for row in rows}) == 1
    assert [row["set"] for row in rows] == ["train", "c=1"]


@pytest.mark.parametrize("model", ["positional", "homogeneous", "standard"])
def test_json_is_one_object_a_line(run: Any, tmp_path: Path, model: str) -> None:
    command = [*SMALL, "--model", model, "--seeds", 2, "--scale", 4, "--out", tmp_path, "--json"]
    ended = run(*command)
    assert (ended.code, ended.err) == (0, "")
    start, *progress, end, result = events(ended.out)
    assert (start["event"], start["number"], start["steps"], start["step"]) == ("start", 0, 3, 0)
    assert end == {"event": "end", "number": 0}
    assert progress
    assert all(one["event"] == "progress" and len(one["losses"]) == 2 for one in progress)
    assert progress[-1]["step"] == 3
    assert result["event"] == "result"
    assert sorted((row["seed"], row["set"]) for row in result["rows"]) == [
        (seed, name) for seed in (0, 1) for name in ("c=1", "c=4", "train")
    ]
    assert all(set(row) == {"trial", "seed", "set", "loss", "metric", "diverged_at"} for row in result["rows"])
    again = events(run(*command).out)
    assert again == [result]  # nothing starts, nothing makes progress


@pytest.mark.parametrize("lr", ["10", "1e30"])  # at 10 the loss becomes infinite, at 1e30 no number at all
def test_json_of_a_run_that_diverges_is_json_still(run: Any, tmp_path: Path, lr: str) -> None:
    ended = run(*SMALL, "--lr", lr, "--out", tmp_path, "--json")
    assert ended.code == 1
    found = events(ended.out)
    assert found[-3]["losses"] == [None]
    (step,) = {row["diverged_at"] for row in found[-1]["rows"]}
    assert step in (1, 2)
    assert {row["loss"] for row in found[-1]["rows"]} == {None}
    assert f"all diverged, no longer finite: seed 0 at step {step}." in ended.err


def test_less_than_one_epoch_has_no_training_loss(run: Any, tmp_path: Path) -> None:
    ended = run("train", "sum", "--steps", 2, "--length", 2, "--out", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    found = {name: rest for name, *rest in table(ended.out) if rest}
    assert found["train"] == ["–", "–", "–"]
    assert "inf" not in ended.out


def test_a_seed_that_diverged_is_named_and_where_all_did_the_exit_code_is_1(run: Any, tmp_path: Path) -> None:
    command = [*SMALL, "--seeds", 3, "--out", tmp_path]
    ended = run(*command, "--lr", "1e308")
    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    lost = "seed 0 at step 1; seed 1 at step 1; seed 2 at step 1"
    assert ended.err.startswith(f"posattn: all diverged, no longer finite: {lost}. ")
    assert "lower learning rate" in ended.err
    assert "inf" in table(ended.out)[-1]
    again = run(*command, "--lr", "1e308")  # finished, and no better for that
    assert again == ended
    run(*command)
    one = max(tmp_path.glob("*/metrics.json"), key=lambda path: path.stat().st_mtime_ns)
    seed = json.loads((one.parent / "trial.json").read_text())["seed"]
    one.write_text(json.dumps(json.loads(one.read_text()) | {"diverged_at": 2}))
    ended = run(*command)
    assert ended.code == 0
    assert ended.err.startswith(f"posattn: 1 of 3 diverged, no longer finite: seed {seed} at step 2. ")


@pytest.mark.parametrize("model", ["positional", "homogeneous", "standard"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "float64"])
def test_every_model_trains_at_every_precision(run: Any, tmp_path: Path, model: str, precision: str) -> None:
    command = [*SMALL, "--model", model, "--json"]
    ended = run(*command, "--precision", precision, "--out", tmp_path / "this")
    assert ended.code == 0
    rows = events(ended.out)[-1]["rows"]
    usual = events(run(*command, "--out", tmp_path / "usual").out)[-1]["rows"]
    for row, other in zip(rows, usual, strict=True):
        # Ten products in a row are rounded to 8 bits, and an error is squared: 2 · 10 · 2⁻⁸.
        assert row["loss"] == pytest.approx(other["loss"], rel=0.08 if precision == "bf16" else 1e-3)


def test_a_looped_model_trains_on_graphs_and_no_other_does(run: Any, tmp_path: Path) -> None:
    few = [
        "--length",
        3,
        "--steps",
        2,
        "--samples",
        8,
        "--batch",
        4,
        "--scale",
        1,
        "--device",
        "cpu",
        "--out",
        tmp_path,
    ]
    ended = run("train", "all-pairs", "--model", "looped", *few, "--json")
    assert ended.code == 0
    rows = events(ended.out)[-1]["rows"]
    assert [row["set"] for row in rows] == ["train", "c=1"]
    model = posattn.load(tmp_path / rows[0]["trial"] / "weights.safetensors")
    assert model.architecture.schedule == "pairs"
    refused = run("train", "all-pairs", *few)
    assert (refused.code, refused.out) == (2, "")
    assert "task 'all-pairs' is not a list of numbers: use model='looped'" in refused.err


# ---- run and report

SMOKE = ["--preset", "smoke", "--device", "cpu"]


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a smoke run's time."""
    monkeypatch.setattr("posattn.report.rendered", lambda figure, kind: kind.encode())


def tabled(text: str) -> list[list[str]]:
    """The rows of a study's table, which has no lines between its cells."""
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    start = next(at for at, row in enumerate(rows) if row[:2] == ["task", "model"])
    return [rows[start], *(row for row in rows[start:] if len(row) == len(rows[start]) and row[0] in tasks.names())]


@pytest.mark.usefixtures("without_pictures")
def test_models_are_added_to_a_table_and_its_commands_make_it_elsewhere(run: Any, tmp_path: Path) -> None:
    """Names with blanks and commas: what is printed can be pasted into a shell."""
    first = run("run", "rotary", "--task", "sum", *SMOKE, "--seeds", 1, "--out", tmp_path / "here")
    assert (first.code, first.err) == (0, "")
    named = ["--model", "rotary, input X", "--model", "positional"]
    added = run("run", "rotary", "--task", "sum", *named, *SMOKE, "--seeds", 2, "--out", tmp_path / "here")
    header, *rows = tabled(added.out)
    seeds = {(row[1], row[header.index("seeds")]) for row in rows}
    assert seeds == {("rotary, input X‖P", "1"), ("rotary, input X", "2"), ("positional", "2")}
    commands = re.findall(r"^- Command: (.*)$", added.out, flags=re.MULTILINE)
    assert len(commands) == 2
    printed = []
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "posattn"
        elsewhere = run(*words, "--device", "cpu", "--out", tmp_path / "elsewhere")
        assert elsewhere.code == 0
        printed.append(tabled(elsewhere.out))
    assert printed[-1] == [header, *rows]
    again = run("report", "rotary", "--out", tmp_path / "here")
    assert again == Ended(0, added.out, "")


def test_an_unknown_model_is_answered_with_the_nearest(run: Any, tmp_path: Path) -> None:
    ended = run("run", "ood-scale", "--model", "standrad", *SMOKE, "--out", tmp_path / "runs")
    said = (
        "posattn: unknown model of study 'ood-scale', preset smoke 'standrad': did you mean 'standard'? "
        "Known: standard, positional, homogeneous, compiled.\n"
    )
    assert ended == Ended(2, "", said)
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("without_pictures")
def test_a_study_says_which_trial_diverged_and_ends_with_1_where_all_did(run: Any, tmp_path: Path) -> None:
    command = ["run", "accuracy", "--task", "sum", "--model", "standard", *SMOKE, "--seeds", 2, "--out", tmp_path]
    assert run(*command).err == ""
    for count, path in enumerate(sorted(tmp_path.glob("*/metrics.json")), 1):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"diverged_at": 3}))
        ended = run(*command)
        (line,) = ended.err.splitlines()
        assert line.startswith(
            f"posattn: {'1 of 2' if count == 1 else 'all'} diverged, no longer finite: standard on sum"
        )
        assert line.count("at step 3") == count
        assert (ended.code, "report: " in ended.out) == (count - 1, True)


@pytest.mark.usefixtures("without_pictures")
def test_tasks_and_models_with_seeds_of_their_own_share_a_table_and_its_commands_make_it_elsewhere(
    run: Any, tmp_path: Path
) -> None:
    asked = (["--task", "sum", "--seeds", 1], ["--task", "min", "--seeds", 1])
    asked += (["--task", "min", "--model", "standard", "--seeds", 2],)
    runs = [run("run", "ood-scale", *options, *SMOKE, "--out", tmp_path / "here") for options in asked]
    assert [(ended.code, ended.err) for ended in runs] == [(0, "")] * 3
    header, *rows = tabled(runs[-1].out)
    seeds = {(row[0], row[1]): row[header.index("seeds")] for row in rows}
    models = ("standard", "positional", "homogeneous", "compiled")
    expected = {(task, model): "1" for task in ("sum", "min") for model in models}
    assert seeds == expected | {("min", "standard"): "2"}
    commands = re.findall(r"^- Command: posattn (.*)$", runs[-1].out, flags=re.MULTILINE)
    made = [run(*shlex.split(line), "--device", "cpu", "--out", tmp_path / "elsewhere") for line in commands]
    assert [(ended.code, ended.err) for ended in made] == [(0, "")] * len(commands)
    assert tabled(made[-1].out) == [header, *rows]


@pytest.mark.usefixtures("without_pictures")
def test_the_json_of_a_study_holds_numbers_and_null(run: Any, tmp_path: Path) -> None:
    ended = run("run", "ood-scale", "--task", "sum", *SMOKE, "--seeds", 2, "--out", tmp_path, "--json")
    rows = {(row["model"], row["test set"]): row for row in events(ended.out)[-1]["rows"]}
    with (tmp_path / "reports" / "ood-scale" / "figures.csv").open() as file:
        kept = list(csv.DictReader(file))
    assert set(rows) == {(one["arm"], one["test_set"]) for one in kept}
    for (model, test_set), row in rows.items():
        mine = [one for one in kept if (one["arm"], one["test_set"]) == (model, test_set)]
        values = [float(one["value"]) for one in mine]
        assert (row["seeds"], row["ours"]) == (len(values), statistics.median(values))
        assert (row["lowest"], row["highest"]) == (min(values), max(values))
        said = mine[0]["published_median"]
        assert row["published"] == (float(said) if said else None)
        assert row["ratio"] == (row["ours"] / row["published"] if said else None)


@pytest.mark.usefixtures("without_pictures")
def test_a_run_ends_with_the_answer_and_a_table_that_fits_80_columns(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "sts-bound", *SMOKE, "--out", tmp_path]
    said = events(run(*command, "--json").out)[-1]["answer"]
    assert said.startswith("After 200 to 1,000 steps the lowest loss is that of “η = ")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*command).out.splitlines()
    assert lines[0] == "How long does descent take with the step size of Theorem 1 itself?"
    start = next(place for place, line in enumerate(lines) if line.split()[:2] == ["task", "model"])
    opening = " ".join(line.strip() for line in lines[1:start] if line.strip())
    assert opening == f"{said} (Medians of 2 seeds; the smoke preset only shows that everything runs.)"
    end = next(place for place, line in enumerate(lines) if line.startswith("- "))
    assert all(len(line) <= 80 for line in lines[:end])
    assert lines[start].split() == ["task", "model", "validation"]
    assert [line.split()[0] for line in lines[start + 2 : end] if line.strip()] == ["selection"] * 3


@pytest.mark.usefixtures("without_pictures")
def test_report_writes_every_study_of_a_folder_again(run: Any, tmp_path: Path) -> None:
    said = [
        run("run", study, "--task", "sum", "--model", "standard", *SMOKE, "--seeds", 1, "--out", tmp_path).out
        for study in ("accuracy", "ood-scale")
    ]
    shutil.rmtree(tmp_path / "reports")
    ended = run("report", tmp_path)
    assert ended == Ended(0, "".join(said), "")
    for study in ("accuracy", "ood-scale"):
        assert (tmp_path / "reports" / study / "report.html").is_file()


def test_report_says_where_there_is_nothing_to_report(run: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    ended = run("report", tmp_path)
    fix = f"start one, posattn run STUDY --out {tmp_path}."
    assert ended == Ended(2, "", f"posattn: no study was run in '{tmp_path}': {fix}\n")
    for what, reason in (
        ("ood-scal", "unknown study 'ood-scal': did you mean 'ood-scale'? Known: "),
        (tmp_path / "missing", f"unknown study '{tmp_path / 'missing'}': "),
    ):
        ended = run("report", what, "--out", tmp_path)
        assert (ended.code, ended.out) == (2, "")
        (line,) = ended.err.splitlines()
        assert line.startswith(f"posattn: {reason}")
    ended = run("report", "ood-scale", "--out", tmp_path)
    said = f"posattn: study 'ood-scale' has no finished run below '{tmp_path}': start it, posattn run ood-scale.\n"
    assert ended == Ended(2, "", said)
    assert sorted(tmp_path.rglob("*")) == before


def test_report_names_a_damaged_record_in_one_line(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "studies" / "accuracy.json"
    path.parent.mkdir()
    path.write_text("{")
    ended = run("report", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"posattn: '{path}' cannot be read (")


@pytest.mark.parametrize(
    ("study", "model", "reason"),
    [
        ("ood-scale", "gpt2", "option gpt2=gpt2: study 'ood-scale' leaves nothing to choose, leave it out."),
        ("mixed-type", "", "unknown value of option gpt2 '': Known: auto, a folder or a name on the hub."),
    ],
)
def test_a_language_model_that_makes_no_sense_is_refused(
    run: Any, tmp_path: Path, study: str, model: str, reason: str
) -> None:
    ended = run("run", study, "--option", f"gpt2={model}", *SMOKE, "--out", tmp_path / "runs")
    assert ended == Ended(2, "", f"posattn: {reason}\n")
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("without_pictures")
def test_a_folder_with_a_language_model_adds_a_model_to_the_study(
    run: Any, tiny_gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "mixed-type", "--task", "mixed-min", *SMOKE, "--seeds", 1, "--out", tmp_path]
    command += ["--option", f"gpt2={tiny_gpt2}"]
    ended = run(*command)
    assert (ended.code, ended.err) == (0, "")
    header, *rows = tabled(ended.out)
    assert header[2:] == ["validation", "c=1", "c=2", "c=10, seen labels"]
    assert len([row for row in rows if row[1] == "GPT-2"]) == 1
    assert re.search(r"^- \d+ of 24 answers of GPT-2 hold no number", ended.out, flags=re.MULTILINE)
    assert "GPT-2" in (tmp_path / "reports" / "mixed-type" / "report.html").read_text()
    monkeypatch.setattr("posattn.engine.training.Fleet", None)
    monkeypatch.setattr("posattn.train.language.fine_tune.fine_tune", None)
    assert run(*command) == ended


@pytest.mark.parametrize("options", [[], ["--json"], ["--model", "GPT-2"]], ids=str)
def test_a_language_model_that_was_asked_for_and_cannot_be_used_is_an_error_before_anything_is_trained(
    run: Any, tmp_path: Path, options: list[str]
) -> None:
    """Only the preset's own may be left out with a note: whoever names one wants it in the table."""
    missing = tmp_path / "missing"
    missing.mkdir()  # a folder with no model in it: the hub is not asked
    command = ["run", "mixed-type", "--task", "mixed-min", *SMOKE, "--out", tmp_path / "runs"]
    command += ["--option", f"gpt2={missing}"]
    ended = run(*command, *options)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"posattn: model '{missing}' cannot be loaded (")
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("without_pictures")
def test_a_language_model_that_is_not_run_need_not_be_there(run: Any, tmp_path: Path) -> None:
    """As in the command of a report that names it for the record."""
    options = ["--task", "mixed-min", "--model", "standard", *SMOKE, "--seeds", 1, "--out", tmp_path / "runs"]
    (tmp_path / "missing").mkdir()
    assert run("run", "mixed-type", *options, "--option", f"gpt2={tmp_path / 'missing'}").code == 0


def test_a_constant_with_which_the_bound_is_beyond_floats_is_refused(run: Any) -> None:
    file = Path(posattn.zoo.__file__).parent / "weights" / "sort-homogeneous.safetensors"
    for options in ([], ["--json"]):
        ended = run("bounds", file, "--constant", "1e308", *options)
        assert (ended.code, ended.out) == (2, "")
        assert "--constant 1e+308" in ended.err
        assert "smaller" in ended.err


# ---- narrow terminals


@pytest.mark.parametrize("columns", ["80", "40", "10"])
def test_a_narrow_terminal_breaks_no_number_and_no_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table = Table("model", "ours", "spread", title="Which?")
    table.columns[1].no_wrap = table.columns[2].no_wrap = True
    table.add_row("rotary, input X‖P of any length", "1.23e-04", "1.2e-04…3.4e+05")
    output.print_table(table)
    printed = capsys.readouterr().out
    for word in ("rotary,", "X‖P", "length", "1.23e-04", "1.2e-04…3.4e+05"):
        assert word in printed
    assert columns != "80" or max(map(len, printed.splitlines())) <= 80


# ---- Ctrl-C


def test_ctrl_c_says_where_it_stopped_and_how_to_go_on(tmp_path: Path) -> None:
    endless = ["train", "sum", "--steps", "10000000", "--batch", "10", "--samples", "30", "--out", tmp_path, "--json"]
    command = [Path(sys.executable).with_name("posattn"), *endless]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    start, progress = (json.loads(process.stdout.readline()) for _ in range(2))
    assert (start["event"], progress["event"]) == ("start", "progress")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    said = re.fullmatch(
        r"posattn: stopped at step (\d+) of 10000000\. Run the same command again to go on from there\.\n", err
    )
    assert said is not None, err
    assert int(said[1]) >= progress["step"]
    (kept,) = (tmp_path / "checkpoints").glob("*/*.safetensors")
    assert int(kept.stem) == int(said[1])


@pytest.mark.parametrize("command", [SMALL, ["run", "ood-scale", *SMOKE]])
def test_every_command_that_trains_ends_with_the_same_word_on_ctrl_c(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise engine.Interrupted("stopped at step 2 of 3. Run the same command again to go on from there.")

    monkeypatch.setattr("posattn.engine.training.Fleet", stopped)
    ended = run(*command, "--out", tmp_path)
    said = "posattn: stopped at step 2 of 3. Run the same command again to go on from there.\n"
    assert ended == Ended(130, "", said)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_fine_tuning_says_what_is_lost(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

    def stopped(*_: Any, **__: Any) -> None:
        assert signal.getsignal(number) != signal.SIG_DFL  # which would end the tests
        signal.raise_signal(number)

    monkeypatch.setattr("posattn.train.language.fine_tune.fine_tune", stopped)
    monkeypatch.setattr("posattn.train.language.pretrained.check_usable", lambda name: None)
    ended = run("run", "mixed-type", "--model", "GPT-2", *SMOKE, "--option", "gpt2=gpt2", "--out", tmp_path)
    assert (ended.code, ended.out) == (code, "")
    signal.signal(signal.SIGINT, usual)
    assert signal.getsignal(signal.SIGTERM) == before
    assert ended.err.startswith(
        "posattn: stopped while fine-tuning gpt2 on mixed-min, which begins anew next time. Run"
    )


def test_run_and_sweep_describe_the_options_that_they_share_alike() -> None:
    commands: Any = typer.main.get_group(cli.app).commands
    run, sweep = ({one.name: one for one in commands[name].params} for name in ("run", "sweep"))
    shared = (run.keys() & sweep.keys()) - {"seeds"}  # whose defaults differ
    assert {"study", "task", "model", "preset", "option", "device", "cluster", "out"} <= shared
    for name in shared:
        one, other = run[name], sweep[name]
        told = (one.opts, getattr(one, "help", None), one.metavar, one.default)
        assert told == (other.opts, getattr(other, "help", None), other.metavar, other.default)
