"""The study of length and scale: what its figures are, and that a polished model has learned the algorithm."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from looped_models import with_slopes
from posattn import engine, nn, studies, tasks
from posattn.studies.core import results
from posattn.studies.length import opponents
from posattn.studies.length.length_scale import KINDS, LEARNING_RATES, polished, sizes, sizes_of
from posattn.studies.length.relative_errors import POLISHED, Size, answering, polished_on, relative_error
from posattn.train import Trial
from posattn.train.random_streams import stream

#: The ids of each task's first model, which has all of its symmetry, with seed 0: their runs are found again.
WHOLE = {
    "min": "d685c3a36de85745",
    "max": "1d43d49f96dbe29f",
    "sort": "1080bc7b7b325006",
    "whole-median": "1080bc7b7b325006",
    "sum": "2cbabf3a18ebd669",
    "max-subarray": "61eaf24194fcf2c7",
    "all-pairs": "b4c9f1497e7b8a53",
    "widest-path": "f53e05c288fcd57b",
    "reachability": "f53e05c288fcd57b",
    "edit-distance": "83ceccd962381577",
    "warping": "a53ff1f1486109d1",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Minima, with all of their symmetry, through the command's own way."""
    folder = tmp_path_factory.mktemp("length-scale")
    study = studies.get("length-scale")
    arms = {"tasks": ("min",), "arms": ("scale + shift",), "seeds": 2}
    found = results.run(study, preset="smoke", out=folder, device="cpu", reporter=engine.Lines(), **arms)
    return folder, found


def test_a_figure_is_the_rms_of_the_error_over_that_of_the_answers(trained):
    folder, found = trained
    (case,) = found.cases
    for seed in range(2):
        model = nn.load(folder / case.seeded(seed).id / "weights.safetensors")
        for size in sizes("min", "smoke"):
            x, _ = tasks.get("min").sample(
                size.samples, **size.options, generator=stream(seed, f"inputs of {size.name}")
            )
            x = (x * size.scale + size.shift).numpy()
            exact = np.minimum.accumulate(x.astype(np.float64), axis=1)
            with torch.no_grad():
                off = model(torch.from_numpy(x)).numpy() - exact
            wanted = np.sqrt((off**2).mean() / ((exact - size.shift) ** 2).mean())
            (point,) = [p for p in found.points if (p.arm, p.test_set) == (case.arm, size.name)]
            assert point.ours[seed] == pytest.approx(wanted, rel=1e-6)


def test_a_model_that_was_hardly_trained_is_exact_after_polishing(trained):
    _, found = trained
    points = [point for point in found.points if point.arm.endswith(POLISHED)]
    assert len(points) == len(sizes("min", "smoke"))
    assert max(value for point in points for value in point.ours) < 1e-12


def test_figures_are_kept_beside_the_scores(trained, monkeypatch):
    folder, found = trained
    (case,) = found.cases
    path = folder / case.seeded(1).id / "figures-length-scale-min-smoke.json"
    held = json.loads(path.read_text())["figures"]
    assert held["length 8"] == next(p for p in found.points if p.test_set == "length 8").ours[1]


def test_one_that_sorts_knows_the_median():
    model = nn.LoopedPositionalTransformer(schedule="bitonic", symmetry=("scale", "shift")).double()
    case = studies.get("length-scale").cases("whole-median", "smoke")[0]
    samples = polished(case)
    assert samples is not None
    made = answering(polished_on(model, samples, seed=0), "whole-median")
    assert relative_error(made, "whole-median", Size("n", 33, {"length": 33}), seed=0) < 1e-12


def test_every_task_has_a_model_with_all_of_its_symmetry():
    for task, kind in KINDS.items():
        cases = studies.get("length-scale").cases(task, "paper")
        assert sum(polished(case) is not None for case in cases) == (kind.state_dim == 1)
        assert cases[0].seeded(0).id == WHOLE[task]


def test_all_are_trained_with_as_many_steps_and_numbers_and_validated_on_the_trained_size_alone():
    for task, kind in KINDS.items():
        for case in studies.get("length-scale").cases(task, "paper"):
            if case.arm == "compiled":
                continue
            trial = case.trial
            assert isinstance(trial, Trial)
            assert (trial.optimiser.steps, trial.data.batch, trial.data.fresh) == (8000, 128, True)
            assert trial.data.options.get("blocks", False) == (not trial.data.lengths)
            assert trial.data.lengths in ((), tuple(range(1, 9)))
            (one,) = trial.test_sets
            assert (one.options[kind.size], one.options["blocks"]) == (kind.trained_at, False)


def test_lists_have_every_opponent_and_graphs_none():
    named = set(LEARNING_RATES) - {"scale", "no symmetry", "scale, wide state"} | {"compiled"}
    less = {"max-subarray": {"fitted slopes"}, "whole-median": {"fitted slopes", "looped standard", "compiled"}}
    for task, kind in KINDS.items():
        arms = {case.arm for case in studies.get("length-scale").cases(task, "paper")}
        assert arms & named == (named - less.get(task, set()) if kind.listed else set())


