"""Anybody's module in a fleet: the same as the module trained alone, by PyTorch's own optimiser."""

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import posattn
from posattn import engine, tasks
from posattn.errors import PosattnError
from posattn.nn import AnyModule, from_json
from posattn.train import Checkpoints, Data, Evaluation, Fleet, Optimiser, Trial
from posattn.train.fleet import any_module, mapped_module
from posattn.train.fleet.own_randomness import draw, mixed
from posattn.train.random_streams import stream
from train.small import small_trial

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
measured: Any = importlib.import_module("any_module")

#: The five modules that are measured, as small as tests want them.
SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"width": 11},
    "Encoder": {"width": 12, "heads": 2, "dropout": 0.0},
    "GRU": {"width": 7},
    "ConvNet": {"width": 8},
    "CharGPT": {"width": 12, "heads": 2},
}
#: Others, on five numbers.
OTHERS = ("layer_norm", "buffers", "tied", "scalar", "caches")


@pytest.fixture(autouse=True)
def noise(as_users_run_it: None) -> Iterator[None]:
    """Tasks for the five, and no checks of annotations, which draw from Python's generator."""
    for name in measured.SHAPES:
        tasks.register(measured.Noise(name))
    yield
    for name in measured.SHAPES:
        del tasks.REGISTRY[name]


def trial(name: str, seed: int = 0, **fields: Any) -> Trial:
    if name not in SMALL:
        return small_trial(model=AnyModule(f"users_modules:{name}"), seed=seed, **fields)
    return Trial(
        task=name,
        model=AnyModule(f"users_modules:{name}", **SMALL[name]),
        data=Data(samples=12, batch=3),
        optimiser=Optimiser(steps=100, lr=1e-3),
        evaluation=Evaluation(samples=2),
        precision="float64",
        seed=seed,
    )


def alone(one: Trial) -> nn.Module:
    """The module with the first weights of a trial."""
    assert isinstance(one.model, AnyModule)
    return one.model.with_weights(one.model.init(stream(one.seed, "weights"))).double().train()


def batches(fleet: Fleet, replica: int, steps: int) -> list[tuple[Tensor, Tensor]]:
    part, found = fleet.data.parts[0], []
    for step in range(steps):
        part.prepare(step)
        batch = part.take(torch.tensor(step))
        found.append((batch.inputs[0][replica], batch.target[replica]))
    part.epochs = [None] * len(fleet.trials)
    return found


def loop(module: nn.Module, one: Trial, data: list[tuple[Tensor, Tensor]], optimiser: Any = None) -> nn.Module:
    """The loop that a user writes."""
    task, optimiser = tasks.get(one.task), optimiser or torch.optim.Adam(module.parameters(), lr=one.optimiser.lr)
    for x, y in data:
        optimiser.zero_grad()
        task.loss(module(x), y).backward()
        optimiser.step()
    return module


def distance(fleet: Fleet, replica: int, module: nn.Module) -> float:
    held, other = fleet.weights(replica), dict((*module.named_parameters(), *module.named_buffers()))
    return max(
        float((held[name] - other[name].detach()).abs().max()) for name in held if held[name].is_floating_point()
    )


def any_differs(changed: nn.Module, module: nn.Module, x: Tensor) -> bool:
    with torch.no_grad():
        return not torch.equal(changed(x), module(x))


