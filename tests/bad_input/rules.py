"""Where the usual wrong values are right, and wrong values that only one parameter can have."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from typing import TypeVar

from .values import Bad, File, plain

T = TypeVar("T")

EXPRESSIONS = [
    "absolute",
    "clip",
    "distance",
    "equal",
    "exchange",
    "gate",
    "maximum",
    "floor_divide",
    "minimum",
    "modulo",
    "positive",
    "ramp",
    "relu",
    "select",
    "call",
]

#: (callable, parameter) patterns → labels of usual bad values that are right there; "all" leaves only its own.
FINE: dict[tuple[str, str], set[str]] = {
    # numbers that may be 0, or below it
    ("nn.*", "scratchpad"): {"0"},
    ("tasks.KHopTask", "letters"): {"0"},
    ("tasks.KHopTask", "held_out_letters"): {"0"},
    ("tasks.KHopTask", "max_hops"): {"0"},
    ("tasks.KHopTask.sample", "hops"): {"0"},
    ("theory.selection.trajectory", "steps"): {"0"},
    ("theory.looped_errors.*", "steps"): {"0"},
    ("theory.step_deviation.*", "role"): {"0"},
    ("nn.law.snap", "value"): {"3"},
    ("theory.selection.fcn_floor", "m"): {"0"},
    ("train.Evaluation", "every"): {"0"},
    ("train.Optimiser", "warmup"): {"0"},
    ("train.Optimiser", "patience"): {"0"},
    ("train.Trial", "seed"): {"0", "-1"},
    ("train.Fleet.weights", "replica"): {"0"},
    ("engine.cluster.ClusterEngine", "address"): {"misspelt"},  # another port
    ("engine.run", "checkpoint_every"): {"inf"},  # none but the one on Ctrl-C
    ("compile.Compiled.verify", "seed"): {"0"},
    ("compile.specification.Broadcast", "source"): {"0"},
    # a name of one's own
    ("tasks.*Task", "name"): {"misspelt"},
    ("tasks.Fixed*", "name"): {"misspelt"},
    ("tasks.Fixed*", "summary"): {"misspelt", "''"},
    ("plugins.load", "plugin"): {"empty.safetensors"},  # a file without a line of Python
    ("train.TestSet", "name"): {"misspelt", "''"},
    ("tasks.*Task", "summary"): {"misspelt", "''"},
    ("encodings.register", "name"): {"misspelt"},
    # found out when the function is called
    ("nn.AnyModule", "factory"): {"misspelt"},
    ("nn.AnyModule", "options"): {"all"},
    # figures that are not published: an empty list
    ("published.losses", "*"): {"misspelt"},
    # what is described in JSON, and what is shown of it
    ("*.from_json", "text"): {"misspelt"},
    ("compile.Program.parse", "text"): {"misspelt"},  # in the program's name
    # matrices may have leading axes, losses those of replicas; a diverged model is scored as it is
    ("theory.norms.*", "weight"): {"another axis"},
    ("tasks.*.loss", "*"): {"NaN"},
    ("tasks.*.metric", "*"): {"NaN"},
    # folders, which need not be there
    ("*", "out"): {"all"},
    ("engine.*", "folder"): {"all"},
    # paths that are written
    ("*.save", "path"): {"all"},
    ("nn.to_onnx", "path"): {"all"},
    ("compile.Compiled.to_onnx", "path"): {"all"},
    ("engine.JsonLines", "path"): {"all"},
    ("engine.log_to", "text"): {"misspelt"},
    ("nn.*_pretrained", "save_directory"): {"all"},
    ("nn.*.from_pretrained", "cache_dir"): {"all"},
    ("nn.*", "about"): {"''"},
    ("nn.*.push_to_hub", "commit_message"): {"misspelt"},
    ("nn.*.push_to_hub", "repo_id"): {"misspelt"},
    ("nn.to_onnx", "seed"): {"0"},
    ("compile.Compiled.to_onnx", "seed"): {"0"},
    # NumPy's arrays and lists are numbers to a compiled program, and another axis is a batch
    ("compile.Compiled.__call__", "x"): {"a list", "an array", "whole numbers", "a scalar", "another axis"},
    ("compile.Compiled.check", "x"): {"whole numbers"},
    # a number is an expression
    **{(f"compile.{name}", "*"): {"3"} for name in EXPRESSIONS},
    ("compile.mpc.Message", "*"): {"3"},
    ("compile.Round", "note"): {"''"},
    # numbers of any kind are shown, under any title
    ("report.*", "x"): {"whole numbers"},
    ("report.*", "exact"): {"whole numbers"},
    ("report.*", "attention"): {"whole numbers"},
    ("report.*", "title"): {"misspelt"},
    ("report.*", "step"): {"misspelt"},
    ("compile.library.broadcast", "source"): {"0"},  # the first node
    ("compile.*", "name"): {"misspelt"},
}

WRITTEN = [
    Bad("folder", File("folder")),
    Bad("below a file", File("empty.safetensors/model")),
    *plain(3, None, "", "a\0b"),
]
FOLDER = [Bad("a file", File("empty.safetensors")), *plain(3, None, "a\0b")]

#: (callable, parameter) patterns → further bad values.
EXTRA: dict[tuple[str, str], list[Bad]] = {
    ("*.save", "path"): WRITTEN,
    ("nn.to_onnx", "path"): plain(3, None, "", "a\0b"),
    ("compile.Compiled.to_onnx", "path"): plain(3, None, "", "a\0b"),
    ("nn.to_onnx", "tolerance"): plain(0, -1.0),
    ("engine.JsonLines", "path"): WRITTEN,
    ("engine.log_to", "text"): [Bad("misspelt", "tensorbaord:x", shown=("tensorbaord",), nearest="tensorboard")],
    ("nn.*_pretrained", "save_directory"): FOLDER,
    ("nn.*.from_pretrained", "cache_dir"): [bad for bad in FOLDER if bad.value is not None],
    ("*", "out"): FOLDER,
    ("engine.*", "folder"): FOLDER,
    ("*.from_json", "text"): [*plain("{", "[]", "null"), Bad("a kind 3", '{"kind": 3}', shown=("3",))],
    ("nn.AnyModule", "options"): [Bad("a set", {"width": {3}}, shown=("width",))],
    ("nn.ablation", "name"): [Bad("misspelt", "m1", nearest="M1")],
    ("nn.*", "widths"): plain((), (0,), ("x",), (1.5,)),
    ("nn.Selector*", "query_scale"): plain(0, -1.0),
    ("nn.Selector*", "deviation"): plain(-1.0),
    ("nn.[!HL]*", "heads"): plain(3),  # looped models and hop tables take any number
    ("nn.Hybrid*", "heads"): plain(3),
    ("nn.*ransformer", "options"): [Bad("misspelt", {"lenght": 4}, shown=("lenght",), nearest="length")],
    ("tasks.*.sample", "avoid"): plain(3, (1,), (2.0, 1.0), ("a", "b"), (-1e9, 1e9)),
    ("tasks.*.sample", "high"): plain(-9.0),
    ("tasks.KHopTask.sample", "hops"): plain(4),
    ("tasks.NumericTask.sample", "places"): plain(3),
    ("tasks.SelectionTask.sample", "subset_size"): plain(7),
    ("tasks.SelectionTask", "kappa"): plain(0, -1.0),
    ("tasks.MixedTask", "operations"): plain((), ("mean",)),
    ("tasks.Fixed", "x"): plain(3, "x", None, ()),
    ("tasks.Fixed", "y"): plain(3, "x", None, [0]),
    ("tasks.Fixed.target", "inputs"): plain(3, "x", None, ()),
    ("theory.*", "delta"): plain(0.0, 1.0, 2),
    ("theory.*", "constant"): plain(0, -1.0),
    ("theory.*", "confidence"): plain(0, 1.0),
    ("theory.*", "scale"): plain(0, -1.0),
    ("theory.*selection.*", "kappa"): plain(0, -1.0),
    ("theory.selection.*", "eta"): plain(0, -1.0),
    ("theory.*selection.*", "q"): plain(7),
    ("theory.*selection.*", "T"): plain(1),
    ("theory.report.about", "scales"): plain((1.0,), ("x",)),
    ("compile.Compiled.__call__", "x"): [Bad("a number", 3.0)],
    **{(f"compile.{name}", "*"): plain(True) for name in EXPRESSIONS},
    ("compile.compile", "domain"): plain(0, -1.0, 1e-300),
    ("compile.*", "grid"): plain(0, -1.0),
    ("compile.library.get", "name"): [Bad("misspelt", "sotr", nearest="sort")],
    ("compile.library.broadcast", "source"): plain(4),
    ("compile.library.kth", "k"): plain(5),
    ("compile.ramp", "width"): plain(0, -1.0),
    ("compile.modulo", "divisor"): plain(0, -1.0, 0.5),
    ("compile.floor_divide", "divisor"): plain(0, -1.0, 0.5),
    ("compile.library.permute", "destinations"): plain((0, 0, 1, 2), (0, 1)),
    ("compile.benes", "destinations"): plain((0, 0), (0, 9)),
    ("encodings.sinusoidal", "dim"): plain(3),
    ("encodings.one_hot", "dim"): plain(3),
}


def matching(table: Mapping[tuple[str, str], T], name: str, parameter: str) -> Iterator[T]:
    """The entries whose patterns fit."""
    for (names, parameters), entry in table.items():
        if fnmatch(name, names) and fnmatch(parameter, parameters):
            yield entry
