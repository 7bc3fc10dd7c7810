"""One small valid call of everything public, for the table to spoil in one place at a time.

A method's object stands under "self", `*inputs` as a tuple under "inputs". What is left out keeps its default.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from posattn import compile as compiler
from posattn import engine, nn, studies, tasks
from posattn.compile import library, mpc, word
from posattn.compile.program import Program
from posattn.compile.proof import findings
from posattn.compile.proof.record import Step
from posattn.compile.rounds import Round
from posattn.engine import cluster as cluster  # so that it is reached as posattn.engine.cluster
from posattn.studies import sweep as sweeps
from posattn.studies.core import results
from posattn.studies.sweep.request import Request
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial
from posattn.train.language.trial import LanguageTrial
from posattn.train.runnable import Outcome

Arguments = dict[str, Any]
SMALL: Arguments = {"length": 4, "embed_dim": 4, "hidden_dim": 4, "layers": 1}
GATED: Arguments = {"compared": ((((0, 2),),),), "characters": 3, "hidden_dim": 4}
TABLES: Arguments = {"letters": 3, "hops": 2, "hidden_dim": 4}
MIXED: Arguments = {"length": 98, "embed_dim": 4, "hidden_dim": 4, "layers": 1}
SIZES = nn.Positional(**SMALL)
SELECTION: Arguments = {"length": 6, "dim": 2, "encoding_dim": 8}
SPACE = sweeps.Space({"optimiser.lr": (1e-3, 1e-2)})
LANGUAGE = LanguageTrial(task="mixed-min", samples=1, test_samples=1, model="nowhere")


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def trial() -> Trial:
    return Trial(
        task="sum",
        model=SIZES,
        data=Data(samples=4, batch=2, options={"length": 4}),
        optimiser=Optimiser(steps=1),
        evaluation=Evaluation(samples=2, sets={"near": {"length": 4}}),
    )


@cache
def model(name: str = "PositionalTransformer", **options: Any) -> Any:
    return getattr(nn, name)(generator=seeded(), **options)


def small(name: str = "PositionalTransformer") -> Any:
    return model(name, **SMALL)


def looped() -> Any:
    return model("LoopedPositionalTransformer", symmetry=("scale", "shift"))


@cache
def minimal() -> Any:
    """A looped model whose step is the smaller of two numbers."""
    made = nn.LoopedPositionalTransformer(symmetry=("scale", "shift"), heads=1, hidden_dim=2, mlp_layers=2)
    weights = {"logits": torch.zeros(1, 1, 2), "layers.0.weight": torch.tensor([[1.0], [-1.0]])}
    made.load_state_dict({**weights, "layers.1.weight": torch.tensor([[0.0, -2.0]])})
    return made


@cache
def sorter() -> compiler.Compiled:
    return compiler.compile(library.get("sort", 4), domain=10.0)


def proved() -> compiler.Proof:
    step = Step(number=1, outcome=findings.Outcome.STANDS, claim="c", inputs="all", by="sums", detail="", seconds=0.1)
    return compiler.Proof(
        program="p", length=1, domain="±1", dtype="float32", steps=(step,), bound=None, found=None, digest=""
    )


def verified() -> compiler.Certificate:
    found = sorter().verify(samples=1).certificate
    assert found is not None
    return found


@cache
def drawn(name: str, **options: Any) -> tuple[Any, torch.Tensor]:
    return tasks.get(name).sample(2, generator=seeded(), **options)


@cache
def fleet() -> Fleet:
    return Fleet([trial()], device="cpu")


def fixed() -> tasks.Fixed:
    return tasks.Fixed(X, X + 1, {"train": [0, 1]}, name="mine")


class Bounds(type(studies.get("sts-bound"))):
    """A study of a user's."""

    name = "my-bounds"


def program() -> Arguments:
    return {
        "name": "double",
        "length": 3,
        "nodes": 3,
        "registers": ("x",),
        "rounds": (Round(update={"x": word("x") + word("x")}),),
    }


def doubled(length: int) -> Program:
    changed: Arguments = {"length": length, "nodes": length}
    return Program(**(program() | changed))


