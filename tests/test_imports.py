"""The house: imports point one way, extras stay extras, nothing is unpickled, and what is promised is there."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import pytest

import posattn

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "posattn"
#: What each part may import from, as the design has it: encodings → nn → train → engine → studies → report → cli,
#: tasks → train, nn → compile → studies, nn → theory → studies, nn → zoo. `posattn` is the package itself.
FOUNDATION = {"errors", "files", "devices", "checks", "version", "html", "user_code"}
LEARNED = FOUNDATION | {"encodings", "nn", "tasks", "train"}
STUDIED = LEARNED | {"engine", "published", "compile", "theory", "zoo"}
MAY_IMPORT = {
    "errors": set(),
    "version": set(),
    "html": set(),
    "checks": {"errors"},
    "files": {"errors"},
    "devices": {"errors"},
    "user_code": {"errors", "devices"},
    "published": FOUNDATION,
    "encodings": FOUNDATION,
    "nn": FOUNDATION | {"encodings"},
    "tasks": FOUNDATION,
    "compile": FOUNDATION | {"encodings", "nn", "tasks"},
    "theory": FOUNDATION | {"encodings", "nn", "tasks"},
    "zoo": FOUNDATION | {"encodings", "nn", "tasks"},
    "train": LEARNED,
    "engine": LEARNED,
    "bench": LEARNED | {"engine"},
    "studies": STUDIED,
    "report": STUDIED | {"studies"},
    "plugins": STUDIED | {"studies"},
    "lab": STUDIED | {"studies", "report"},
    "cli": STUDIED | {"studies", "report", "lab", "bench", "plugins"},
    "__init__": STUDIED | {"studies", "report", "bench", "plugins"},  # when they are first used
    "__main__": {"cli"},
}
EXTRAS = (
    "ray", "optuna", "transformers", "gradio", "triton", "beartype", "hypothesis", "pytest", "huggingface_hub", "onnx",
    "onnxscript", "onnxruntime", "tensorboard", "nnsight", "z3", "flint",
)  # fmt: skip


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST, parts: set[str]) -> Iterator[str]:
    """The parts of posattn that a file imports, anywhere in it; `posattn` where it is the package itself."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole name, `from posattn.… import …`"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, *rest = name.split(".")
            if package == "posattn":
                yield rest[0] if rest and rest[0] in parts else "posattn"


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in sources()} <= set(MAY_IMPORT)


def test_the_order_has_no_circle() -> None:
    placed: set[str] = set()
    waiting = {part: allowed - {part} for part, allowed in MAY_IMPORT.items()}
    while waiting:
        ready = {part for part, allowed in waiting.items() if allowed <= placed}
        assert ready, f"these import each other: {sorted(waiting)}"
        placed |= ready
        waiting = {part: allowed for part, allowed in waiting.items() if part not in ready}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    found = set(imported(ast.parse(path.read_text()), set(MAY_IMPORT)))
    assert found - {part} <= MAY_IMPORT[part]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import posattn", {"posattn"}),
        ("import posattn.nn.rotary as p", {"nn"}),
        ("from posattn import __version__, tasks", {"posattn", "tasks"}),
        ("from posattn.train.fleet.fleet import Fleet", {"train"}),
        ("def f():\n    from posattn.cli import main", {"cli"}),
        ("import torch, posattnx\nfrom torch import nn", set()),
    ],
)
def test_every_way_to_import_is_seen(line: str, found: set[str]) -> None:
    assert set(imported(ast.parse(line), set(MAY_IMPORT))) == found


# ---- no file imports itself, by whatever way round


def names_of_files(root: Path) -> dict[str, Path]:
    """Every file below a package's folder by its dotted name; a package's `__init__.py` has the package's name."""
    dotted = {".".join(path.relative_to(root.parent).with_suffix("").parts): path for path in root.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in dotted.items()}


def imported_files(name: str, tree: ast.AST, files: Container[str]) -> set[str]:
    """The files that a file imports, anywhere in it: in functions and under TYPE_CHECKING, too.

    `from a.b import c` imports the file a.b.c where there is one, and otherwise a.b, which has to hold the name c. A
    package counts as its `__init__.py`, and only where it is imported for a name of its own: `import a.b` does not
    count as an import of a. So an `__init__.py` may import its package's files, unless one of them imports it back.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            wholes = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in files else node.module for whole in wholes}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "import_module":
            found |= {str(text.value) for text in node.args if isinstance(text, ast.Constant)}
    return {other for other in found if other in files and other != name}


def import_graph(root: Path) -> dict[str, set[str]]:
    files = names_of_files(root)
    return {name: imported_files(name, ast.parse(path.read_text()), files) for name, path in files.items()}


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of files that reach each other: the strongly connected components of more than one."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for after in graph[waiting.pop()] - seen:
                seen.add(after)
                waiting.append(after)
        reached[start] = seen
    groups = [{name, *(other for other in reached[name] if name in reached[other])} for name in graph]
    return [group for number, group in enumerate(groups) if len(group) > 1 and group not in groups[:number]]


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert cycles(import_graph(SOURCE)) == []


PLANTED = {
    "a plain import": ("import house.b", "import house.a", True),
    "names": ("from house.b import y", "from house.a import x", True),
    "files by name": ("from house import b", "from house import a", True),
    "a lazy import": ("from house import b", "def f():\n    from house.a import x", True),
    "an import for types": ("import house.b", "if TYPE_CHECKING:\n    from house.a import X", True),
    "a name as text": ("import house.b", "x = importlib.import_module('house.a')", True),
    "the package itself": ("from house import b", "from house import x", True),
    "one way": ("from house.b import y", "import json", False),
    "another house": ("from house.b import y", "from houses.a import x", False),
}


@pytest.mark.parametrize(("a", "b", "round_about"), PLANTED.values(), ids=PLANTED)
def test_a_planted_cycle_is_seen(tmp_path: Path, a: str, b: str, round_about: bool) -> None:
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").write_text("from house.a import x")
    (house / "a.py").write_text(a)
    (house / "b.py").write_text(b)
    assert bool(cycles(import_graph(house))) == round_about


# ---- what may be imported


def test_core_works_where_no_extra_is_installed() -> None:
    """Importing a name that stands for None in sys.modules fails, as if it were not installed."""
    program = f"""
