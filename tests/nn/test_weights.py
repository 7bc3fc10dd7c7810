"""Models on disk: what is saved comes back bit for bit, and a file that is not right says so in one error."""

import contextlib
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from offsets import offset, placed
from posattn import (
    GPT,
    HybridTransformer,
    MixedPositionalTransformer,
    MixedStandardTransformer,
    PosattnError,
    PositionalTransformer,
    StandardTransformer,
    load,
)
from posattn.nn import (
    AlibiTransformer,
    ExactPositionalTransformer,
    FullyConnectedNetwork,
    HopTablesModel,
    LoopedPositionalTransformer,
    LoopedSlopesModel,
    LoopedStandardTransformer,
    MixedGatedModel,
    SelectorTransformer,
    StandardRandomPlacesTransformer,
    model_of,
    weights,
)
from posattn.nn.architecture import ARCHITECTURES
from posattn.nn.random_places import PlacedModel, RandomPlacesTransformer

SMALL: dict[str, Any] = {"embed_dim": 6, "hidden_dim": 5, "layers": 2, "length": 4}
MIXED: dict[str, Any] = SMALL | {"characters": 3, "vocabulary": 7}
MATRIX = torch.tensor([[1.0, 2.0, 3.0]] * 5) / 7

MODELS: list[Callable[[], Any]] = [
    lambda: PositionalTransformer(),
    lambda: PositionalTransformer(**SMALL, mlp_layers=4, bias=False, scratchpad=2),
    lambda: PositionalTransformer(**SMALL, encoding=MATRIX, constants=MATRIX[:, :1]),
    lambda: PositionalTransformer(**SMALL, encoding="near-orthogonal", encoding_dim=7, constants="stochastic"),
    lambda: ExactPositionalTransformer(**SMALL),
    lambda: RandomPlacesTransformer(**SMALL, encoding="sinusoidal"),
    lambda: StandardTransformer(**SMALL),
    lambda: StandardTransformer(**SMALL, rotary=True, append_encoding=False, scratchpad=0),
    lambda: AlibiTransformer(**SMALL, bias=False),
    lambda: StandardRandomPlacesTransformer(**SMALL, encoding="sinusoidal"),
    lambda: LoopedStandardTransformer(embed_dim=6, hidden_dim=5, mlp_layers=3),
    lambda: LoopedSlopesModel(schedule="bitonic"),
    lambda: LoopedSlopesModel(symmetry=("scale", "linear")),
    lambda: HybridTransformer(**SMALL, encoding="binary"),
    lambda: GPT(vocabulary=7, length=4, embed_dim=6, layers=2),
    lambda: GPT(vocabulary=7, length=4, embed_dim=6, layers=2, positional=True),
    lambda: MixedPositionalTransformer(**MIXED),
    lambda: MixedStandardTransformer(**MIXED),
    lambda: MixedGatedModel(compared=((((0, 2), (1, 2)),),), decides=(0, 1), characters=3, hidden_dim=5),
    lambda: HopTablesModel(letters=3, hops=2, hidden_dim=5),
    lambda: SelectorTransformer(length=4, dim=1, encoding="near-orthogonal", encoding_dim=70, deviation=1.0),
    lambda: FullyConnectedNetwork(length=4, dim=1, widths=(6, 5)),
    lambda: LoopedPositionalTransformer(symmetry=("scale",), state_dim=2),
]