@dataclass(frozen=True)
class Later:
    """An argument that is made when the call is, in the folder where it works."""

    make: Callable[[], Any]


def study_in(folder: Path) -> None:
    """Run a study of computed cases there, which costs milliseconds."""
    results.run(studies.get("sts-bound"), preset="smoke", out=folder, device="cpu", reporter=Silent())
    made = engine.Provenance(device="cpu", seconds=0.0)
    engine.Store(folder).write(LANGUAGE, Outcome(scores=[]), made)


class Silent(engine.Reporter):
    def start(self, title: str, steps: int, done: int) -> int:
        return 0

    def update(self, number: int, step: int, losses: list[float]) -> None:
        return None

    def end(self, number: int) -> None:
        return None

    def say(self, message: str) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


X = torch.zeros(2, 4, 1)
TOKENS = torch.zeros(2, 3, dtype=torch.int64)
CHARACTERS, EIGHT = torch.zeros(2, 90, dtype=torch.int64), torch.zeros(2, 8)
NUMERIC = ("PositionalTransformer", "ExactPositionalTransformer", "HybridTransformer", "StandardTransformer")
CHOSEN = torch.zeros(2, 6, 2), torch.tensor([[0, 1], [2, 3]]), torch.tensor([5, 6])
LABELS = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 2]])
NUMERIC_LOSS = {"prediction": X, "target": X + 1}
WEIGHTS = {"architecture": SIZES, "p": model(**SMALL).replica()}
FORMULA = {"T": 6, "q": 2, "d": 3}


def selection_inputs() -> Arguments:
    return dict(zip(("x", "subset", "key"), CHOSEN, strict=True))


def sampling(name: str, **options: Any) -> Callable[[], Arguments]:
    return lambda: {"self": tasks.get(name), "count": 2, "generator": seeded(), "dtype": torch.float32, **options}


def scoring(name: str, shape: tuple[int, ...], **options: Any) -> Callable[[], Arguments]:
    target = drawn(name, **options)[1]
    return lambda: {"self": tasks.get(name), "prediction": torch.zeros(shape), "target": target}