@pytest.mark.parametrize("name", [*SMALL, *OTHERS])
def test_a_replica_is_the_module_trained_alone(name: str) -> None:
    """One step's gradients to 1e-12; weights after 100 steps to ten times of what one unit in the last place makes."""
    fleet = Fleet([trial(name, seed, optimiser={"steps": 100}) for seed in range(2)], device="cpu")
    one = fleet.trials[1]
    module, changed, data = alone(one), alone(one), batches(fleet, 1, 100)
    for held in changed.parameters():  # one weight, whose change is not lost in the first rounding
        one_weight = held.data.view(-1)
        if held.requires_grad and one_weight[0] != 0:
            one_weight[0] = torch.nextafter(one_weight[0], torch.tensor(torch.inf, dtype=torch.float64))
            if any_differs(changed, module, data[0][0]):
                break
    steps, optimiser = fleet.run(), torch.optim.Adam(module.parameters(), lr=one.optimiser.lr)
    next(steps)
    loop(module, one, data[:1], optimiser)
    for key, held in module.named_parameters():
        if held.grad is not None:
            found = fleet.parameters.view(fleet.parameters.grad, key)[1]
            assert (found - held.grad).abs().max() <= 1e-12 * held.grad.abs().max().clamp(min=1), key
    assert list(steps)[-1] == 100
    loop(module, one, data[1:], optimiser)
    loop(changed, one, data)
    pairs = zip(module.parameters(), changed.parameters(), strict=True)
    carried = max(float((a - b).detach().abs().max()) for a, b in pairs)
    assert 0 < carried < 1e-6
    assert distance(fleet, 1, module) <= 10 * carried


@pytest.mark.parametrize("name", ["dropout", "functional_dropout", "noise"])
def test_noise_in_a_fleet_is_that_of_the_trial_alone(name: str) -> None:
    fleet = Fleet([trial(name, seed) for seed in (5, 6, 7)], device="cpu")
    single = Fleet([trial(name, 6)], device="cpu")
    losses = []
    for _ in zip(fleet.run(4), single.run(4), strict=True):
        torch.testing.assert_close(fleet.loss[1:2], single.loss, rtol=1e-12, atol=0)
        losses.append(float(single.loss[0]))
    torch.testing.assert_close(fleet.weights(1), single.weights(0), rtol=1e-11, atol=1e-13)


def test_dropout_keeps_what_its_stream_says() -> None:
    """Masks from the stream's definition, put into the module's formula by hand, at two steps."""
    fleet = Fleet([trial("dropout", seed) for seed in range(2)], device="cpu")
    data, keys = batches(fleet, 1, 2), stream(1, "noise inside the model").initial_seed()
    for step, (x, y) in enumerate(data):
        w = fleet.weights(1)
        kept = torch.empty(6, 5, 6).bernoulli_(0.7, generator=torch.Generator().manual_seed(mixed(keys, step, 1) >> 1))
        middle = torch.tanh(F.linear(x, w["read.weight"], w["read.bias"])) * kept.double() / 0.7
        answer = F.linear(middle, w["write.weight"], w["write.bias"])
        next(fleet.run())
        torch.testing.assert_close(fleet.loss[1], (answer - y).square().mean(), rtol=1e-12, atol=0)


def test_draws_differ_by_replica_step_and_number_and_have_their_law() -> None:
    keys, step = torch.tensor([3, 4]), torch.tensor(5)
    first = draw(keys, step, 1, [40_000], "uniform", 0.0)
    others = (draw(keys, step + 1, 1, [40_000], "uniform", 0.0), draw(keys, step, 2, [40_000], "uniform", 0.0))
    for one, other in ((first[0], first[1]), *((first[0], held[0]) for held in others)):
        assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 5 / 200  # five deviations of 1/√40,000
    assert torch.equal(first[1], draw(keys[1:], step, 1, [40_000], "uniform", 0.0)[0])
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 5 * (1 / 12 / 80_000) ** 0.5
    normal = draw(keys, step, 1, [40_000], "normal", 0.0)
    assert abs(normal.mean()) < 5 / 80_000**0.5
    assert abs(normal.var() - 1) < 5 * (2 / 80_000) ** 0.5
    kept = draw(keys, step, 1, [40_000], "kept", 0.3)
    assert abs(kept.double().mean() - 0.3) < 5 * (0.21 / 80_000) ** 0.5


