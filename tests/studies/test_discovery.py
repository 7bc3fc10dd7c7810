"""A study is one file: it is found, run and reported without another file's help; and what a run costs beside it."""

import shutil
import subprocess
import sys
from pathlib import Path

from posattn import engine, report, studies
from posattn.studies.core import results

SOURCE = Path(studies.__file__).parents[1]

#: As CONTRIBUTING.md shows it.
NEW_STUDY = '''"""Does a wider MLP help on the sum?

    posattn run widths --preset quick                                           (minutes on two CPU cores)
"""

from posattn.nn import Positional
from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import CurvesOverCases
from posattn.studies.positional.numeric_protocol import PROTOCOLS, sizes, trial


@register
class Widths(Study):
    name = "widths"
    question = "Does a wider MLP help on the sum?"
    answers = "no published figure"
    paper = "ours"
    view = CurvesOverCases(axis="width")
    tasks = ("sum",)
    cost = {"smoke": "seconds", "quick": "5 min, 2 cores", "paper": "20 min, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        return [
            Case(
                task=task,
                arm="positional",
                x=width,
                trial=trial(task, Positional(**sizes(protocol, hidden_dim=width)), protocol),
            )
            for width in (4, 8)
        ]
'''


def test_a_new_study_is_one_file(tmp_path):
    package = tmp_path / "src" / "posattn"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "weights"))
    (package / "studies" / "length" / "widths.py").write_text(NEW_STUDY)
    command = [sys.executable, "-m", "posattn", "run", "widths", "--preset", "smoke", "--seeds", "1", "--device", "cpu"]
    environment = {"PYTHONPATH": str(package.parent), "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    rows = [line.split() for line in ended.stdout.splitlines() if line.startswith(" sum ")]
    assert [row[:3] for row in rows] == [["sum", "positional", name] for name in ("validation", "c=1", "c=3")]
    (header,) = [line.split() for line in ended.stdout.splitlines() if line.startswith(" task ")]
    assert header[-2:] == ["4", "8"]  # a column per width
    assert {len(row) for row in rows} == {5}
    assert (tmp_path / "runs" / "reports" / "widths" / "report.html").is_file()


def test_studies_are_known_in_the_order_of_their_files():
    names = list(studies.REGISTRY)
    folders = [type(study).__module__.split(".")[2] for study in studies.REGISTRY.values()]
    assert folders == sorted(folders)
    positional = [name for name in names if type(studies.get(name)).__module__.split(".")[2] == "positional"]
    assert positional == sorted(positional)


def test_a_whole_run_with_its_report_makes_the_cases_of_a_task_once(tmp_path, monkeypatch):
    usual, asked = type(studies.get("ood-scale")), []

    class Counted(usual):
        def cases(self, task, preset):
            asked.append((task, preset))
            return usual.cases(self, task, preset)

    monkeypatch.setitem(studies.REGISTRY, "ood-scale", Counted())
    study = studies.get("ood-scale").choosing({})
    found = results.run(
        study, preset="smoke", tasks=("sum",), seeds=1, out=tmp_path, device="cpu", reporter=engine.Lines()
    )
    report.write(found, tmp_path)
    assert asked == [("sum", "smoke")]  # and no other task's


def test_commands_that_ask_for_no_table_load_no_pandas():
    program = """
import sys
import posattn.cli

def run(*arguments):
    sys.argv = ["posattn", *arguments]
    try:
        posattn.cli.main()
    except SystemExit as end:
        assert not end.code

run("--version")
run("--help")
assert "torch" not in sys.modules
run("run", "ood-scale", "--help")
run("studies")
import posattn.published, posattn.report, posattn.studies, posattn.zoo
posattn.zoo.scores("sort", "standard")
posattn.published.losses("scale", "sum", "positional", scale=3)
assert "pandas" not in sys.modules
assert len(posattn.published.table("khop16.csv")) == 25
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