CALLS: dict[str, Callable[[], Arguments]] = {
    **dict.fromkeys(
        (
            "nn.Positional",
            "nn.ExactPositional",
            "nn.Hybrid",
            "nn.RandomPlaces",
            "nn.Alibi",
            "nn.Standard",
            "nn.StandardRandomPlaces",
            "nn.PositionalTransformer",
        ),
        lambda: dict(SMALL),
    ),
    **dict.fromkeys(
        (
            "nn.ExactPositionalTransformer",
            "nn.HybridTransformer",
            "nn.AlibiTransformer",
            "nn.RandomPlacesTransformer",
            "nn.StandardRandomPlacesTransformer",
            "nn.StandardTransformer",
        ),
        lambda: dict(SMALL),
    ),
    **dict.fromkeys(
        ("nn.MixedPositional", "nn.MixedPositionalTransformer", "nn.MixedStandard", "nn.MixedStandardTransformer"),
        lambda: dict(MIXED),
    ),
    **dict.fromkeys(("nn.MixedGated", "nn.MixedGatedModel"), lambda: dict(GATED)),
    "nn.MixedGatedModel.forward": lambda: {
        "self": model("MixedGatedModel", **GATED),
        "characters": torch.zeros(2, 3, dtype=torch.int64),
        "numbers": torch.ones(2, 1),
    },
    "nn.MixedGatedModel.check": lambda: {
        "self": model("MixedGatedModel", **GATED),
        "inputs": (torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 1)),
    },
    **dict.fromkeys(("nn.HopTables", "nn.HopTablesModel"), lambda: dict(TABLES)),
    "nn.HopTables.layers": lambda: {"self": nn.HopTables(**TABLES), "nodes": 9},
    "nn.HopTablesModel.forward": lambda: {
        "self": model("HopTablesModel", **TABLES),
        "tokens": torch.tensor([[4, 0, 1], [5, 2, 0]]),
    },
    "nn.HopTablesModel.check": lambda: {
        "self": model("HopTablesModel", **TABLES),
        "inputs": (torch.tensor([[4, 0, 1], [5, 2, 0]]),),
    },
    "nn.Action": lambda: {"rows": ((1,), (1,), (1,))},
    "nn.Action.from_json": lambda: {"self": nn.Action, "text": '[["1"], ["1"], ["1"]]'},
    **dict.fromkeys(("nn.Looped", "nn.LoopedPositionalTransformer"), lambda: {"hidden_dim": 4}),
    "nn.LoopedPositionalTransformer.forward": lambda: {"self": looped(), "x": X},
    "nn.LoopedPositionalTransformer.check": lambda: {"self": looped(), "inputs": (X,)},
    "nn.LoopedPositionalTransformer.trace": lambda: {"self": looped(), "inputs": (X,)},
    "nn.LoopedPositionalTransformer.attention": lambda: {"self": looped(), "length": 3},
    **dict.fromkeys(("nn.LoopedSlopes", "nn.LoopedSlopesModel"), lambda: {"schedule": "bitonic"}),
    "nn.LoopedSlopesModel.forward": lambda: {"self": model("LoopedSlopesModel"), "x": X},
    "nn.LoopedSlopesModel.check": lambda: {"self": model("LoopedSlopesModel"), "inputs": (X,)},
    **dict.fromkeys(("nn.LoopedStandard", "nn.LoopedStandardTransformer"), lambda: {"embed_dim": 4, "heads": 2}),
    "nn.LoopedStandardTransformer.forward": lambda: {"self": model("LoopedStandardTransformer"), "x": X},
    "nn.LoopedStandardTransformer.trace": lambda: {"self": model("LoopedStandardTransformer"), "inputs": (X,)},
    "nn.AnyModule": lambda: {"factory": "torch.nn:Linear"},
    **dict.fromkeys(("nn.GPTArchitecture", "nn.GPT"), lambda: {"length": 4, "embed_dim": 4, "heads": 2, "layers": 1}),
    **dict.fromkeys(("nn.FullyConnected", "nn.FullyConnectedNetwork"), lambda: {"length": 6, "dim": 2, "widths": (3,)}),
    **dict.fromkeys(("nn.Selector", "nn.SelectorTransformer"), lambda: dict(SELECTION)),
    "nn.GPT.forward": lambda: {"self": model("GPT", length=4, embed_dim=4, heads=2, layers=1), "tokens": TOKENS},
    "nn.GPT.check": lambda: {"self": model("GPT", length=4, embed_dim=4, heads=2, layers=1), "inputs": (TOKENS,)},
    "nn.GPT.trace": lambda: {"self": small(), "inputs": (X,)},
    "nn.GPT.save": lambda: {"self": small(), "path": "model.safetensors"},
    "nn.GPT.save_pretrained": lambda: {"self": small(), "save_directory": "pretrained"},
    "nn.GPT.from_pretrained": lambda: {
        "self": nn.Model,
        "pretrained_model_name_or_path": Later(lambda: small().save_pretrained("pretrained") or "pretrained"),
    },
    "nn.GPT.push_to_hub": lambda: {"self": small(), "repo_id": "me/mine"},
    "nn.to_onnx": lambda: {"model": small(), "path": "model.onnx"},
    "nn.FullyConnectedNetwork.forward": lambda: (
        {"self": model("FullyConnectedNetwork", length=6, dim=2, widths=(3,))} | selection_inputs()
    ),
    "nn.FullyConnectedNetwork.check": lambda: {
        "self": model("FullyConnectedNetwork", length=6, dim=2, widths=(3,)),
        "inputs": CHOSEN,
    },
    **{
        f"nn.{name}.forward": lambda name=name: {"self": small(name), "x": X, "encoding": torch.eye(5)}
        for name in NUMERIC
    },
    **{f"nn.{name}.check": lambda name=name: {"self": small(name), "inputs": (X,)} for name in NUMERIC[1:3]},
    "nn.ExactPositionalTransformer.attention": lambda: {"self": small(), "length": 3},
    **{
        f"nn.{name}.forward": lambda name=name: {
            "self": model(name, **MIXED),
            "characters": CHARACTERS,
            "numbers": EIGHT,
        }
        for name in ("MixedPositionalTransformer", "MixedStandardTransformer")
    },
    "nn.MixedPositionalTransformer.check": lambda: {
        "self": model("MixedPositionalTransformer", **MIXED),
        "inputs": (CHARACTERS, EIGHT),
    },
    **{
        f"nn.{name}.forward": lambda name=name: {
            "self": small(name),
            "x": X,
            "places": torch.arange(4).expand(2, 4),
        }
        for name in ("RandomPlacesTransformer", "StandardRandomPlacesTransformer")
    },
    "nn.AlibiTransformer.forward": lambda: {"self": small("AlibiTransformer"), "x": X},
    "nn.AlibiTransformer.check": lambda: {"self": small("AlibiTransformer"), "inputs": (X,)},
    "nn.SelectorTransformer.check": lambda: {"self": model("SelectorTransformer", **SELECTION), "inputs": CHOSEN},
    "nn.SelectorTransformer.forward": lambda: {"self": model("SelectorTransformer", **SELECTION)} | selection_inputs(),
    "nn.StandardTransformer.attention": lambda: {"self": small("StandardTransformer"), "x": X},
    "nn.ablation": lambda: {"name": "M1", "options": SMALL},
    "nn.from_json": lambda: {"text": SIZES.to_json()},
    "nn.load": lambda: {"path": "good.safetensors"},
    "nn.model_of": lambda: {"architecture": SIZES, "tensors": SIZES.init(seeded())},
    "tasks.AlignmentTask": lambda: {"name": "mine", "summary": "mine", "gaps": True},
    "tasks.AlignmentTask.shape": lambda: {"self": tasks.get("warping"), "length": 4},
    "tasks.AlignmentTask.sample": sampling("edit-distance", length=4),
    "tasks.AlignmentTask.target": lambda: {"self": tasks.get("warping"), "inputs": drawn("warping", length=4)[0]},
    "tasks.AlignmentTask.loss": lambda: {"self": tasks.get("sum")} | NUMERIC_LOSS,
    "tasks.AlignmentTask.metric": lambda: {"self": tasks.get("sum")} | NUMERIC_LOSS,
    "tasks.AllPairsTask": dict,
    "tasks.AllPairsTask.shape": lambda: {"self": tasks.get("all-pairs"), "nodes": 3},
    "tasks.AllPairsTask.sample": sampling("all-pairs", nodes=3),
    "tasks.AllPairsTask.target": lambda: {"self": tasks.get("all-pairs"), "inputs": drawn("all-pairs", nodes=3)[0]},
    "tasks.Fixed": lambda: {"x": X, "y": LABELS, "splits": {"train": [0]}, "name": "mine"},
    "tasks.Fixed.sample": lambda: {"self": fixed(), "count": 1, "generator": seeded()},
    "tasks.Fixed.target": lambda: {"self": fixed(), "inputs": X},
    "tasks.Fixed.loss": lambda: {"self": fixed()} | NUMERIC_LOSS,
    "tasks.Fixed.metric": lambda: {"self": fixed()} | NUMERIC_LOSS,
    "tasks.Fixed.read": lambda: {"self": tasks.Fixed, "path": "data.npz"},
    "tasks.Fixed.from_frame": lambda: {
        "self": tasks.Fixed,
        "frame": pd.DataFrame({"width": [1.0, 2.0, 3.0], "label": ["a", "b", "a"]}),
        "target": "label",
        "name": "mine",
        "inputs": ["width"],
    },
    "tasks.KHopTask": dict,
    "tasks.KHopTask.sample": lambda: {"self": tasks.get("khop"), "count": 2, "generator": seeded()},
    "tasks.KHopTask.target": lambda: {"self": tasks.get("khop"), "inputs": drawn("khop")[0]},
    "tasks.KHopTask.loss": scoring("khop", (2, 99, 16)),
    "tasks.KHopTask.metric": scoring("khop", (2, 99, 16)),
    "tasks.MixedTask": lambda: {"name": "mine", "summary": "mine", "operations": ("min",)},
    "tasks.MixedTask.sample": sampling("mixed-min"),
    "tasks.MixedTask.target": lambda: {"self": tasks.get("mixed-min"), "inputs": drawn("mixed-min")[0]},
    "tasks.MixedTask.text": lambda: {"self": tasks.get("mixed-min"), "inputs": drawn("mixed-min")[0]},
    "tasks.MixedTask.loss": scoring("mixed-min", (2, 1)),
    "tasks.MixedTask.metric": scoring("mixed-min", (2, 1)),
    "tasks.NumericTask": lambda: {"name": "mine", "summary": "mine", "function": torch.sort},
    "tasks.NumericTask.shape": lambda: {"self": tasks.get("sum"), "length": 4},
    "tasks.NumericTask.sample": sampling("sum", length=4),
    "tasks.NumericTask.target": lambda: {"self": tasks.get("sum"), "inputs": X},
    "tasks.ReachabilityTask": dict,
    "tasks.ReachabilityTask.sample": sampling("reachability", nodes=3),
    "tasks.ReachabilityTask.metric": scoring("reachability", (2, 9, 1), nodes=3),
    "tasks.register": lambda: {"task": tasks.NumericTask(name="mine", summary="mine", function=torch.neg)},
    "tasks.SelectionTask": lambda: {"name": "mine", "summary": "mine"},
    "tasks.SelectionTask.sample": sampling("selection", length=6, dim=2),
    "tasks.SelectionTask.target": lambda: {
        "self": tasks.get("selection"),
        "inputs": drawn("selection", length=6, dim=2)[0],
    },
    "tasks.SelectionTask.loss": scoring("selection", (2, 2), length=6, dim=2),
    "tasks.SelectionTask.metric": scoring("selection", (2, 2), length=6, dim=2),
    "tasks.ShortestPathTask": dict,
    "tasks.ShortestPathTask.shape": lambda: {"self": tasks.get("shortest-path"), "length": 4},
    "tasks.ShortestPathTask.sample": sampling("shortest-path", length=4),
    "tasks.ShortestPathTask.target": lambda: {
        "self": tasks.get("shortest-path"),
        "inputs": drawn("shortest-path", length=4)[0],
    },
    "tasks.ShortestPathTask.loss": scoring("shortest-path", (2, 4, 4), length=4),
    "tasks.ShortestPathTask.metric": scoring("shortest-path", (2, 4, 4), length=4),
    "tasks.WidestPathTask": dict,
    "tasks.WidestPathTask.sample": sampling("widest-path", nodes=3),
    "tasks.get": lambda: {"name": "sort"},
    "train.Data": lambda: {"samples": 4, "batch": 2},
    "train.Evaluation": lambda: {"sets": {"near": {}}},
    "train.Fleet": lambda: {"trials": [trial()], "device": "cpu"},
    "train.Fleet.weights": lambda: {"self": fleet(), "replica": 0},
    "train.Optimiser": lambda: {"steps": 5},
    "train.Trial": lambda: {"task": "sum", "model": SIZES, "optimiser": Optimiser(steps=1)},
    "train.Trial.from_json": lambda: {"self": Trial, "text": trial().to_json()},
    "train.TestSet": lambda: {"name": "near", "options": {"length": 4}},
    "train.shape_key": lambda: {"trial": trial()},
    "engine.Store": lambda: {"folder": "store"},
    "engine.Store.path": lambda: {"self": engine.Store("store"), "trial": trial()},
    "engine.Store.has": lambda: {"self": engine.Store("store"), "trial": trial()},
    "engine.Store.outdated": lambda: {"self": engine.Store("store"), "trial": trial()},
    "engine.Store.finished": lambda: {"self": engine.Store("store"), "trial": trial()},
    "engine.Store.write": lambda: {
        "self": engine.Store("store"),
        "trial": trial(),
        "outcome": Outcome(scores=[], weights=SIZES.init(seeded())),
        "provenance": engine.Provenance(device="cpu", seconds=0.0),
    },
    "engine.Store.rows": lambda: {"self": engine.Store(".")},
    "engine.listing": lambda: {"store": engine.Store(".")},
    "engine.frame": lambda: {"folder": "."},
    "engine.JsonLines": lambda: {"path": "run.jsonl"},
    "engine.TensorBoard": lambda: {"folder": "tensorboard"},
    "engine.log_to": lambda: {"text": "tensorboard:logs"},
    "engine.run": lambda: {"trials": [], "out": "store", "device": "cpu", "reporter": Silent()},
    "compile.Proof.from_json": lambda: {"self": compiler.Proof, "text": proved().to_json()},
    "compile.Certificate.from_json": lambda: {
        "self": compiler.Certificate,
        "text": verified().to_json(),
    },
    "compile.Compiled.__call__": lambda: {"self": sorter(), "x": torch.tensor([3.0, 1.0])},
    "compile.Compiled.check": lambda: {"self": sorter(), "x": torch.zeros(1, 4, 1)},
    "compile.Compiled.verify": lambda: {"self": sorter(), "samples": 1},
    "compile.Compiled.prove": lambda: {"self": sorter(), "seconds": 60.0},
    "compile.Compiled.proved": lambda: {"self": sorter(), "seconds": 60.0},
    "compile.Compiled.to_onnx": lambda: {"self": sorter().verify(samples=1), "path": "sorter.onnx"},
    "compile.Compiled.save": lambda: {"self": sorter(), "path": "sorter.safetensors"},
    "compile.Program": program,
    "compile.Program.parse": lambda: {"self": Program, "text": str(Program(**program()))},
    "compile.Program.then": lambda: {"self": Program(**program()), "after": Program(**program())},
    "compile.Round": lambda: {"update": {"x": word("x")}},
    "compile.absolute": lambda: {"value": word("x")},
    "compile.benes": lambda: {"destinations": [1, 0, 3, 2]},
    "compile.call": lambda: {"function": np.square, "arguments": (word("x"),)},
    "compile.clip": lambda: {"value": word("x"), "low": -1.0, "high": 1.0},
    "compile.floor_divide": lambda: {"value": word("x"), "divisor": 3, "low": 0, "high": 9},
    "compile.modulo": lambda: {"value": word("x"), "divisor": 3, "low": 0, "high": 9},
    "compile.ramp": lambda: {"value": word("x"), "width": 0.5},
    "compile.compile": lambda: {"program": library.get("sort", 4)},
    "compile.distance": lambda: {"one": word("x"), "other": word("y")},
    "compile.equal": lambda: {"one": word("x"), "other": word("y")},
    "compile.exchange": lambda: {"own": word("x"), "other": word("y"), "upper": word("b")},
    "compile.gate": lambda: {"value": word("x"), "shut": word("b")},
    "compile.load": lambda: {"path": "sorter.safetensors"},
    "compile.maximum": lambda: {"one": word("x"), "other": word("y")},
    "compile.minimum": lambda: {"one": word("x"), "other": word("y")},
    "compile.positive": lambda: {"value": word("x")},
    "compile.reads": lambda: {"register": "x", "nodes": [1, None, 0]},
    "compile.relu": lambda: {"value": word("x")},
    "compile.run": lambda: {"program": library.get("sort", 4), "x": np.zeros((2, 4, 1))},
    "compile.select": lambda: {"bit": word("b"), "one": word("x"), "zero": word("y")},
    "compile.word": lambda: {"name": "x"},
    **{
        f"compile.library.{build}": lambda: {"length": 4}
        for build in [
            "cumsum",
            "cummin",
            "cummax",
            "max_subarray",
            "sort",
            "argsort",
            "cummedian",
            "kth",
            "merge",
            "reduce",
            "broadcast",
            "permute",
            "fetch",
            "gather",
        ]
    },
    "compile.library.get": lambda: {"name": "sort", "length": 4},
    "compile.library.register": lambda: {"build": doubled},
    "plugins.load": lambda: {"plugin": "mine.py"},
    "plugins.load_all": lambda: {"plugins": ["mine.py"]},
    "plugins.installed": lambda: {"kind": "tasks"},
    "plugins.provide": lambda: {"kind": "tasks", "name": "sort"},
    "compile.mpc.Message": lambda: {"address": word("a"), "word": word("x")},
    "compile.mpc.Exchange": lambda: {"messages": (mpc.Message(address=word("a"), word=word("x")),), "update": {}},
    "compile.mpc.Mpc": lambda: {"name": "mine", "machines": 2, "registers": ("x",), "rounds": ()},
    "compile.mpc.to_program": lambda: {"program": mpc.fetch(3)},
    "compile.mpc.fetch": lambda: {"machines": 3},
    "compile.specification.Merged": lambda: {"runs": (2, 1)},
    "compile.specification.Ranked": lambda: {"ranks": (0, 0, 1)},
    "compile.specification.Permuted": lambda: {"table": (1, 0)},
    "compile.specification.Broadcast": lambda: {"source": 1},
    "compile.specification.Scan": lambda: {"op": "sum"},
    "compile.specification.Reduced": lambda: {"op": "max"},
    "compile.specification.Computes": lambda: {"values": {"x": (word("x[0]"),)}},
    "compile.specification.Semigroup": lambda: {
        "parts": ("sum",),
        "enter": {"sum": word("x")},
        "join": {"sum": word("left sum") + word("right sum")},
        "leave": (word("sum"),),
        "never_negative": (word("sum"),),
    },
    "encodings.register": lambda: {"name": "one-hot-again", "width": lambda nodes: nodes},
    "encodings.width": lambda: {"name": "one-hot", "nodes": 4},
    "encodings.make": lambda: {"name": "one-hot", "nodes": 4},
    **{
        f"encodings.{made}": lambda: {"nodes": 4, "generator": seeded()}
        for made in ["one_hot", "binary", "parabolic", "sinusoidal", "near_orthogonal", "stochastic"]
    },
    **dict.fromkeys(("zoo.load", "zoo.scores", "zoo.card"), lambda: {"task": "sort", "model": "standard"}),
    "published.table": lambda: {"name": "positional.csv"},
    "published.losses": lambda: {"experiment": "scale", "task": "sum", "arch": "positional", "scale": 10.0},
    "published.khop_accuracy": lambda: {"layers": 3, "hops": 4},
    "devices.resolve": lambda: {"name": "cpu"},
    "theory.bounds.terms": lambda: {"model": small(), "samples": 10},
    "theory.bounds.fleet_terms": lambda: WEIGHTS | {"samples": 10},
    "theory.bounds.sizes": lambda: {"architecture": SIZES},
    "theory.homogeneity.redraw_factor": lambda: {"scale": 2.0},
    **dict.fromkeys(
        ("theory.homogeneity.predict", "theory.homogeneity.measure"),
        lambda: {
            "model": model(**SMALL, bias=False),
            "task": "sort",
            "scale": 2.0,
            "generator": seeded(),
            "samples": 10,
        },
    ),
    "theory.homogeneity.interval": lambda: {"values": torch.ones(3), "confidence": 0.9},
    "theory.lipschitz.upper": lambda: {"model": small()},
    "theory.lipschitz.lower": lambda: {"model": small(), "starts": 1, "rounds": 1, "generator": seeded()},
    "nn.law.snap": lambda: {"value": 0.5},
    "nn.law.law": lambda: {"model": looped()},
    "train.polish.polish": lambda: {
        "model": looped(),
        "sample": (torch.ones(2, 4, 1), torch.ones(2, 4, 2)),
        "steps": 1,
    },
    "compile.learned_program.learned_program": lambda: {"model": minimal(), "length": 4},
    "compile.learned_program.agreement": lambda: {
        "model": minimal(),
        "program": compiler.learned_program.learned_program(minimal(), 4),
        "bound": 1.0,
        "samples": 2,
        "generator": seeded(),
    },
    "theory.looped_errors.steps": lambda: {"sizes": nn.Looped(), "size": 4},
    "theory.looped_errors.compare_bound": lambda: {"epsilon": 0.1, "steps": 3, "unit": 0.1},
    "theory.looped_errors.size_bound": lambda: {"epsilon": 0.1, "steps": 3},
    "theory.looped_errors.sum_bound": lambda: {"epsilon": 0.1, "steps": 3},
    "theory.looped_errors.grid_bound": lambda: {"epsilon": 0.1, "side": 3, "unit": 0.1},
    "theory.looped_errors.path_bound": lambda: {"epsilon": 0.1, "nodes": 3, "unit": 0.1},
    "theory.looped_errors.error_bound": lambda: {"model": minimal(), "size": 4},
    "theory.looped_report.about_looped": lambda: {"model": minimal(), "size": 4},
    "theory.looped_report.measure": lambda: {"model": minimal(), "size": 4, "generator": seeded()},
    "theory.step_deviation.largest_deviation": lambda: {
        "model": model("LoopedPositionalTransformer", schedule="bitonic"),
        "target": "min",
        "role": 1,
    },
    "theory.norms.spectral_norm": lambda: {"weight": torch.eye(3)},
    "theory.norms.column_norm": lambda: {"weight": torch.eye(3)},
    "theory.norms.norms": lambda: dict(WEIGHTS),
    "theory.norms.attends_by_value": lambda: {"architecture": SIZES},
    "theory.norms.query_key_norm": lambda: dict(WEIGHTS),
    **dict.fromkeys(("theory.selection.loss", "theory.selection.gradient"), lambda: {"v": 1.0, "g": 2.0, **FORMULA}),
    "theory.longer_selection.fixed_loss": lambda: {"v": 1.0, "g": 2.0, **FORMULA, "trained": 4},
    "theory.selection.trajectory": lambda: {**FORMULA, "eta": 1.0, "steps": 2},
    "theory.selection.best_v": lambda: {"g": 1.0, "T": 6, "q": 2},
    "theory.selection.best_loss": lambda: {"g": 1.0, **FORMULA},
    "theory.selection.inverse_loss_slope": lambda: {"T": 6, "eta": 1.0},
    "theory.selection.asymptote": lambda: {"t": 5.0, "T": 6, "eta": 1.0},
    "theory.selection.fcn_floor": lambda: {"m": 3, **FORMULA},
    "theory.report.about": lambda: {"model": model(**SMALL, bias=False), "samples": 10},
    "studies.get": lambda: {"name": "ood-scale"},
    "studies.register": lambda: {"study": Bounds},
    "studies.core.results.run": lambda: {
        "study": studies.get("sts-bound"),
        "preset": "smoke",
        "out": "store",
        "device": "cpu",
        "reporter": Silent(),
    },
    "studies.sweep.parse": lambda: {"given": ["optimiser.lr=1e-3,1e-2"]},
    "studies.sweep.Space": lambda: {"fields": {"optimiser.lr": (1e-3, 1e-2)}},
    "studies.sweep.Range": lambda: {"low": 1e-3, "high": 1e-2},
    "studies.sweep.sweep": lambda: {
        "study": studies.get("ood-scale"),
        "space": SPACE,
        "preset": "smoke",
        "tasks": ("sum",),
        "arms": ("positional",),
        "seeds": 2,
        "device": "cpu",
        "out": "store",
        "reporter": Silent(),
    },
    "engine.cluster.ClusterEngine": lambda: {"address": "10.0.0.1:6379", "device": "cpu", "threads": 1},
    "report.write_sweep": lambda: {
        "sweep": Later(lambda: sweeps.Sweep(request=Request(study=studies.get("ood-scale"), space=SPACE), tried=())),
        "out": "studied",
    },
    "studies.core.results.results": lambda: {"name": "sts-bound", "out": "studied"},
    "report.report_page": lambda: {"results": Later(lambda: results.results("sts-bound", "studied")), "out": "studied"},
    "report.model_page": lambda: {"model": model(**SMALL), "x": X[0], "exact": X[0, :, 0], "title": "small"},
    "report.attention_of": lambda: {"model": model(**SMALL), "x": X[0]},
    "report.attention_page": lambda: {"attention": torch.full((2, 1, 3, 3), 1 / 3), "title": "small", "step": "layer"},
    "report.write": lambda: {"results": Later(lambda: results.results("sts-bound", "studied")), "out": "studied"},
}