def inputs_of(model: Any, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    if isinstance(model, GPT):
        return (torch.randint(0, 7, (3, 4), generator=generator),)
    if isinstance(model, HopTablesModel):
        return (torch.tensor([[3, 0, 1, 2], [4, 1, 0, 1], [5, 0, 1, 0]]),)
    if isinstance(model, MixedPositionalTransformer | MixedStandardTransformer | MixedGatedModel):
        return torch.randint(0, 7, (3, 3), generator=generator), torch.randn(3, 1, generator=generator, dtype=dtype)
    x = torch.randn(3, 4, 1, generator=generator, dtype=dtype)
    if isinstance(model, SelectorTransformer | FullyConnectedNetwork):
        return x, torch.tensor([[0, 2], [1, 3], [2, 3]]), torch.arange(3)
    return (x, torch.arange(4).repeat(3, 1)) if isinstance(model, PlacedModel) else (x,)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    PositionalTransformer(**SMALL).save(path)
    return path


def rewritten(path: Path, change: Callable[[dict[str, str], dict[str, Tensor]], Any]) -> Path:
    """The same file after `change(header, tensors)`."""
    with safetensors.safe_open(path, framework="pt") as file:
        header, tensors = dict(file.metadata()), safetensors.torch.load(path.read_bytes())
    change(header, tensors)
    safetensors.torch.save_file(tensors, path, metadata=header)
    return path


def complaint(path: Path) -> str:
    """The one error that loading gives. It names the file, and nothing hangs behind it."""
    with pytest.raises(PosattnError) as caught:
        load(path)
    assert caught.value.__cause__ is None
    assert f"'{path}'" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", MODELS)
def test_a_model_comes_back_bit_for_bit(make, dtype, tmp_path):
    model = make().to(dtype)
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert type(back) is type(model)
    assert back.architecture == model.architecture
    assert [name for name, _ in back.named_parameters()] == [name for name, _ in model.named_parameters()]
    for name, tensor in model.state_dict().items():
        assert back.state_dict()[name].dtype == dtype
        assert torch.equal(back.state_dict()[name], tensor)
    inputs = inputs_of(model, dtype)
    assert torch.equal(back(*inputs), model(*inputs))


class Displaced:
    """A reader whose tensors start so many bytes past a multiple of 64, as those of a mapped file may."""

    def __init__(self, file: Any, at: int) -> None:
        self.file, self.at = file, at

    def __enter__(self) -> "Displaced":
        self.file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.file.__exit__(*error)

    def metadata(self) -> dict[str, str]:
        return self.file.metadata()

    def keys(self) -> list[str]:
        return self.file.keys()

    def get_tensor(self, name: str) -> Tensor:
        return placed(self.file.get_tensor(name), self.at)


@pytest.mark.parametrize("at", range(4, 64, 4))
def test_it_comes_back_bit_for_bit_wherever_the_reader_puts_its_tensors(at, tmp_path, monkeypatch):
    opened = safetensors.safe_open
    monkeypatch.setattr(
        weights.safetensors, "safe_open", lambda path, framework: Displaced(opened(path, framework=framework), at)
    )
    for make in (MODELS[0], MODELS[1], MODELS[6]):
        for dtype in (torch.float32, torch.float64):
            model = make().to(dtype)
            model.save(tmp_path / "m")
            back = load(tmp_path / "m")
            assert {offset(tensor) for tensor in back.state_dict().values()} == {0}
            inputs = inputs_of(model, dtype)
            assert torch.equal(back(*inputs), model(*inputs))


def test_a_model_holds_its_weights_in_memory_of_its_own():
    model = MODELS[0]()
    given = {name: placed(tensor.detach(), 20) for name, tensor in model.weights().items()}
    other = model_of(model.architecture, given)
    for tensor in given.values():
        tensor.zero_()
    (x,) = inputs_of(model, torch.float32)
    assert torch.equal(other(x), model(x))
    assert {offset(tensor) for tensor in other.state_dict().values()} == {0}


def test_every_kind_of_model_is_tried():
    ours = {kind for kind, architecture in ARCHITECTURES.items() if not architecture.foreign}
    assert {make().architecture.kind for make in MODELS} == ours


def test_a_loaded_model_can_be_trained_further(saved):
    model = load(saved)
    model(torch.ones(2, 4, 1)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert not model.get_buffer("encoding").requires_grad


def test_loading_draws_no_random_numbers(saved):
    before = torch.get_rng_state()
    load(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_file_cut_anywhere_is_damaged(saved):
    whole = saved.read_bytes()
    for cut in {*range(24), *range(24, len(whole), len(whole) // 97), len(whole) - 1}:
        saved.write_bytes(whole[:cut])
        assert "damaged or is not a safetensors file" in complaint(saved)


def test_a_file_with_something_behind_it_is_damaged(saved):
    saved.write_bytes(saved.read_bytes() + b"x")
    assert "damaged" in complaint(saved)


def test_a_changed_byte_in_the_header_never_raises_anything_else(saved):
    whole, harmless = saved.read_bytes(), []
    header = 8 + int.from_bytes(whole[:8], "little")
    for at in range(0, header, 3):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 7]) + whole[at + 1 :])
        with contextlib.suppress(PosattnError):
            load(saved)
            harmless.append(at)
    assert len(harmless) < header / 20  # few bytes may change without harm: blanks, the order of names


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"not a model", b"\xff" * 1000, bytes(range(256)) * 9])
def test_a_foreign_file_is_refused(content, tmp_path):
    path = tmp_path / "foreign.bin"
    path.write_bytes(content)
    assert "damaged or is not a safetensors file" in complaint(path)


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("write", [torch.save, lambda content, path: path.write_bytes(pickle.dumps(content))])
@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "model"])  # torch.load goes by the ending
def test_nothing_is_ever_unpickled(write, name, tmp_path):
    path, trap = tmp_path / name, tmp_path / "trap"
    write({"weights": Malicious(trap)}, path)
    assert "damaged or is not a safetensors file" in complaint(path)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Malicious(trap)))
    assert trap.exists()  # the trap itself works


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_someone_else_is_refused(metadata, tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.torch.save_file({"weight": torch.zeros(3)}, path, metadata=metadata)
    assert "it holds no posattn model" in complaint(path)


@pytest.mark.parametrize("written", ["2", "10", "1.5", "", "one", "9" * 5000, "٢"])
def test_a_newer_format_asks_for_a_newer_posattn(written, saved):
    rewritten(saved, lambda header, _: header.update(posattn=written))
    assert "this version reads up to 1. Install a newer posattn" in complaint(saved)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not the description of a model: ''"),
        ("{", "not the description of a model: '{'"),
        ("[]", "not the description of a model: '[]'"),
        ("17", "not the description of a model: '17'"),
        ("{}", "not the description of a model: '{}'"),
        ("[" * 100_000, "not the description of a model"),
        ('{"kind":"postional"}', "unknown kind of model 'postional': did you mean 'positional'"),
        ('{"kind":["positional"]}', "unknown kind of model ['positional']"),
        ('{"kind":"positional","head":2}', "unknown option of the positional model 'head': did you mean 'heads'"),
        ('{"kind":"positional","length":"8"}', "length='8': it must be a whole number"),
        ('{"kind":"positional","length":-8}', "length=-8: it must be a whole number"),
        ('{"kind":"positional","bias":"no"}', "bias='no': it must be True or False"),
        ('{"kind":"positional","encoding":null}', "encoding is a NoneType"),
        ('{"kind":"positional","encoding":"given"}', "encoding='given' stands for a matrix"),
        ('{"kind":"positional","encoding":"one-hto"}', "unknown encoding 'one-hto': did you mean 'one-hot'"),
        ('{"kind":"positional","length":1000000000000}', "tensor 'decoder_bias' is of shape"),
        ('{"kind":"positional","length":1' + "0" * 40 + "}", "0: it is larger than 9223372036854775807"),
        ('{"kind":"positional","hidden_dim":1000000000000}', "tensor 'decoder_bias' is of shape"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_description_that_makes_no_model_is_refused(text, reason, saved):
    def change(header: dict[str, str], tensors: dict[str, Tensor]) -> None:
        header["architecture"] = text
        tensors["decoder_bias"] = torch.zeros(2)

    rewritten(saved, change)
    message = complaint(saved)
    assert "cannot be loaded" in message
    assert reason in message


def test_tensors_must_fit_the_architecture(saved):
    whole = saved.read_bytes()
    changes: dict[str, Callable[[dict[str, Tensor]], Any]] = {
        "tensor 'query_weight' is absent in the file and of shape (2, 5, 10)": lambda t: t.pop("query_weight"),
        "tensor 'encoding' is absent in the file": lambda t: t.pop("encoding"),
        "tensor 'extra' is of shape (3,) in the file and absent in": lambda t: t.update(extra=torch.zeros(3)),
        "tensor 'value_bias' is of shape (2, 7) in the file": lambda t: t.update(value_bias=torch.zeros(2, 7)),
        "dtypes ['torch.float32', 'torch.float64']": lambda t: t.update(value_bias=t["value_bias"].double()),
        "dtypes ['torch.float32', 'torch.int64']": lambda t: t.update(value_bias=t["value_bias"].long()),
        "dtypes ['torch.int64']": lambda t: t.update({name: tensor.long() for name, tensor in t.items()}),
    }
    for reason, change in changes.items():
        saved.write_bytes(whole)
        rewritten(saved, lambda _, tensors, change=change: change(tensors))
        assert reason in complaint(saved)


def test_an_architecture_of_other_sizes_does_not_fit_the_tensors(saved):
    def wider(header: dict[str, str], _: dict[str, Tensor]) -> None:
        header["architecture"] = json.dumps(json.loads(header["architecture"]) | {"hidden_dim": 9})

    rewritten(saved, wider)
    assert re.search(r"tensor 'mlp_in_bias' is of shape \(2, 5\) in the file and of shape \(2, 9\)", complaint(saved))


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    assert "is not there: check the path" in complaint(tmp_path / "missing")
    assert "is a folder: name the file in it" in complaint(tmp_path)


def test_saving_where_nothing_can_be_written_changes_nothing(saved, monkeypatch):
    whole = saved.read_bytes()
    for target in (saved.parent / "missing" / "model", saved / "model", saved.parent):
        with pytest.raises(
            PosattnError, match=f"cannot write '{re.escape(str(target))}': .* Nothing there was changed"
        ):
            PositionalTransformer(**SMALL).save(target)
    monkeypatch.setattr("posattn.files.os.open", _denied)
    with pytest.raises(PosattnError, match=r"model.safetensors': Permission denied\. .* permissions"):
        PositionalTransformer(**SMALL).save(saved)
    assert saved.read_bytes() == whole
    assert list(saved.parent.iterdir()) == [saved]


def _denied(*_: Any, **__: Any) -> Any:
    raise PermissionError(13, "Permission denied")


def test_a_device_is_no_model_and_not_called_missing():
    with pytest.raises(PosattnError, match=r"'/dev/null' is not a regular file"):
        load("/dev/null")
