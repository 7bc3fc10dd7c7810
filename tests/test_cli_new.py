"""`posattn new` writes files that run as they are."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Ended, runner
from posattn import plugins, studies, tasks
from posattn.compile import library

TRY = {
    "task": ("train", "my-first", "--steps", 2, "--samples", 8, "--batch", 4, "--device", "cpu"),
    "study": ("run", "my-first", "--preset", "smoke", "--device", "cpu"),
    "program": ("compile", "my-first", "--length", 5),
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for registry in (tasks.REGISTRY, studies.REGISTRY, library.PROGRAMS):
        registry.pop("my-first", None)
    for name in [name for name in sys.modules if name.startswith(plugins.PREFIX)]:
        del sys.modules[name]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    return runner(monkeypatch, capsys)


@pytest.mark.parametrize("kind", TRY)
def test_a_new_file_runs_as_it_is(kind: str, run: Any, tmp_path: Path) -> None:
    ended = run("new", kind, "my-first")
    assert (ended.code, ended.err) == (0, "")
    written, following = ended.out.splitlines()
    assert written == "written: my_first.py"
    assert following.startswith(f"next: posattn {TRY[kind][0]} my-first --plugin my_first.py ")
    tried = run(*TRY[kind], "--plugin", "my_first.py")
    assert (tried.code, tried.err) == (0, "")
    assert "my-first" in tried.out or kind == "study"
    assert compile((tmp_path / "my_first.py").read_text(), "my_first.py", "exec")


def test_the_task_of_a_new_file_computes_what_it_says(run: Any) -> None:
    run("new", "task", "my-first")
    plugins.load("my_first.py")
    import torch

    task = tasks.get("my-first")
    x, y = task.sample(4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(y, x.double().cumsum(1).float())
    assert torch.equal(
        tasks.get("my-first", modulus=2).target(torch.full((1, 3, 1), 1.5))[0, :, 0], torch.tensor([1.5, 1.0, 0.5])
    )


def test_a_file_that_is_there_is_kept(run: Any, tmp_path: Path) -> None:
    (tmp_path / "my_first.py").write_text("mine")
    ended = run("new", "task", "my-first")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "posattn: 'my_first.py' is there already: name another file, --out FILE, or remove it.\n"
    assert (tmp_path / "my_first.py").read_text() == "mine"
    assert run("new", "task", "my-first", "--out", "other file.py").code == 0
    assert "--plugin 'other file.py'" in (tmp_path / "other file.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tsak", "mine"), "unknown kind of file 'tsak': did you mean 'task'?"),
        (("task", "My Task"), "name='My Task': use small letters"),
        (("task", "class"), "name='class': use small letters"),
        (("task", "sort"), "name='sort' is a task of posattn's own"),
        (("study", "ood-scale"), "name='ood-scale' is a study of posattn's own"),
        (("program", "cumsum"), "name='cumsum' is a program of posattn's own"),
    ],
)
def test_what_cannot_begin_is_refused(arguments: tuple[str, ...], said: str, run: Any, tmp_path: Path) -> None:
    ended = run("new", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert list(tmp_path.iterdir()) == []