import sys
import tomllib
import posattn
loaded = [name for name in {EXTRAS} if name in sys.modules]
assert not loaded, loaded
sys.modules.update(dict.fromkeys({EXTRAS}))
import posattn.bench, posattn.cli, posattn.engine, posattn.train
import torch
for model in (posattn.PositionalTransformer(), posattn.StandardTransformer()):
    model(torch.zeros(2, 8, 1)).sum().backward()
for name in ("posattn.nn.onnx", "posattn.nn.pretrained", "posattn.engine.tensorboard_log"):
    assert name in sys.modules, name
slow = [name for name in ("matplotlib", "ray") if sys.modules.get(name)]
assert not slow, slow
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_importing_the_package_and_asking_for_its_version_loads_no_torch() -> None:
    program = """
import sys
import tomllib
import posattn
assert "torch" not in sys.modules
sys.argv = ["posattn", "--version"]
from posattn.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
assert "torch" not in sys.modules
assert {"zoo", "compile", "theory", "studies", "load"} <= set(dir(posattn)) - set(vars(posattn))
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_parts_are_reached_through_the_package_as_docs_and_help_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zoo", "compile", "theory", "engine", "studies", "load"):
        monkeypatch.delattr(posattn, name, raising=False)  # as if nobody had imported it yet
    assert ("sort", "positional") in posattn.zoo.names()
    assert "sort" in posattn.compile.library.PROGRAMS
    assert callable(posattn.theory.bounds.terms)
    assert callable(posattn.engine.frame)
    assert "ood-scale" in posattn.studies.REGISTRY
    assert posattn.load is posattn.nn.load


def test_a_name_that_the_package_has_not_is_an_attribute_error() -> None:
    assert not hasattr(posattn, "zoos")


#: Packages that are imported under another name than they are installed by.
IMPORTED_AS = {"z3-solver": "z3", "python-flint": "flint"}


def test_the_source_distribution_has_what_tests_and_docs_are_made_of():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"][
        "include"
    ]
    assert {"src", "tests", "benchmarks", "docs", "examples", "mkdocs.yml", "constraints.txt"} <= set(built)
    assert all((ROOT / name).exists() for name in built)


@pytest.mark.parametrize("extra", ["cluster", "gpt2", "hub", "lab", "onnx", "proof", "sweep"])
def test_every_extra_that_can_be_installed_is_used(extra: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    every = {"cluster", "docs", "gpt2", "hub", "lab", "onnx", "proof", "sweep", "tensorboard", "dev"}
    assert set(extras) == every
    code = "\n".join(path.read_text() for path in sources())
    for requirement in extras[extra]:
        installed, *_ = re.findall(r"[a-z0-9_-]+", requirement)
        package = IMPORTED_AS.get(installed, installed)
        assert re.search(rf"^ *(import|from) {package}\b", code, flags=re.MULTILINE)


# ---- nothing is unpickled

UNPICKLERS = {
    f"{module}.{name}"
    for module in ("torch", "pickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "pandas", "pd")
    for name in ("load", "loads", "Unpickler", "open", "read_pickle")
}


def unpickling(tree: ast.AST) -> Iterator[int]:
    """The lines that unpickle. `pickle.loads(pickle.dumps(x))` reads nothing from outside, and may stand in a test."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(f"{node.module}.{name.name}" in UNPICKLERS for name in node.names):
            yield node.lineno
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            own = bool(node.args) and ast.unparse(node.args[0]).startswith("pickle.dumps(")
            allowed = any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in node.keywords)
            if allowed or (name in UNPICKLERS and not own):
                yield node.lineno


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_no_file_unpickles(folder: str) -> None:
    found = [(path, line) for path in (ROOT / folder).rglob("*.py") for line in unpickling(ast.parse(path.read_text()))]
    assert found == []
    if folder == "src":
        assert not any("pickle.dumps" in path.read_text() for path in sources())


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=True)", True),
        ("pickle.loads(data)", True),
        ("from pickle import load", True),
        ("numpy.load(path, allow_pickle=True)", True),
        ("numpy.load(path, allow_pickle=False)", False),
        ("pickle.loads(pickle.dumps(x))", False),
        ("safetensors.torch.load(data)", False),
        ("json.loads(text)", False),
        ("'torch.load(path)'", False),
    ],
)
def test_every_way_to_unpickle_is_seen(code: str, found: bool) -> None:
    assert bool(list(unpickling(ast.parse(code)))) == found


# ---- what is promised


@pytest.mark.parametrize(
    "path", [path for path in sources() if path.name == "__init__.py"], ids=lambda p: p.parent.name
)
def test_every_public_name_exists_once(path: Path) -> None:
    name = ".".join(["posattn", *path.parent.relative_to(SOURCE).parts])
    package = importlib.import_module(name)
    offered = getattr(package, "__all__", [])
    assert len(set(offered)) == len(offered)
    assert [public for public in offered if not hasattr(package, public)] == []


def test_the_package_offers_its_models_and_its_error() -> None:
    assert {"PositionalTransformer", "StandardTransformer", "PosattnError", "load", "tasks"} <= set(posattn.__all__)


def test_types_are_shipped() -> None:
    assert (SOURCE / "py.typed").is_file()
