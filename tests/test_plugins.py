"""Plugins: files and installed packages bring tasks, studies and programs; reading results imports none of them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import posattn
from command_line import Ended, runner
from posattn import engine, plugins, studies, tasks, user_code
from posattn.compile import library
from posattn.errors import PosattnError
from posattn.studies.core import results

TASK = """
from pathlib import Path

import torch

from posattn.tasks import Task, register

Path(__file__).with_suffix(".mark").write_text("imported")


@register
class Twice(Task):
    name = "twice"
    summary = "two times each number"

    def sample(self, count, *, length=4, generator):
        x = torch.randn(count, length, 1, generator=generator)
        return x, self.target(x)

    def target(self, inputs):
        return 2 * inputs
"""

STUDY = """
import twice

from posattn.nn import Positional
from posattn.studies import Case, Study, register
from posattn.studies.core.views import CurvesOverCases
from posattn.train import Data, Evaluation, Optimiser, Trial


@register
class Widths(Study):
    name = "my-widths"
    question = "Does width help?"
    answers = "nothing"
    paper = "ours"
    tasks = ("twice",)
    view = CurvesOverCases(axis="width")
    seeds = {"smoke": 1, "quick": 1, "paper": 1}
    cost = {"smoke": "seconds", "quick": "seconds", "paper": "seconds"}

    def cases(self, task, preset):
        return [
            Case(
                task=task,
                arm="positional",
                x=width,
                trial=Trial(
                    task=task,
                    model=Positional(length=4, embed_dim=4, hidden_dim=width, layers=1),
                    data=Data(samples=4, batch=2),
                    optimiser=Optimiser(steps=2),
                    evaluation=Evaluation(samples=2, sets={"test": {}}),
                ),
            )
            for width in (2, 4)
        ]
"""

PROGRAM = """
from posattn.compile import Program, Round, library, word


@library.register
def my_double(length: int) -> Program:
    \"\"\"Twice each number.\"\"\"
    double = Round(update={"x": word("x") + word("x")})
    return Program(name="my-double", length=length, nodes=length, registers=("x",), rounds=(double,))
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A folder to work in; what a test registers and imports is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in [name for name in sys.modules if name.startswith(plugins.PREFIX)]:  # of other tests
        monkeypatch.delitem(sys.modules, name)
    held: list[dict[str, Any]] = [tasks.REGISTRY, studies.REGISTRY, library.PROGRAMS]
    before, modules = [dict(registry) for registry in held], set(sys.modules)
    plugins._offered.cache_clear()
    yield
    for registry, kept in zip(held, before, strict=True):
        registry.clear()
        registry.update(kept)
    for name in set(sys.modules) - modules:
        if name.startswith(plugins.PREFIX) or name in ("twice", "offered"):
            del sys.modules[name]
    plugins._offered.cache_clear()
    assert str(tmp_path) not in sys.path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    return runner(monkeypatch, capsys)


# ---- files


