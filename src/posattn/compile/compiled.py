"""A compiled program: the model, its program, the domain in which it is right, and a file that holds all of it."""

import json
import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posattn.checks import instance, real, whole
from posattn.checks import path as checked_path
from posattn.compile import program_json as serial
from posattn.compile.certificate import Certificate, fingerprint, has_digest
from posattn.compile.domain import check_inputs
from posattn.compile.export import OnnxProgram, to_onnx
from posattn.compile.input_ranges import Domain, checked_domain, named_bounds, shown_domain
from posattn.compile.lengths import model_outputs
from posattn.compile.lowering.fits import Fitted, errors_of, fits_from_json
from posattn.compile.lowering.floats import NUMPY
from posattn.compile.lowering.lower import lower
from posattn.compile.program import TOO_DEEP, Program
from posattn.compile.proof.record import Proof
from posattn.compile.verify import verify
from posattn.compile.verify_inputs import filled
from posattn.errors import PosattnError, counted, missing_extra, require
from posattn.nn import ExactPositionalTransformer
from posattn.nn import load as load_model
from posattn.nn.architecture import Architecture
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.pretrained import Pretrained
from posattn.nn.weights import read_header, write_weights


@dataclass(frozen=True, kw_only=True)
class Compiled(Pretrained):
    """A program as a positional Transformer. Call it with numbers, which are checked against the certified domain."""

    reader = "compile.Compiled"

    program: Program
    model: ExactPositionalTransformer
    domain: Domain
    encoding: str
    registers: tuple[str, ...]  # dimension r of the state holds register r
    fits: tuple[tuple[str, float], ...] = ()  # every function that was fitted, with the largest error of its fits
    lines: tuple[Fitted, ...] = ()  # what stands for these functions in the model, call by call
    certificate: Certificate | None = None
    proof: Proof | None = None
    hardened: HardenedTransformer | None = None

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """(length,), (batch, length) or (batch, length, inputs), at most the compiled length; the output is like it.

        A program with an `output_length` gives that many numbers, whatever it is given.
        """
        held = next(self.model.parameters())
        tried = self.certificate
        if tried is not None and str(held.dtype) != f"torch.{tried.dtype}":
            raise PosattnError(
                f"the model is {held.dtype} and was certified in {tried.dtype}: verify it again, .verify()."
            )
        if tried is not None and tried.domain != self.domain:
            raise PosattnError(
                f"the domain is {_bare(self.domain)} and was certified as {_bare(tried.domain)}: recompile it."
            )
        listed = isinstance(x, Tensor | np.ndarray | list | tuple)
        if not listed:
            raise PosattnError(f"the input is {x!r}: give a tensor of numbers, as torch.tensor([3.0, 1.0]).")
        given = torch.as_tensor(x)
        require(not given.is_complex(), f"the input has dtype {given.dtype}: programs work on real numbers.")
        # checked as it was given, not as the model's dtype rounds it
        half = given.is_floating_point() and given.dtype.itemsize < 4
        exactly = torch.float32 if half else given.dtype if given.is_floating_point() else torch.float64
        given = given.to(held.device, exactly)
        require(given.dim() > 0, "the input is a single number: give a sequence, as torch.tensor([3.0, 1.0]).")
        single, flat = given.dim() == 1, given.dim() <= 2 and len(self.program.inputs) == 1
        batch = given.unsqueeze(0) if single else given
        batch = batch.unsqueeze(2) if flat else batch
        length = batch.shape[1] if batch.dim() == 3 else 0
        self.check(batch)
        y = model_outputs(self.program, self.hardened or self.model, self._filled(batch).to(held))
        y = y[:, :length] if self.program.output_length is None else y
        y = y.squeeze(2) if flat and len(self.program.outputs) == 1 else y
        return y[0] if single else y

    def check(self, x: Tensor) -> None:
        """Raise where a value is not in the domain that the model was compiled for."""
        check_inputs(self.program, x, domain=self.domain, dtype=next(self.model.parameters()).dtype)

    def _filled(self, x: Tensor) -> Tensor:
        """A shorter input, filled up with values that the program ignores."""
        return torch.from_numpy(filled(self.program, self.domain, x.cpu().numpy())).to(x.device)

    def verify(self, *, samples: int = 256, seed: int = 0) -> "Compiled":
        """The same with a new certificate. Compiles the program again, to see whether that gives these weights."""
        dtype = next(self.model.parameters()).dtype
        require(dtype in NUMPY, f"the model is {dtype}: verify it in torch.float32 or torch.float64.")
        unknown = bool(self.fits) and not self.lines  # from before files kept their lines
        made = None if unknown else lower(self.program, domain=self.domain, fit=self.lines or None, dtype=dtype)
        held = self if made is None else replace(self, lines=made.fits, fits=errors_of(made.fits))
        found = verify(
            self.program,
            self.model,
            domain=self.domain,
            compiled=made is not None and _equal(self.model, made.model),
            fits=held.fits,
            lines=held.lines,
            samples=samples,
            seed=seed,
        )
        return replace(held, certificate=found.sealed(held._fingerprint()))

    def prove(self, *, seconds: float | None = None) -> Proof:
        """A proof that holds for every input of the domain. `seconds`: how long each step may take (None: no limit)."""
        try:
            from posattn.compile.proof.prove import prove
        except ImportError:
            raise missing_extra("proving", "proof") from None
        seconds = None if seconds is None else real("seconds", seconds)
        require(seconds is None or seconds > 0, f"seconds={seconds}: a step needs some time, more than 0 seconds.")
        found = prove(
            self.program,
            self.model,
            domain=self.domain,
            registers=self.registers,
            lines=self.lines,
            seconds=seconds,
        )
        return found.sealed(self._fingerprint())

    def proved(self, *, seconds: float | None = None) -> "Compiled":
        """The same with its proof, which `save` writes beside the certificate."""
        return replace(self, proof=self.prove(seconds=seconds))

    def _about(self) -> str:
        """What a file says about the model apart from its weights and its program."""
        about: dict[str, Any] = {
            "domain": self.domain,
            "encoding": self.encoding,
            "registers": list(self.registers),
            "fits": list(self.fits),
        }
        if self.lines:
            about["lines"] = [asdict(line) for line in self.lines]
        return json.dumps(about)

    def _fingerprint(self) -> str:
        """The hash of what a certificate is about. A program that cannot be saved counts as it prints."""
        try:
            text = serial.to_json(self.program)
        except PosattnError:
            text = str(self.program)
        return fingerprint(text, self._about(), self.model.weights())

    def summary(self) -> str:
        """Sizes of the model, and the encoding that was chosen."""
        sizes = self.model.architecture
        return (
            f"{self.program.name}: {counted(sizes.nodes, 'node')}, "
            f"{counted(sizes.depth, 'layer')}, {counted(sizes.heads, 'head')}, state {sizes.embed_dim}, "
            f"MLP {sizes.mlp_layers - 1} × {sizes.hidden_dim}; {self.encoding} encoding of "
            f"{counted(sizes.encoding_width, 'dimension')}"
        )

    def harden(self) -> "Compiled":
        """The same with reads in place of attention: n words instead of n² products, equal bit for bit."""
        return replace(self, hardened=self.model.harden())

    def to_onnx(self, path: str | os.PathLike[str], *, seed: int = 0) -> OnnxProgram:
        """Write the hardened model as an ONNX file, unless onnxruntime is further from it than theory allows.

        The file is the raw model, (batch, span, inputs) → (batch, span, outputs), where span is the longer of the
        program's length and its `output_length`. It neither checks inputs nor fills up shorter ones. Its metadata say
        what it takes and how well runtimes agree. `seed`: of the random inputs that are tried.
        """
        return to_onnx(self, path, seed=seed)

    def check_records(self) -> None:
        """Raise where the certificate or the proof is not about this model as it is now."""
        name, held = self.program.name, self._fingerprint()
        require(
            self.certificate is None or self.certificate == replace(self.certificate, digest="").sealed(held),
            f"'{name}' has changed since it was verified: verify it again, .verify(), then save it.",
        )
        require(
            self.proof is None or self.proof == replace(self.proof, digest="").sealed(held),
            f"'{name}' has changed since it was proved: prove it again, .proved(), then save it.",
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Weights, program, registers, domain and certificate in one safetensors file."""
        path = checked_path("path", path)
        notes = {"program": serial.to_json(self.program), "compiled": self._about(), "text": str(self.program)}
        self.check_records()
        if self.certificate is not None:
            notes["certificate"] = self.certificate.to_json()
        if self.proof is not None:
            notes["proof"] = self.proof.to_json()
        tensors = self.model.weights()
        write_weights(path, self.model.architecture, tensors, notes=notes)

    @classmethod
    def _read(cls, path: Path) -> "Compiled":
        return load(path)

    def _described(self) -> tuple[Architecture, str]:
        certificate = str(self.certificate) if self.certificate is not None else "None: it was not verified."
        return self.model.architecture, (
            f"Compiled, not trained: {self.summary()}.\n\n## Certificate\n\n{certificate}\n\n"
            f"## Program\n\n```text\n{self.program.summary()}\n```"
        )


def compile(
    program: Program,
    *,
    domain: Domain = 1000.0,
    fit: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Compiled:
    """The program as a model, not yet verified.

    `domain`: inputs lie in ± this; {"x": 1000, "flag": 1} for each by its name. `fit`: knots for functions from outside
    the language.
    """
    instance("program", program, Program, fix="write one as posattn.compile.Program(…), or take one from the library")
    domain = checked_domain(program, domain)
    fit = None if fit is None else whole("fit", fit, least=2, most=1 << 16)
    try:
        lowered = lower(program, domain=domain, fit=fit, dtype=dtype)
    except RecursionError:
        raise PosattnError(f"program '{program.name}': {TOO_DEEP}") from None
    return Compiled(
        program=program,
        model=lowered.model,
        domain=domain,
        encoding=lowered.encoding,
        registers=lowered.registers,
        fits=errors_of(lowered.fits),
        lines=lowered.fits,
    )


def _bare(domain: Domain) -> str:
    return shown_domain(domain).replace("±", "")


def _certificate(header: dict[str, str], model: ExactPositionalTransformer) -> Certificate | None:
    """The certificate in a file's header, if it is about what the file holds. Without a digest it says nothing."""
    text = header.get("certificate")
    if text is None or not has_digest(text):
        return None
    found = Certificate.from_json(text)
    held = fingerprint(header["program"], header["compiled"], model.weights())
    require(
        found == replace(found, digest="").sealed(held),
        "weights, program, domain or certificate are not those that were verified. Compile it again.",
    )
    return found


def _proof(header: dict[str, str], model: ExactPositionalTransformer) -> Proof | None:
    """The proof in a file's header, if it is about what the file holds. It is a record: `prove` does it again."""
    if "proof" not in header:
        return None
    found = Proof.from_json(header["proof"])
    held = fingerprint(header["program"], header["compiled"], model.weights())
    require(
        found == replace(found, digest="").sealed(held),
        "weights, program, domain or proof are not those that were proved. Prove it again: posattn prove.",
    )
    return found


def _equal(one: ExactPositionalTransformer, other: ExactPositionalTransformer) -> bool:
    """Whether two models have the same sizes and the same weights."""
    held, wanted = one.weights(), other.weights()
    return one.architecture == other.architecture and all(torch.equal(held[k].cpu(), wanted[k]) for k in wanted)


def load(path: str | os.PathLike[str]) -> Compiled:
    """What `Compiled.save` wrote. Nothing in the file is ever executed.

    A certificate without a digest, from before they had one, is left out: the model loads as unverified.
    """
    header = read_header(checked_path("path", path))
    require(
        "program" in header and "compiled" in header,
        f"'{path}' holds no compiled program. posattn compile writes one; posattn.load reads other models.",
    )
    model = load_model(path)
    try:
        about = json.loads(header["compiled"])
        program = serial.from_json(header["program"])
        require(isinstance(model, ExactPositionalTransformer), "the model is not a compiled one.")
        assert isinstance(model, ExactPositionalTransformer)
        sizes, domain = model.architecture, about["domain"]
        domain = checked_domain(program, domain)
        require(
            (sizes.length, sizes.in_dim, sizes.out_dim) == (program.span, len(program.inputs), len(program.outputs))
            and sizes.nodes - program.nodes in (0, 1),  # with a sink or without
            "the model does not belong to its program.",
        )
        require(not sizes.bias, "a compiled model has no biases.")
        for bound in named_bounds(domain).values():
            require(0 < bound < math.inf, f"its domain is {bound}.")
        registers = tuple(map(str, about["registers"]))
        require(
            len(set(registers)) == len(registers) <= sizes.embed_dim and set(program.registers) <= set(registers),
            "its registers are not those of its program, each in a dimension of its own.",
        )
        tried = _certificate(header, model)
        return Compiled(
            program=program,
            model=model,
            domain=domain,
            encoding=str(about["encoding"]),
            registers=registers,
            fits=tuple((str(name), float(error)) for name, error in about["fits"]),
            lines=fits_from_json(about.get("lines", ())),
            certificate=tried,
            proof=_proof(header, model),
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        ArithmeticError,
        RecursionError,
    ) as error:  # a PosattnError is a ValueError
        raise PosattnError(f"'{path}' cannot be loaded as a compiled program: {error}") from None
