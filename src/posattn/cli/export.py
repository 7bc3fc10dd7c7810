"""Saved models in the forms that other tools read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posattn.cli.app import LARGEST, ModelFile, app, path
from posattn.errors import require, unknown

if TYPE_CHECKING:
    from posattn.compile.export import OnnxProgram
    from posattn.nn.onnx import OnnxFile

FORMS = ("onnx", "pretrained")


@app.command("export")
def export_model(
    file: ModelFile,
    to: Annotated[str, typer.Option(help="onnx (a file) or pretrained (a folder as on the hub).")] = "onnx",
    out: Annotated[
        str | None,
        typer.Option(help="What to write; default: the file's name, with .onnx or without an ending.", callback=path),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="ONNX of a looped model: how many nodes an input has (graphs and tables: n·n). Default: 8, or 16.",
            min=1,
            max=LARGEST,
        ),
    ] = None,
) -> None:
    """Write a saved model, trained or compiled, as an ONNX file, or as a folder with weights, configuration and card.

    An ONNX file is compared with the model in onnxruntime first, and written only if they agree. That of a compiled
    program reads in place of attending, and says whether runtimes agree bit for bit or within which bound.

    Example: posattn export sort16.safetensors --to onnx --out sort16.onnx
    """
    if to not in FORMS:
        raise unknown("form", to, FORMS)
    from posattn import compile as compiler
    from posattn.compile.export import guarantee
    from posattn.engine.training_notes import training_notes
    from posattn.nn import load, to_onnx
    from posattn.nn.weights import check_finite_weights, read_header

    made = compiler.load(file) if "program" in read_header(file) else load(file)
    model = made.model if isinstance(made, compiler.Compiled) else made
    check_finite_weights(f"'{file}'", model.weights())
    one_length = to == "onnx" and made is model
    require(length is None or one_length, f"--length {length}: it is for ONNX files of looped models. Leave it out.")
    if to == "pretrained":
        folder = out or str(Path(file).with_suffix(""))
        made.save_pretrained(folder, about=training_notes(file))
        print(f"weights, configuration and model card: {folder}")
        return
    target = out or str(Path(file).with_suffix(".onnx"))
    if isinstance(made, compiler.Compiled) and guarantee(made) is not None:
        program = made.to_onnx(target)
        _print_shapes(program)
        print(f"onnxruntime agrees {program.guarantee}.")
        print(f"The largest difference on {program.tried} inputs is {program.error:.2g}.")
        return
    found = to_onnx(model, target, length=length)
    _print_shapes(found)
    print(f"onnxruntime agrees to {found.error:.2g} of the largest output; roundings allow {found.bound:.2g}.")


def _print_shapes(found: "OnnxFile | OnnxProgram") -> None:
    shapes = ", ".join(f"{name} ({' × '.join(map(str, shape))})" for name, shape in found.inputs.items())
    print(f"{found.path}: {shapes} → ({' × '.join(map(str, found.output))})")
