"""Every shape annotation of posattn is checked while the tests run, and every process keeps to one thread.

`make test-machines` runs the tests marked `numeric` as other machines would: those whose outcome depends on arithmetic.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import torch

SOURCE = Path(__file__).parents[1] / "src"
#: The modules that annotate shapes. What the others say of types pyright checks, and calls there are many.
SHAPED = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SOURCE / "posattn").rglob("*.py"))
    if "from jaxtyping import" in path.read_text(encoding="utf-8")
]
jaxtyping.install_import_hook(SHAPED, "typecheck.checked")

#: Tests in a browser need one: `make browser` installs it and runs them. `make docs` builds the site and tests it.
collect_ignore = [
    folder for folder, asked in (("browser", "POSATTN_BROWSER"), ("site", "POSATTN_SITE")) if asked not in os.environ
]

# Tests run in as many processes as there are cores: more threads would wait for each other.
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)

# Nothing is timed here: another process may have the core for a while.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

#: Folders of tests that multiply and add, and what in them does not, or does so in other processes.
NUMERIC = ("compile/", "nn/", "tasks/", "theory/", "train/", "zoo/", "test_encodings.py", "test_machine.py")
NOT_NUMERIC = (
    "compile/lowering/test_relu.py::test_the_same_program",
    "compile/programs/test_benes.py",
    "compile/show/test_draw.py",
    "compile/test_program.py",
    "compile/test_program_json.py",
    "compile/test_resources.py",
    "nn/kernels/test_kernels.py",
    "nn/test_bad_input.py",
    "nn/test_signatures.py",
    "tasks/test_number_sampling.py",
    "tasks/test_registry.py",
    "train/test_language.py",
    "train/test_pretrained.py",
    "train/test_shapes.py",
    "train/test_task_hash.py",
    "train/test_trial.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")
    parser.addoption("--moments", type=int, default=0, metavar="N", help="try every fault of a cluster at N moments")


def pytest_report_header(config: pytest.Config) -> str:
    capability, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    return f"torch {torch.__version__} computes with {capability}, {threads} threads, shuffle={config.option.shuffle}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            named = f"{item.path.relative_to(here).as_posix()}::{item.name}"
            if named.startswith(NUMERIC) and not named.startswith(NOT_NUMERIC):
                item.add_marker("numeric")
    if not config.option.moments:
        items[:] = [item for item in items if item.get_closest_marker("moments") is None]
    if config.option.shuffle is not None:
        # Modules in a random order, and so the tests within each: what a module's tests share is made once.
        chance = random.Random(config.option.shuffle)
        modules = {path: chance.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (modules[item.path], chance.random()))


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """A test that changes the number of threads does so for itself alone."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture
def as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runtime checks of annotations, which nobody has outside these tests: our own errors must do."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def own_registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in and import from; what is registered there is forgotten afterwards."""
    from posattn import tasks
    from posattn.compile import library
    from posattn.studies.core import study

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for registering in (tasks, study):
        monkeypatch.setattr(registering, "REGISTRY", dict(registering.REGISTRY))
    monkeypatch.setattr(library, "PROGRAMS", dict(library.PROGRAMS))


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random GPT-2 of one layer and width 32, and a tokenizer with a token for every character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    from posattn.tasks.mixed import GLYPHS

    made, end = tmp_path_factory.mktemp("tiny"), "<|endoftext|>"
    glyphs = sorted(set(GLYPHS) | set(" ,.:0123456789Answer"))
    tokenizer = Tokenizer(models.WordLevel({glyph: code for code, glyph in enumerate([end, *glyphs])}, unk_token=end))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.Fuse()  # pyright: ignore[reportAttributeAccessIssue]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end).save_pretrained(made)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=len(glyphs) + 1, n_positions=192, n_embd=32, n_layer=1, n_head=2)
        config.bos_token_id = config.eos_token_id = 0
        GPT2LMHeadModel(config).save_pretrained(made)
    return made
