"""A device's name is checked before anything is put there."""

import pytest
import torch

from posattn import devices
from posattn.errors import PosattnError


@pytest.fixture
def cuda_devices(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """As if the machine had this many CUDA devices, whatever it has."""
    count: int = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    return count


def with_cuda_devices(*counts: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cuda_devices", counts, indirect=True)


@with_cuda_devices(0, 2)
def test_auto_is_cuda_where_there_is_one(cuda_devices: int) -> None:
    expected = torch.device("cuda" if cuda_devices else "cpu")
    assert devices.resolve("auto") == devices.resolve() == expected


@with_cuda_devices(0, 2)
def test_cpu_is_always_there(cuda_devices: int) -> None:
    assert devices.resolve("cpu") == torch.device("cpu")
    assert devices.resolve(torch.device("cpu")) == torch.device("cpu")


@with_cuda_devices(2)
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:1"])
def test_cuda_device_keeps_its_number(cuda_devices: int, name: str) -> None:
    assert devices.resolve(name) == devices.resolve(torch.device(name)) == torch.device(name)


@with_cuda_devices(0, 2)
def test_cuda_device_that_is_not_there_is_refused(cuda_devices: int) -> None:
    for name in ["cuda", "cuda:0"] if cuda_devices == 0 else ["cuda:2", "cuda:7"]:
        count = "no CUDA device" if cuda_devices == 0 else "2 CUDA devices"
        said = rf"device '{name}' is not there: this machine has {count}\. Use 'auto' or 'cpu'\."
        for asked in (name, torch.device(name)):
            with pytest.raises(PosattnError, match=said):
                devices.resolve(asked)


def test_count_of_a_driver_that_does_not_work_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    # A card without a working driver is counted but not available.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(PosattnError, match=r"this machine has no CUDA device"):
        devices.resolve("cuda")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cuda:-1", "GPU 0", "the big one"])
def test_name_of_no_device_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(PosattnError) as refused:
        devices.resolve(name)
    assert str(refused.value) == f"device {name!r} is not a device's name: use 'auto', 'cpu' or 'cuda'."
    assert refused.value.__suppress_context__  # torch's own list of device types would only distract


@pytest.mark.parametrize("name", ["mps", "meta", "xpu"])
def test_kind_of_device_that_posattn_does_not_use_is_refused(name: str) -> None:
    with pytest.raises(PosattnError, match=rf"device '{name}' is not supported: use 'auto', 'cpu' or 'cuda'\."):
        devices.resolve(name)


@pytest.mark.parametrize(
    ("capability", "precision", "expected"),
    [
        ((7, 5), "tf32", "float32"),
        ((7, 5), "bf16", "bf16"),
        ((7, 5), "float32", "float32"),
        ((8, 0), "tf32", "tf32"),
        ((9, 0), "tf32", "tf32"),
    ],
)
def test_a_gpu_without_tf32_computes_in_float32(monkeypatch, capability, precision, expected) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert devices.arithmetic(torch.device("cuda"), precision) == expected
    assert devices.arithmetic(torch.device("cpu"), precision) == precision
