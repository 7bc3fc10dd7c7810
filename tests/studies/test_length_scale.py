"""The study of length and scale: what its figures are, and that a polished model has learned the algorithm."""

import json

import numpy as np
import pytest
import torch

from looped_models import with_slopes
from posattn import engine, nn, studies, tasks
from posattn.studies.core import results
from posattn.studies.length.length_scale import KINDS, polished, sizes
from posattn.studies.length.relative_errors import POLISHED, Size, answering, polished_on, relative_error
from posattn.train import Trial
from posattn.train.random_streams import stream


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
        for case in cases:
            assert isinstance(case.trial, Trial)
            assert case.trial.data.options["blocks"]
            assert not dict(case.trial.test_sets[0].options)["blocks"]


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