def case_of(arm: str, task: str = "sort", preset: str = "paper"):
    (found,) = [case for case in studies.get("length-scale").cases(task, preset) if case.arm == arm]
    return found


@pytest.mark.parametrize(
    ("arm", "largest"),
    [
        ("standard, RoPE", 16_384), ("standard, ALiBi", 16_384), ("positional, sinusoidal", 16_384),
        ("looped standard", 16_384), ("standard, randomised", 1024), ("positional, stochastic", 1024),
        ("compiled", 1024), ("fitted slopes", 65_536), ("scale + shift", 65_536),
    ],
)  # fmt: skip
def test_a_model_is_tested_as_far_as_its_attention_has_memory_and_the_report_says_how_far(arm, largest):
    found = sizes_of(case_of(arm), "paper")
    assert max(size.x for size in found) == largest
    (said,) = [note for note in studies.get("length-scale").remarks() if "as far as they go" in note]
    assert arm == "scale + shift" or f"“{arm}”" in said.split(f"to {largest:,}: ")[1].split(";")[0]


@pytest.mark.parametrize(("arm", "tables"), [("standard, RoPE", 4), ("standard, ALiBi", 7)])
def test_counted_bytes_are_those_of_the_largest_tensors_that_live_at_once(arm, tables):
    """Two heads: logits and their softmax; or logits, biases and their difference, beside one table of distances."""
    model: Any = case_of(arm).trial.architecture
    assert opponents.attention_bytes(model, 16_383) == tables * 4 * 16_384**2
    assert opponents.takes(model, 16_384)
    assert not opponents.takes(model, 65_536)


def test_sizes_up_to_four_thousand_numbers_are_tested_at_every_scale():
    places = {(size.x, size.scale) for size in sizes("sort", "paper") if not size.shift}
    small = {(n, c) for n in (8, 64, 1024) for c in (1, 10, 100, 1000)}
    assert places == small | {(16_384, 1), (65_536, 1)}
    assert (64, 1000) in {(size.x, size.scale) for size in sizes("all-pairs", "paper")}
    assert (256, 10) not in {(size.x, size.scale) for size in sizes("all-pairs", "paper")}


def test_a_compiled_program_is_right_at_every_size_and_scale():
    case = case_of("compiled", preset="smoke")
    for size in sizes_of(case, "smoke"):
        found = relative_error(
            opponents.program("sort", int(size.x), 2 * size.scale + abs(size.shift)), "sort", size, seed=0
        )
        assert found < 1e-5


def test_models_with_places_get_the_numbers_that_the_others_get():
    """A model that answers with its input has the error of the input, with places or without."""
    size = Size("length 5, c=10", 5, {"length": 5}, scale=10)
    found = []
    small: dict[str, Any] = {"layers": 1, "embed_dim": 2, "hidden_dim": 2}
    for model in (nn.StandardTransformer(**small), nn.StandardRandomPlacesTransformer(**small, length=50)):
        with torch.no_grad():
            for weight in model.parameters():
                weight.zero_()
            model.get_parameter("decoder.bias").fill_(3.0)
        found.append(relative_error(model, "min", size, seed=4))
    assert found[0] == found[1] > 0


def test_scans_are_tested_to_a_million_numbers_and_graphs_dense_sparse_and_as_rings():
    for task in ("min", "max", "sum"):
        assert max(size.x for size in sizes(task, "paper")) == 2**20
    for task in ("all-pairs", "widest-path", "reachability"):
        for preset, nodes in (("smoke", (6, 9)), ("paper", (6, 16, 64, 256))):
            graphs = {"reachability": "sparse"}.get(task, "dense")  # where nothing is said
            found = {(size.x, size.options.get("graph", graphs)) for size in sizes(task, preset)}
            assert found == {(n, graph) for n in nodes for graph in ("dense", "sparse", "ring")}
    potentials = [(size.potential, size.dtype) for size in sizes("all-pairs", "paper") if size.potential]
    assert potentials == [(u, torch.float64) for u in (10, 100, 1000)]


@pytest.mark.parametrize("graph", ["dense", "sparse", "ring"])
def test_a_potential_is_left_out_of_error_and_answers(graph):
    """A slope that is off by 1e-3 shows as much with potentials as without, in float64; float32 loses digits."""
    model = with_slopes("pairs", ("scale", "potential"), [(0.0, -1 + 1e-3)]).float()
    plain = Size("n", 9, {"nodes": 9, "graph": graph}, dtype=torch.float64)
    moved = plain._replace(potential=1000.0)
    wanted = relative_error(model, "all-pairs", plain, seed=0)
    assert wanted > 1e-4
    assert relative_error(model, "all-pairs", moved, seed=0) == pytest.approx(wanted, rel=1e-8)
    assert relative_error(model, "all-pairs", moved._replace(dtype=None), seed=0) != pytest.approx(wanted, rel=1e-8)
    assert next(model.parameters()).dtype == torch.float32
