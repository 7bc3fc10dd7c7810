"""Models in the hub's form: a folder holds all of a model, and the hub gets that folder and nothing else."""

import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch
import yaml

import posattn
from posattn import PosattnError, PositionalTransformer, StandardTransformer
from posattn.compile import Compiled, compile, library
from posattn.nn import Model

from .test_transforms import case, every_model

huggingface_hub = pytest.importorskip("huggingface_hub")

SIZES: dict[str, Any] = {"length": 4, "embed_dim": 4, "hidden_dim": 3, "layers": 1}


def small(cls: type[Model[Any]] = PositionalTransformer) -> Model[Any]:
    return cls(**SIZES, generator=torch.Generator().manual_seed(0))


@every_model
def test_a_model_of_any_kind_comes_back_from_its_folder_with_equal_outputs(name: str, tmp_path: Path) -> None:
    model, inputs = case(name)
    model.save_pretrained(tmp_path / "model")
    again = type(model).from_pretrained(tmp_path / "model")
    assert type(again) is type(Model.from_pretrained(tmp_path / "model")) is type(model)
    assert torch.equal(again(*inputs), model(*inputs))
    assert torch.equal(posattn.load(tmp_path / "model" / "model.safetensors")(*inputs), model(*inputs))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "README.md", "config.json", "model.safetensors",
    ]  # fmt: skip


def test_the_configuration_is_the_architecture(tmp_path: Path) -> None:
    model = small()
    model.save_pretrained(tmp_path)
    held = json.loads((tmp_path / "config.json").read_text())
    assert held.pop("library") == "posattn"
    assert held == json.loads(model.architecture.to_json())


def test_the_card_says_what_the_model_is_and_how_to_load_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    model.save_pretrained(tmp_path, about="Trained on **nothing**.")
    card = (tmp_path / "README.md").read_text()
    _, header, text = card.split("---\n", 2)
    assert yaml.safe_load(header) == {
        "library_name": "posattn", "license": "mit", "tags": ["posattn", "positional", "safetensors"],
    }  # fmt: skip
    assert f"{sum(weight.numel() for weight in model.parameters()):,} parameters" in text
    assert "Trained on **nothing**." in text
    assert "| embed_dim | 4 |" in text
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    snippet = text.split("```python\n")[1].split("```")[0]
    exec(snippet.replace("this repository, or a folder with its files", "."), names)
    assert type(names["model"]) is PositionalTransformer


def test_a_card_that_somebody_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    small().save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_class_refuses_a_model_of_another_kind(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    with pytest.raises(PosattnError, match=r"holds a positional model, not a StandardTransformer"):
        StandardTransformer.from_pretrained(tmp_path)


def test_a_configuration_that_was_changed_alone_is_refused_and_one_that_is_missing_is_not(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"layers": 1', '"layers": 2'))
    with pytest.raises(PosattnError, match="describes another model"):
        Model.from_pretrained(tmp_path)
    config.unlink()
    assert type(Model.from_pretrained(tmp_path)) is PositionalTransformer


def test_a_compiled_program_comes_back_with_its_certificate(tmp_path: Path) -> None:
    made = compile(library.get("sort", 4), domain=10.0).verify(samples=4)
    made.save_pretrained(tmp_path)
    again = Compiled.from_pretrained(tmp_path)
    assert again.certificate == made.certificate
    assert again(torch.tensor([3.0, -1.0, 2.0])).tolist() == [-1.0, 2.0, 3.0]
    card = (tmp_path / "README.md").read_text()
    assert str(made.certificate) in card
    assert "posattn.compile.Compiled.from_pretrained" in card
    assert type(Model.from_pretrained(tmp_path)) is type(made.model)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PosattnError, match=r"holds no model\.safetensors"):
        Model.from_pretrained(tmp_path)


# ---- the hub, which is never reached here


def test_a_repository_is_downloaded_with_what_the_caller_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small().save_pretrained(tmp_path / "cached")
    asked: list[Any] = []

    def snapshot(name: str, **options: Any) -> str:
        asked.append((name, options))
        return str(tmp_path / "cached")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.chdir(tmp_path)
    found = PositionalTransformer.from_pretrained("user/name", revision="v1", token="t", local_files_only=True)
    assert torch.equal(found(torch.ones(1, 4, 1)), small()(torch.ones(1, 4, 1)))
    ((name, options),) = asked
    assert name == "user/name"
    assert options == {
        "allow_patterns": ["model.safetensors", "config.json"], "revision": "v1", "token": "t",
        "local_files_only": True, "force_download": False, "cache_dir": None,
    }  # fmt: skip


def test_a_repository_that_is_not_in_the_cache_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(PosattnError, match=r"'nobody/nothing' is not a folder here, and the hub does not give it"):
        Model.from_pretrained("nobody/nothing", cache_dir=tmp_path, local_files_only=True)
    with pytest.raises(PosattnError, match="the hub does not give it"):
        Model.from_pretrained("not a name/of/anything")


class Hub:
    """An HfApi that keeps what would be uploaded."""

    made: dict[str, Any]
    uploaded: dict[str, Any]
    files: dict[str, bytes]

    def __init__(self, token: str | None = None) -> None:
        Hub.made = {"token": token}

    def create_repo(self, **options: Any) -> Any:
        Hub.made |= options
        return SimpleNamespace(repo_id=f"me/{options['repo_id']}")

    def upload_folder(self, *, folder_path: str, **options: Any) -> str:
        Hub.uploaded = options
        Hub.files = {path.name: path.read_bytes() for path in Path(folder_path).rglob("*")}
        return "the commit"


def test_a_push_uploads_the_folder_that_saving_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    model = small()
    assert model.push_to_hub("name", about="Mine.", private=True, branch="dev", token="t") == "the commit"
    assert Hub.made == {"token": "t", "repo_id": "name", "private": True, "exist_ok": True}
    assert Hub.uploaded == {
        "repo_id": "me/name", "repo_type": "model", "commit_message": "Push model using posattn.", "revision": "dev",
        "create_pr": None,
    }  # fmt: skip
    model.save_pretrained(tmp_path, about="Mine.")
    saved = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    weights = [safetensors.torch.load(files.pop("model.safetensors")) for files in (Hub.files, saved)]
    assert Hub.files == saved
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)


def test_a_push_that_the_hub_refuses_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Hub, **_: Any) -> None:
        raise OSError("401 Unauthorized\nmore")

    monkeypatch.setattr(Hub, "create_repo", refuse)
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    with pytest.raises(PosattnError, match=r"repo_id='name': the hub does not take it \(401 Unauthorized\)\."):
        small().push_to_hub("name")


@pytest.mark.parametrize("method", ["from_pretrained", "push_to_hub", "save_pretrained"])
def test_arguments_are_called_as_in_the_hubs_own_mixin(method: str) -> None:
    ours = inspect.signature(getattr(Model, method)).parameters
    theirs = inspect.signature(getattr(huggingface_hub.ModelHubMixin, method)).parameters
    assert set(ours) - {"about"} <= set(theirs)
    assert next(iter(ours)) == next(iter(theirs))


def test_without_the_extra_only_the_hub_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    small().save_pretrained(tmp_path)
    assert type(Model.from_pretrained(tmp_path)) is PositionalTransformer
    for reach in (lambda: Model.from_pretrained("user/name"), lambda: small().push_to_hub("user/name")):
        with pytest.raises(PosattnError, match=r"pip install 'posattn\[hub\]'"):
            reach()