def test_a_file_is_imported_once_under_a_name_that_does_not_depend_on_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    file.write_text(TASK)
    first = plugins.load("twice.py")
    assert isinstance(first, ModuleType)
    assert first.__name__ == "posattn_plugin_twice"
    (tmp_path / "twice.mark").unlink()
    assert plugins.load(file) is first
    assert not (tmp_path / "twice.mark").exists()
    assert tasks.get("twice").summary == "two times each number"


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("")
    plugins.load("a/mine.py")
    with pytest.raises(PosattnError, match=r"plugin 'b/mine.py': '.*a/mine.py' is loaded and has the same name"):
        plugins.load("b/mine.py")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
        ("x = 1\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("import no_such_package\n", 1, "ModuleNotFoundError: No module named 'no_such_package'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("import posattn\nposattn.tasks.get('sotr')\n", 2, "unknown task 'sotr': did you mean 'sort'"),
        ("import posattn\nposattn.tasks.register(3)\n", 2, "task is an int"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_file_that_cannot_be_imported_is_one_error_with_its_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(PosattnError) as caught:
        plugins.load("mine.py")
    message = str(caught.value)
    assert message.startswith(f"plugin 'mine.py' cannot be imported ({tmp_path / 'mine.py'}, line {line}): {said}")
    assert "\n" not in message
    assert caught.value.__cause__ is not None
    (tmp_path / "mine.py").write_text("mended = True")
    assert plugins.load("mine.py").mended  # it is imported anew


def test_a_mistake_in_a_file_beside_it_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import twice\n")
    (tmp_path / "twice.py").write_text("\n\nif:\n")
    with pytest.raises(PosattnError, match=rf"\({tmp_path / 'twice.py'}, line 3\)"):
        plugins.load("mine.py")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mien.py", "plugin 'mien.py' is neither a file nor an installed plugin: did you mean 'mine.py'?"),
        ("nowhere/x.py", "is neither a file nor an installed plugin: name a Python file"),
        (".", "plugin '.' is a folder: name a Python file in it"),
        ("", "plugin='': name a Python file"),
        (3, "plugin=3: name a Python file"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_what_is_no_plugin_is_refused_with_the_nearest(tmp_path: Path, name: Any, said: str) -> None:
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(PosattnError) as caught:
        plugins.load(name)
    assert said in str(caught.value)


# ---- installed packages


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package whose module `offered` brings a task by side effect; return where it lies."""
    site = tmp_path / "site"
    (site / "offering-1.0.dist-info").mkdir(parents=True)
    (site / "offering-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (site / "offered.py").write_text(TASK + PROGRAM)
    offer(site, tasks="twice = offered", programs="my-double = offered:my_double")
    monkeypatch.syspath_prepend(site)
    return site


def offer(site: Path, **groups: str) -> None:
    text = "\n".join(f"[posattn.{kind}]\n{lines}\n" for kind, lines in groups.items())
    (site / "offering-1.0.dist-info" / "entry_points.txt").write_text(text)
    plugins._offered.cache_clear()


def test_names_of_installed_plugins_are_read_without_importing_them(package: Path, run: Any) -> None:
    assert plugins.installed("tasks") == {"twice": "offering"}
    assert plugins.installed("programs") == {"my-double": "offering"}
    listed = json.loads(run("tasks", "--json").out)
    assert {"task": "twice", "computes": None, "example": None, "metric": None} in listed
    assert "installed by offering" in run("tasks").out
    run("studies")
    assert not (package / "offered.mark").exists()


@pytest.mark.parametrize("value", ["twice = offered", "twice = offered:Twice"])
def test_a_name_that_is_asked_for_loads_the_package_that_offers_it(package: Path, value: str) -> None:
    offer(package, tasks=value)
    plugins.provide("tasks", "sum")
    assert not (package / "offered.mark").exists()
    plugins.provide("tasks", "twice")
    assert tasks.get("twice").name == "twice"


def test_an_installed_plugin_is_loaded_by_its_name(package: Path) -> None:
    plugins.load("my-double")
    assert library.get("my-double", 3).name == "my-double"


def test_a_package_that_does_not_register_what_it_offers_is_named(package: Path) -> None:
    offer(package, tasks="thrice = offered")
    with pytest.raises(PosattnError, match=r"plugin 'thrice' of offering \(offered\) registers no task 'thrice'"):
        plugins.provide("tasks", "thrice")
    with pytest.raises(PosattnError, match=r"unknown task 'thirce': did you mean 'thrice'"):
        plugins.provide("tasks", "thirce")


@pytest.mark.usefixtures("as_users_run_it")
def test_a_package_that_offers_something_else_is_named(package: Path) -> None:
    offer(package, tasks="twice = offered:Path")
    with pytest.raises(PosattnError, match=r"plugin 'twice' of offering cannot be imported.*task is the class Path"):
        plugins.provide("tasks", "twice")


def test_a_package_that_fails_is_named_with_its_line(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "NOT_A_USERS", (str(package), *user_code.NOT_A_USERS))  # as packages are installed
    (package / "offered.py").write_text("\nraise RuntimeError('broken')\n")
    with pytest.raises(PosattnError, match=r"plugin 'twice' of offering cannot .*RuntimeError: broken") as caught:
        plugins.provide("tasks", "twice")
    assert f"({package / 'offered.py'}, line 2)" in str(caught.value)


def test_train_and_compile_load_what_is_installed_by_themselves(package: Path, run: Any) -> None:
    small = ("--steps", 1, "--samples", 4, "--batch", 2, "--device", "cpu")
    ended = run("train", "twice", *small)
    assert (ended.code, ended.err) == (0, "")
    ended = run("compile", "my-double", "--length", 3)
    assert (ended.code, ended.err) == (0, "")


# ---- commands


def test_a_users_study_gets_a_table_a_report_and_resume(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "twice.py").write_text(TASK)
    (tmp_path / "widths.py").write_text(STUDY)
    command = ("run", "my-widths", "--preset", "smoke", "--plugin", "widths.py", "--device", "cpu")
    first = run(*command)
    assert (first.code, first.err) == (0, "")
    assert "posattn run my-widths --preset smoke --seeds 1 --plugin widths.py" in first.out
    assert (tmp_path / "runs/reports/my-widths/report.html").is_file()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/metrics.json")}
    assert len(before) == 2
    monkeypatch.setattr("posattn.report.write", lambda results, out: Path("runs/reports/my-widths/report.html"))
    assert run(*command).out == first.out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/metrics.json")} == before


def test_a_folder_with_a_study_that_is_not_known_reports_the_others_and_names_it(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posattn.report.write", lambda results, out: Path(out, results.study.name))
    assert run("run", "sts-bound", "--preset", "smoke", "--device", "cpu").code == 0
    record = tmp_path / "runs/studies/sts-bound.json"
    (tmp_path / "runs/studies/other.json").write_text(record.read_text())
    ended = run("report", "runs")
    assert ended.code == 0
    assert "report: runs/sts-bound" in ended.out
    assert ended.err.startswith("posattn: other: not a study of posattn's own.")


def test_reading_results_imports_no_users_code(tmp_path: Path, package: Path) -> None:
    """In a process of its own, which has nothing registered, beside an installed plugin of the same name."""
    (tmp_path / "twice.py").write_text(TASK)
    (tmp_path / "widths.py").write_text(STUDY)
    plugins.load("widths.py")
    results.run(studies.get("my-widths"), preset="smoke", device="cpu", reporter=engine.Lines())
    (tmp_path / "twice.mark").unlink()
    program = """
import sys
from pathlib import Path
import posattn
from posattn import cli, engine
frame = engine.frame("runs")
assert set(frame["task"]) == {"twice"}
assert [held.task for held in engine.listing(engine.Store("runs"))] == ["twice", "twice"]
for weights in Path("runs").glob("*/weights.safetensors"):
    posattn.load(weights)
for arguments, code in ((["runs"], 0), (["report", "runs"], 2), (["report", "my-widths"], 2), (["tasks"], 0)):
    sys.argv = ["posattn", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        assert (end.code or 0) == code, arguments
assert not {"twice", "widths", "offered", "posattn_plugin_widths"} & set(sys.modules)
"""
    environment = os.environ | {"PYTHONPATH": f"{Path(posattn.__file__).parents[1]}{os.pathsep}{package}"}
    command = [sys.executable, "-W", "error", "-B", "-c", program]
    read = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    assert read.stderr.count("Name the file that describes it, --plugin FILE") == 2
    assert not (tmp_path / "twice.mark").exists()
    assert not (package / "offered.mark").exists()


def test_a_users_study_replaces_its_own_name_and_never_ours() -> None:
    def named(name: str) -> Any:
        class Mine(studies.Study):
            question = answers = paper = ""
            view: Any = None
            cost = dict.fromkeys(studies.PRESETS, "")
            tasks = ("sum",)

            def cases(self, task: str, preset: str) -> list[studies.Case]:
                return []

        Mine.name = name
        return Mine

    first, second = named("mine"), named("mine")
    assert studies.register(first) is first
    assert studies.register(second) is second
    assert type(studies.get("mine")) is second
    with pytest.raises(PosattnError, match="name='ood-scale' is a study of posattn's own: choose another name"):
        studies.register(named("ood-scale"))


class Unsaid(studies.Study):
    name = "unsaid"

    def cases(self, task: str, preset: str) -> list[studies.Case]:
        return []


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("study", "said"),
    [
        (Unsaid, "study class Unsaid lacks question, answers, view, cost, tasks"),
        (3, "study is an int, 3: decorate a class derived from Study"),
    ],
)
def test_a_study_that_says_too_little_is_refused(study: Any, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        studies.register(study)


# ---- programs


def test_a_users_program_compiles_traces_and_its_file_needs_no_users_code(tmp_path: Path, run: Any) -> None:
    (tmp_path / "doubling.py").write_text(PROGRAM)
    given = ("--plugin", "doubling.py")
    ended = run("compile", "my-double", "--length", 4, *given)
    assert (ended.code, ended.err) == (0, "")
    assert "2 4 6" in run("trace", "my-double", 1, 2, 3, *given).out
    del library.PROGRAMS["my-double"]
    assert run("verify", "my-double-4.safetensors").code == 0
    assert run("run-model", "my-double-4.safetensors", 1, 2, 3, 4).out == "2 4 6 8\n"


def lengthless() -> None: ...


def broken(length: int) -> Any:
    return [][length]  # line of the mistake


def not_a_program(length: int) -> Any:
    return length


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("build", "said"),
    [
        (3, "build is an int, 3: pass a function"),
        (lambda length: None, "pass a function, called as the program is"),
        (library.sort, "'sort' is a program of posattn's own"),
        (lengthless, r"lengthless\(\) -> None must take the length first"),
    ],
)
def test_what_builds_no_program_is_refused(build: Any, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        library.register(build)


def test_a_program_that_fails_names_its_line() -> None:
    library.register(broken)
    with pytest.raises(PosattnError, match=rf"program 'broken' failed: IndexError: .* \({__file__}, line \d+\)"):
        library.get("broken", 3)
    library.register(not_a_program)
    with pytest.raises(PosattnError, match=rf"program 'not-a-program' \({__file__}, line \d+\) gave an int"):
        library.get("not-a-program", 3)
    with pytest.raises(PosattnError, match=r"length=0: it must be a whole number of at least 1"):
        library.get("broken", 0)


def test_plugins_are_reached_through_the_package() -> None:
    assert posattn.plugins is plugins
