"""`posattn.bench`: its count of multiplications against one made by multiplying, and its ratios against their parts."""

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch

from nn import oracle
from posattn import bench, cli
from posattn.errors import PosattnError
from posattn.nn import Positional, Standard, model_of

# ---- how many multiplications


class Counter:
    """Products of matrices that count the multiplications of numbers in them, one row after another."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, left: Any, right: Any) -> Any:
        self.count += sum(len(row) * right.shape[1] for row in left)
        return left @ right


def folded_sample(model: Any, x: Any, times: Counter) -> Any:
    """One sample through the folded form, with every product counted that depends on it.

    Products of weights with weights, and attention of positions, are made once for a whole batch. Sums, biases, ReLU
    and softmax multiply nothing that is counted.
    """
    a, w = model.architecture, oracle.weights_of(model)
    positional = isinstance(a, Positional)
    heads, width = a.heads, a.embed_dim // a.heads
    u = np.concatenate([x, np.zeros((a.scratchpad, a.in_dim))])
    if not positional:
        u = np.concatenate([u, w["encoding"]], axis=1)
    for index in range(a.depth):
        entry = w["mlp_out_weight"][index - 1] if index else w["encoder_weight"]
        shift = (w["mlp_out_bias"][index - 1] if index else w["encoder_bias"]) if a.bias else np.zeros(a.embed_dim)
        upper, lower = np.split(w["mlp_in_weight"][index], 2)
        constant = w["mlp_in_bias"][index] + w["output_bias"][index] @ lower if a.bias else np.zeros(a.hidden_dim)
        total = times(u, entry @ upper) + shift @ upper + constant
        for h in range(heads):
            own = slice(h * width, (h + 1) * width)
            move = w["value_weight"][index][:, own] @ w["output_weight"][index][own] @ lower
            seen = slice(h * a.query_width, (h + 1) * a.query_width)
            query, key = w["query_weight"][index][:, seen], w["key_weight"][index][:, seen]
            if positional:
                place, scale = w["encoding"], np.sqrt(a.query_width)
                logits = (place @ query + w["query_bias"][index][seen]) @ (place @ key).T / scale
            else:
                back = (entry @ key).T / np.sqrt(a.embed_dim)
                moved = times(u, entry @ query @ back) + (shift @ query + w["query_bias"][index][seen]) @ back
                logits = times(moved, u.T)
            weights = np.array([oracle.softmax(row) for row in logits])
            total += times(weights, times(u, entry @ move)) + shift @ move
            if a.bias:
                total += w["value_bias"][index][own] @ w["output_weight"][index][own] @ lower
        u = np.maximum(total, 0.0)
    last = w["mlp_out_bias"][-1] @ w["decoder_weight"] + w["decoder_bias"] if a.bias else 0.0
    return (times(u, w["mlp_out_weight"][-1] @ w["decoder_weight"]) + last)[: len(x)]


@pytest.mark.parametrize(
    "architecture",
    [
        *bench.MODELS.values(),
        Positional(length=5, scratchpad=2, in_dim=3, out_dim=7, heads=2, embed_dim=22, hidden_dim=13, layers=3),
        Positional(length=3, scratchpad=0, in_dim=2, heads=1, embed_dim=5, hidden_dim=7, layers=1, bias=False),
        Standard(length=5, scratchpad=2, in_dim=3, out_dim=7, heads=2, embed_dim=22, hidden_dim=13, layers=3),
        Standard(length=3, scratchpad=0, in_dim=2, heads=1, embed_dim=5, hidden_dim=7, layers=1, bias=False),
    ],
    ids=repr,
)
def test_count_is_that_of_a_sample_that_is_multiplied_through(architecture: Positional | Standard) -> None:
    model = oracle.stirred(model_of(architecture, architecture.init(torch.Generator().manual_seed(0))))
    x, times = oracle.numbers(architecture.length, architecture.in_dim), Counter()
    found = folded_sample(model, x.numpy(), times)
    assert oracle.relative_error(model(x[None])[0], found) < 1e-10  # what was counted is the model
    assert bench.multiplications(architecture) == times.count


def test_paper_size_takes_37_thousand_multiplications_a_token_and_a_few_for_mixing() -> None:
    """At 9 nodes and 64 features: 3 matrices a layer and the decoder, and 2 heads that mix 9 nodes in 4 layers."""
    token = 3 * 1 * 64 + 3 * (3 * 64 * 64) + 64
    mixing = 4 * 2 * 9 * 64
    assert (token, mixing) == (37_120, 4_608)
    assert bench.multiplications(bench.MODELS["positional"]) == 9 * (token + mixing)
    assert bench.multiplications(bench.MODELS["homogeneous"]) == 9 * (token + mixing)
    plain = 64 + 4 * (64 * 64 + 64 * 64 + 128 * 64 + 64 * 64) + 64
    assert plain == 82_048  # the same layer before its matrices are multiplied together: more than twice as many


def test_models_that_are_measured_are_those_of_the_paper() -> None:
    assert list(bench.MODELS) == ["positional", "homogeneous", "standard"]
    for name, model in bench.MODELS.items():
        assert (model.length, model.nodes, model.embed_dim, model.hidden_dim) == (8, 9, 64, 64)
        assert (model.heads, model.depth, model.bias) == (2, 4, name != "homogeneous")
    assert {type(model) for model in bench.MODELS.values()} == {Positional, Standard}


# ---- how long it takes


def test_the_time_of_a_step_is_the_median_after_two_that_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lasting = [50.0, 40.0, 3.0, 9.0, 1.0, 7.0, 5.0]  # seconds
    clock, calls = [0.0], []

    def step() -> None:
        clock[0] += lasting[len(calls)]
        calls.append(clock[0])

    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])
    assert bench.milliseconds(step, torch.device("cpu")) == 5e3
    assert len(calls) == bench.LEAST + 2


def test_a_measurement_goes_on_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def step() -> None:
        clock[0] += 0.25

    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])
    assert bench.milliseconds(step, torch.device("cpu")) == 250.0
    assert clock[0] == max(bench.SECONDS, 0.25 * (bench.LEAST + 2))


def test_rate_is_two_operations_for_every_multiplication_of_a_square_product(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def timed(step: Any, device: torch.device) -> float:
        found.append(step().shape)
        return 500.0

    monkeypatch.setattr(bench, "milliseconds", timed)
    rate = bench.matmul_rate(torch.device("cpu"), "float32")
    ((one, rows, columns),) = found
    assert (one, rows) == (1, columns)
    assert rate == pytest.approx(2 * rows**3 / 0.5)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.0)
    monkeypatch.setattr(bench, "LEAST", 1)
    monkeypatch.setattr(bench, "matmul_rate", lambda device, precision: 3e9)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("precision", ["float32", "float64", "bf16"])
def test_ratios_and_shares_follow_from_the_times(precision: str) -> None:
    found = bench.bench(device="cpu", precision=precision, sizes=(1, 3), batch=2)
    assert (found["device"], found["precision"], found["batch"]) == ("cpu", precision, 2)
    assert found["threads"] == torch.get_num_threads()
    assert found["matmul_tflops"] == pytest.approx(0.003)
    measured = found["measurements"]
    assert [(one["model"], one["fleet"]) for one in measured] == [(name, k) for name in bench.MODELS for k in (1, 3)]
    for one in measured:
        assert one["milliseconds"] > 0
        assert one["ratio"] == one["plain_milliseconds"] / one["milliseconds"]
        # Forward once and backward twice as much, a multiplication and an addition each, for two samples.
        needed = 3 * 2 * 2 * bench.multiplications(bench.MODELS[one["model"]])
        assert one["matmul_share"] == pytest.approx(needed / (one["milliseconds"] / 1e3) / 3e9)
    for name in bench.MODELS:  # one plain loop a model, whatever the fleet's size
        assert len({one["plain_milliseconds"] for one in measured if one["model"] == name}) == 1


def test_milliseconds_are_those_of_one_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "matmul_rate", lambda device, precision: 1e9)
    monkeypatch.setattr(bench, "plain_step", lambda model, batch, device: 60.0)
    monkeypatch.setattr(bench, "fleet_step", lambda model, size, batch, device, precision: 40.0 + 10.0 * size)
    monkeypatch.setattr(bench, "milliseconds", lambda step, device: step)
    measured = bench.bench(device="cpu", sizes=(1, 4), batch=2)["measurements"]
    assert {(one["fleet"], one["milliseconds"], one["ratio"]) for one in measured} == {(1, 50.0, 1.2), (4, 20.0, 3.0)}


@pytest.mark.parametrize("model", bench.MODELS.values(), ids=bench.MODELS)
def test_the_plain_loop_trains(model: Positional | Standard, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []
    monkeypatch.setattr(bench, "model_of", lambda *given: held.append(model_of(*given)) or held[0])
    step = bench.plain_step(model, 2, torch.device("cpu"))
    before = {name: p.detach().clone() for name, p in held[0].named_parameters()}
    step()
    changed = {name for name, p in held[0].named_parameters() if not torch.equal(p, before[name])}
    assert set(before) - changed <= {name for name in before if name.endswith("key.bias")}  # softmax does not see it


def test_a_fleet_of_the_size_asked_for_takes_one_step_a_call() -> None:
    step = bench.fleet_step(bench.MODELS["homogeneous"], 3, 2, torch.device("cpu"), "float32")
    assert [step(), step()] == [1, 2]


# ---- mistakes and the command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"precision": "fp8"}, r"unknown precision 'fp8': .*Known: float32, tf32, bf16, float64\."),
        ({"sizes": (1, 0)}, r"fleet sizes \(1, 0\): each must be at least 1\."),
        ({"batch": 0}, r"=0: .*at least one sample"),
        ({"device": "gpu"}, r"device 'gpu' is not a device's name"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_bad_option_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        bench.bench(**{"device": "cpu", **options})


def posattn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Any, str]:
    monkeypatch.setattr(sys, "argv", ["posattn", "bench", "--device", "cpu", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, capsys.readouterr().out


@pytest.mark.usefixtures("quick")
def test_command_prints_one_line_of_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = posattn(capsys, monkeypatch, "--json", "--fleet", "2", "--batch", "3")
    (line,) = out.splitlines()
    found = json.loads(line)
    assert code == 0
    assert set(found) == {"device", "threads", "precision", "batch", "matmul_tflops", "measurements"}
    assert [one["fleet"] for one in found["measurements"]] == [2, 2, 2]
    wanted = {"model", "fleet", "milliseconds", "plain_milliseconds", "ratio", "matmul_share"}
    assert all(set(one) == wanted for one in found["measurements"])


def test_command_prints_a_table_and_measures_four_sizes_unless_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    measurement = bench.Measurement("positional", 10, 1.5, 6.0, 4.0, 0.125)

    def measured(**options: Any) -> dict[str, Any]:
        asked.append(options)
        about = {"device": "cpu", "threads": 1, "precision": "float32", "batch": 1000, "matmul_tflops": 0.05}
        return about | {"measurements": [vars(measurement)]}

    monkeypatch.setattr(bench, "bench", measured)
    code, out = posattn(capsys, monkeypatch)
    assert code == 0
    assert asked == [{"device": "cpu", "precision": "float32", "sizes": (1, 10, 50, 100), "batch": 1000}]
    (row,) = [line for line in out.splitlines() if "positional" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["positional", "10", "1.5", "6", "4.00×", "12%"]
