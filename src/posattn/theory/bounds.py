"""Theorem 6.1 of Back de Luca et al. 2025 as numbers: what bounds the gap between risk and empirical risk.

With probability at least 1 − δ over m samples,

    |risk − empirical risk| ≤ Õ( (H·L_σ·B₂)^{cL} · B_{2,1} · √(log(H·d·m·n)/m)  +  √(log(1/δ)/m) )

H heads, L layers, d width, n nodes, L_σ the activation's slope, B₂ and B_{2,1} the largest spectral and (2,1)-norms of
the layers' matrices. The standard Transformer's bound also has a factor B_QK^{cL}, since its logits depend on values.
The constant c and those hidden in Õ are not public: c is an option and the others are set to 1, so the terms are for
comparison and not to be read as gaps, not even where a total below 0 looks like one.
"""

import math
from dataclasses import dataclass

from posattn import checks
from posattn.errors import require
from posattn.nn import Architecture, GPTArchitecture, Model
from posattn.nn.initial_weights import Params
from posattn.theory.norms import GELU_SLOPES, RELU_SLOPE, Norms, norms


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The bound's factors as powers of ten, and everything that went into them."""

    architecture: str
    heads: int
    layers: int
    width: int
    nodes: int
    slope: float  # L_σ
    spectral: float  # B₂
    column: float  # B_{2,1}
    query_key: float | None  # B_QK
    samples: int  # m
    delta: float
    constant: float  # c
    norm_factor: float  # log₁₀ (H·L_σ·B₂)^{cL}·B_{2,1}
    query_key_factor: float  # log₁₀ B_QK^{cL}; 0 where attention sees positions alone
    sample_factor: float  # log₁₀ √(log(Hdmn)/m)
    confidence: float  # log₁₀ √(log(1/δ)/m)

    @property
    def total(self) -> float:
        """log₁₀ of the whole bound."""
        first = self.norm_factor + self.query_key_factor + self.sample_factor
        top, low = max(first, self.confidence), min(first, self.confidence)
        return top + math.log10(1 + 10 ** (low - top))


def terms(model: Model, *, samples: int, delta: float = 0.05, constant: float = 1.0) -> Terms:
    """The terms for one model."""
    checks.instance("model", model, Model, fix="pass a model, as posattn.load(file) gives it")
    return fleet_terms(model.architecture, model.replica(), samples=samples, delta=delta, constant=constant)[0]


def fleet_terms(
    architecture: Architecture, p: Params, *, samples: int, delta: float = 0.05, constant: float = 1.0
) -> list[Terms]:
    """The terms for every replica of a fleet, from norms that are computed together."""
    require(checks.whole("m", samples) >= 1, f"m={samples}: a bound needs at least one sample.")
    delta, constant = checks.real("delta", delta), checks.real("constant", constant)
    require(0 < delta < 1, f"delta={delta}: the chance that the bound fails lies in (0, 1).")
    require(constant > 0, f"constant={constant}: the exponent's constant c is above 0.")
    found = norms(architecture, p)
    return [
        _terms(architecture, found, replica, samples, delta, constant) for replica in range(found.spectral.shape[0])
    ]


def _terms(
    architecture: Architecture, found: Norms, replica: int, samples: int, delta: float, constant: float
) -> Terms:
    heads, layers, width, nodes = sizes(architecture)
    slope = GELU_SLOPES[architecture.gelu] if isinstance(architecture, GPTArchitecture) else RELU_SLOPE
    spectral, column = float(found.spectral[replica]), float(found.column[replica])
    query_key = None if found.query_key is None else float(found.query_key[replica])
    exponent = constant * layers
    return Terms(
        architecture=architecture.kind,
        heads=heads,
        layers=layers,
        width=width,
        nodes=nodes,
        slope=slope,
        spectral=spectral,
        column=column,
        query_key=query_key,
        samples=samples,
        delta=delta,
        constant=constant,
        norm_factor=exponent * _log10(heads * slope * spectral) + _log10(column),
        query_key_factor=0.0 if query_key is None else exponent * _log10(query_key),
        sample_factor=0.5 * _log10(max(math.log(heads * width * samples * nodes), 0.0) / samples),
        confidence=0.5 * _log10(math.log(1 / delta) / samples),
    )


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else -math.inf


def sizes(architecture: Architecture) -> tuple[int, int, int, int]:
    """H, L, d and n of any architecture that has layers."""
    checks.instance("architecture", architecture, Architecture, fix="pass what describes a model, model.architecture")
    heads, layers = getattr(architecture, "heads", None), getattr(architecture, "layers", None)
    width, nodes = getattr(architecture, "embed_dim", None), getattr(architecture, "nodes", None)
    nodes = nodes or getattr(architecture, "length", None)
    require(
        None not in (heads, layers, width, nodes),
        f"a {architecture.kind} model has no heads, layers, width and nodes: the theorem is about Transformers.",
    )
    assert heads is not None
    assert layers is not None
    assert width is not None
    assert nodes is not None
    return heads, layers, width, nodes