REFUSED = {
    "batch_norm": "running means",
    "branches": "depends on values that it computes",
    "recurrent": "nn.GRU",
    "counts": "changes the buffer 'middle.seen'",
    "writes": "writes into a tensor that all replicas share",
    "skips": "global generator",
    "picks": "randperm",
    "warms": "changes its attribute 'middle.calls'",
    "own_generator": "changes its attribute 'middle.chance'",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_mapped_is_refused_before_training_and_trains_one_by_one(name: str) -> None:
    trials = [trial(name, seed) for seed in range(2)]
    with pytest.raises(PosattnError, match=REFUSED[name]) as refused:
        Fleet(trials, device="cpu")
    assert "--fleet off" in str(refused.value)
    if name in ("branches", "writes"):
        assert "users_modules.py, line" in str(refused.value)
    fleet = Fleet(trials, device="cpu", together=False)
    first = fleet.weights(0)
    for _ in fleet.run(3):
        assert fleet.loss.isfinite().all()
    assert not torch.equal(fleet.weights(0)["read.weight"], first["read.weight"])
    assert fleet.scores()[0]["near"].loss > 0


@pytest.mark.parametrize("name", ["batch_norm", "branches", "recurrent", "layer_norm", "buffers", "tied"])
def test_one_by_one_a_replica_is_the_module_trained_alone_buffers_included(name: str) -> None:
    fleet = Fleet([trial(name, seed) for seed in range(2)], device="cpu", together=False)
    module, data = alone(fleet.trials[1]), batches(fleet, 1, 20)
    for _ in fleet.run():
        pass
    loop(module, fleet.trials[1], data)
    assert distance(fleet, 1, module) <= 1e-9


@pytest.mark.parametrize("in_place", [True, False])
def test_buffers_that_a_module_changes_are_kept(in_place: bool) -> None:
    changing = dataclasses.replace(trial("counts"), model=AnyModule("users_modules:counts", in_place=in_place))
    fleet = Fleet([changing, changing.seeded(1)], device="cpu", together=False)
    for _ in fleet.run(3):
        pass
    assert fleet.weights(1)["middle.seen"] == 3
    if not in_place:
        with pytest.raises(PosattnError, match=r"changes the buffer 'middle\.seen'"):
            Fleet([changing], device="cpu")


@pytest.mark.parametrize(
    ("name", "together"), [("dropout", True), ("batch_norm", False), ("functional_dropout", False)]
)
def test_interrupted_and_resumed_it_ends_with_the_same_bits(name: str, together: bool, tmp_path: Path) -> None:
    trials = [trial(name, seed) for seed in range(3)]
    whole = Fleet(trials, device="cpu", together=together)
    for _ in whole.run():
        pass
    broken = Fleet(trials, device="cpu", together=together)
    for _ in broken.run(7):
        pass
    Checkpoints(tmp_path, broken).write({})
    resumed = Fleet(trials, device="cpu", together=together)
    assert Checkpoints(tmp_path, resumed).restore() == {}
    for _ in resumed.run():
        pass
    for replica in range(3):
        for key, held in whole.weights(replica).items():
            assert torch.equal(held, resumed.weights(replica)[key]), key


@pytest.mark.parametrize("where", ["parameter", "module", "tensor"])
def test_hooks_on_gradients_are_refused_and_called_one_by_one(where: str) -> None:
    one = dataclasses.replace(trial("tied"), model=AnyModule("users_modules:hooked", where=where))
    with pytest.raises(PosattnError, match="hook"):
        Fleet([one], device="cpu")
    fleet, plain = (
        Fleet([held], device="cpu", together=False)
        for held in (one, dataclasses.replace(one, model=AnyModule("users_modules:PerNode")))
    )
    for _ in zip(fleet.run(3), plain.run(3), strict=True):
        pass
    if where != "module":  # that one changes nothing
        assert not torch.equal(fleet.weights(0)["read.weight"], plain.weights(0)["read.weight"])


@pytest.mark.parametrize("name", ["dropout", "functional_dropout", "noise"])
def test_noise_is_the_same_in_a_fleet_and_one_by_one(name: str) -> None:
    trials = [trial(name, seed) for seed in range(2)]
    mapped, separate = Fleet(trials, device="cpu"), Fleet(trials, device="cpu", together=False)
    for _ in zip(mapped.run(4), separate.run(4), strict=True):
        torch.testing.assert_close(mapped.loss, separate.loss, rtol=1e-12, atol=0)
    assert mapped.scores()[1]["near"].loss == pytest.approx(separate.scores()[1]["near"].loss, rel=1e-12)


@pytest.mark.parametrize("together", [True, False])
def test_a_module_that_writes_into_its_input_is_tested_on_the_same_samples_every_time(together: bool) -> None:
    fleet = Fleet([trial("writes_input")], device="cpu", together=together)
    first, second = (fleet.scores()[0]["near"].loss for _ in range(2))
    assert first == second


def test_what_fails_one_by_one_is_one_error_with_its_line() -> None:
    fleet = Fleet([trial("breaks")], device="cpu", together=False)
    with pytest.raises(PosattnError, match=r"training: IndexError: broken in training .*users_modules.py, line"):
        next(fleet.run())


def test_state_that_no_checkpoint_holds_is_told() -> None:
    for name, told in (("warms", 1), ("caches", 0), ("batch_norm", 0)):
        fleet = Fleet([trial(name, seed) for seed in range(2)], device="cpu", together=False)
        for _ in fleet.run(3):
            pass
        assert len(fleet.passes.notes) == told


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_large_operations_are_taken_one_by_one_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    trials = [trial("dropout", seed) for seed in range(3)]
    mapped = Fleet(trials, device="cpu")
    monkeypatch.setattr(any_module, "LARGE", 1)
    single = Fleet(trials, device="cpu")
    assert [fleet.parameters.spans for fleet in (mapped, single)] == [[(0, 3)], [(0, 1), (1, 2), (2, 3)]]
    assert (mapped.passes.notes, ["one by one" in note for note in single.passes.notes]) == ([], [True])
    for _ in zip(mapped.run(5), single.run(5), strict=True):
        torch.testing.assert_close(mapped.loss, single.loss, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["recurrent", "writes", "branches"])
def test_what_is_refused_does_not_depend_on_the_machine(name: str, two_threads: None) -> None:
    for count in (1, 2):
        with pytest.raises(PosattnError, match=REFUSED[name]):
            Fleet([trial(name, seed) for seed in range(count)], device="cpu")


def test_a_trial_of_a_module_is_a_value_like_every_other() -> None:
    one = trial("GRU")
    assert Trial.from_json(one.to_json()) == one
    assert from_json(one.model.to_json()) == one.model
    assert one.id != dataclasses.replace(one, model=AnyModule("users_modules:GRU", width=8)).id
    assert AnyModule("a.b:c", x=[1, (2,)], y={"z": 2.0}).options == {"x": (1, (2,)), "y": {"z": 2.0}}
    assert one.model.label() == "GRU"


MARKED = """
from pathlib import Path
from torch import nn

Path(__file__).with_name("imported").touch()


def factory(width=3):
    return nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
"""


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of a user's that leaves a mark when it is imported."""
    (tmp_path / "users_own.py").write_text(MARKED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("users_own", None)


def ran(out: Path, **options: Any) -> engine.Store:
    one = small_trial(model=AnyModule("users_own:factory", width=4), optimiser={"steps": 3})
    return engine.run([one], out=out, device="cpu", reporter=engine.Lines(), **options)


def test_reading_results_imports_no_code_of_users(marked: Path) -> None:
    store = ran(marked / "runs")
    assert (marked / "imported").exists()
    (marked / "imported").unlink()
    del sys.modules["users_own"]
    (folder,) = store.result_folders()
    assert engine.frame(store.folder)["model.options.width"].tolist() == [4, 4, 4]
    assert [one.finished for one in engine.listing(store)] == [True]
    with pytest.raises(PosattnError, match="trust=True"):
        posattn.load(folder / "weights.safetensors")
    assert not (marked / "imported").exists()
    model = posattn.load(folder / "weights.safetensors", trust=True)
    assert (marked / "imported").exists()
    assert model(torch.zeros(2, 5, 1, dtype=torch.float64)).shape == (2, 5, 1)


def test_a_module_whose_source_has_changed_is_trained_again(marked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(marked / "runs")
    (marked / "users_own.py").write_text(MARKED.replace("Tanh", "ReLU"))
    del sys.modules["users_own"]
    capsys.readouterr()
    ran(marked / "runs", keep=True)
    assert "changed" not in capsys.readouterr().out
    ran(marked / "runs")
    assert "module 'factory' has changed since 1 of its trials was finished" in capsys.readouterr().out
    ran(marked / "runs")
    assert "changed" not in capsys.readouterr().out


WRONG = {
    "users_modules:nothing": "returns a str: it must return a torch.nn.Module",
    "users_modules:fails": r"users_modules:fails\(\) fails: KeyError.*users_modules.py, line \d+\)",
    "users_modules:grows": "in one call and",
    "users_modules:no_parameters": "no parameters to learn",
    "users_modules:other_shape": r"answers with shape \(1, 5, 2\) where task 'sum' has \(1, 5, 1\)",
    "users_modules:lazy": "'1.weight' is lazy",
    "users_modules:complex_parameter": "'middle.phase' is complex",
    "users_modules:pair": "returns a tuple: its forward pass must return one tensor",
    "users_modules:number": "must be a function",
    "users_modules:dropuot": "has no 'dropuot': did you mean 'dropout'",
    "users_moduls:dropout": "there is no module 'users_moduls'",
    "torch.nnn:Linear": "there is no module 'torch.nnn'",
}


@pytest.mark.parametrize("factory", WRONG)
def test_a_wrong_factory_is_one_clear_error(factory: str) -> None:
    with pytest.raises(PosattnError, match=WRONG[factory]):
        Fleet([small_trial(model=AnyModule(factory))], device="cpu")


@pytest.mark.parametrize("name", ["mlp", "a b:c", "a:b.c", ":b", "a:", "a.:b", ""])
def test_a_name_that_is_none_is_refused_at_once(name: str) -> None:
    with pytest.raises(PosattnError, match=r"PACKAGE.MODULE:FUNCTION|must be a word"):
        AnyModule(name)


def test_a_file_with_a_syntax_error_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_written.py").write_text("import torch\n\ndef factory(:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PosattnError, match=r"SyntaxError: .*half_written.py, line 3\)"):
        AnyModule("half_written:factory").shapes()


def test_where_the_compiler_fails_the_trace_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(graph: Any, **_: Any) -> Any:
        def run(*_: Any) -> None:
            raise RuntimeError("no compiler here")

        return run

    class Compiled(mapped_module.MappedPasses):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options | {"compiled": True})

    expected = Fleet([trial("mlp")], device="cpu")
    next(expected.run())
    for compile_, notes in ((failing, 1), (lambda graph, **_: graph, 0)):
        monkeypatch.setattr(torch, "compile", compile_)
        monkeypatch.setattr(any_module, "MappedPasses", Compiled)
        fleet = Fleet([trial("mlp")], device="cpu")
        next(fleet.run())
        assert [("without torch.compile" in note) for note in fleet.passes.notes] == [True] * notes
        torch.testing.assert_close(fleet.loss, expected.loss)


def test_bf16_and_float32_train_close_to_float64() -> None:
    losses = {}
    for precision in ("float64", "float32", "bf16"):
        fleet = Fleet([trial("tied", precision=precision)], device="cpu")
        next(fleet.run())
        losses[precision] = float(fleet.loss[0])
    assert losses["float32"] == pytest.approx(losses["float64"], rel=1e-5)
    assert losses["bf16"] == pytest.approx(losses["float64"], rel=0.1)
    assert losses["bf16"] != losses["float32"]
