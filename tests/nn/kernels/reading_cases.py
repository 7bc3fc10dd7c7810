"""The kernels of a layer between two ReLUs beside their formulas: attention, mixing, and the maps before and after."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from nn.fast import layers
from nn.kernels.comparing import (
    FLOAT32,
    ROUNDINGS,
    ROUNDOFF,
    Line,
    compared,
    drawn,
    kept_precision,
    mixed_model,
    model,
    norm_error,
    refuses_twice,
    rounding,
    strewn,
)


def attending(device: str) -> Iterator[Line]:
    """`attending_layer`: samples that fill a tile, leave rows over, and need several tiles; then with turns."""
    # replicas, batch, nodes, into, heads, width of a value, out: a tile of 16 … 128 rows holds as many samples as fit
    sizes = [
        (2, 4, 9, 10, 2, 5, 64),  # the paper's first layer
        (2, 3, 11, 13, 2, 5, 7),  # no two axes of a tensor alike
        (2, 67, 1, 5, 1, 2, 3),  # one node
        (2, 9, 5, 17, 3, 7, 1),  # three samples a tile, one row over
        (1, 2, 32, 64, 1, 17, 17),  # one sample fills a tile
        (2, 3, 17, 17, 3, 1, 5),  # one sample a tile, 15 rows over
        (1, 3, 9, 64, 2, 32, 16),  # wider going in than coming out
        (1, 1, 2, 1, 1, 1, 2),
        (2, 2, 33, 11, 2, 5, 3),  # 64 rows
        (1, 2, 99, 32, 2, 16, 32),  # 128 rows: a mixed-type model
    ]
    for size in sizes:
        r, s, n, k, h, v, f = size
        inputs = drawn(
            device, (r, s, n, k), (r, h, k, k), (r, h, k), (r, k, f), (r, k, h * v), (r, h * v, f), (r, f),
            scales=[1.0, 1 / k, k**-0.5, k**-0.5, k**-0.5, (h * v) ** -0.5, 1.0],
        )  # fmt: skip
        yield from compared(f"attending {size}", attended, _attending_sum, inputs, FLOAT32)
        if n < 64:  # the interpreter takes its time
            with rounding():
                bound = ROUNDINGS * ROUNDOFF["tf32"]
                yield from compared(f"attending, rounded {size}", attended, _attending_sum, inputs, bound)
        if size == sizes[1]:
            none: list[Any] = [*inputs[:-1], None]
            yield from compared("without bias", attended, _attending_sum, none, FLOAT32)
            yield from compared("strewn", attended, _attending_sum, strewn(*inputs), FLOAT32)
            # Logits of some hundreds, with errors of as many roundoffs: exp of them would overflow.
            u, nn, c, *rest = inputs
            sharp = [u, 300 * nn, 300 * c, *rest]
            yield from compared("sharp", attended, _attending_sum, sharp, 300 * FLOAT32)
    # Far below what a program takes for the logits of nodes that do not belong together.
    u, nn, _, *rest = drawn(device, (1, 2, 3, 5), (1, 1, 5, 5), (1,), (1, 5, 7), (1, 5, 2), (1, 2, 7), (1, 7))
    low = u.abs() + 1, nn, torch.full((1, 1, 5), -1e33, device=device), *rest
    expected = _attending_sum(*(x.cpu().double() for x in low)).relu()
    yield Line("logits of -1e34", "value", norm_error(attended(*low), expected), FLOAT32)
    # replicas, batch, nodes, into, heads, width of a query, width of a value, out
    for turning in [
        (2, 4, 9, 10, 2, 6, 5, 11),
        (1, 5, 9, 64, 2, 64, 32, 64),
        (2, 5, 11, 13, 3, 2, 1, 7),
        (2, 37, 1, 5, 1, 4, 2, 3),
        (1, 2, 32, 7, 2, 4, 3, 5),
    ]:
        r, s, n, k, h, w, v, f = turning
        angle = torch.arange(n)[:, None] * 10_000.0 ** (-torch.arange(0, w, 2).double() / w)
        sine = torch.stack([-angle.sin(), angle.sin()], dim=-1).flatten(1)
        turns = torch.stack([angle.cos().repeat_interleave(2, 1), sine]).float().to(device)
        inputs = drawn(
            device,
            (r, s, n, k), (r, k, h * w), (r, h * w), (r, k, h * w), (r, h * w), (r, k, f), (r, k, h * v), (r, h * v, f),
            (r, f), scales=[1.0, *[(k * w) ** -0.5, w**-0.5] * 2, k**-0.5, k**-0.5, (h * v) ** -0.5, 1.0],
        )  # fmt: skip
        fast, formula = partial(_turning, turns, h), partial(_turning_sum, h)
        yield from compared(f"turning {turning}", fast, formula, inputs, FLOAT32)
        with rounding():
            bound = ROUNDINGS * ROUNDOFF["tf32"]
            yield from compared(f"turning, rounded {turning}", fast, formula, inputs, bound)
    yield from trespassing(device)
    inputs = drawn(device, (1, 2, 3, 5), (1, 1, 5, 5), (1, 1, 5), (1, 5, 7), (1, 5, 2), (1, 2, 7), (1, 7))
    yield Line("second derivative", "is refused", float(not refuses_twice(attended, inputs)), 0.0)
    inputs = drawn(device, (2, 3, 3, 5), (2, 1, 5, 5), (2, 1, 5), (2, 5, 7), (2, 5, 2), (2, 2, 7), (2, 7))
    yield from kept_precision("attending", attended, inputs)
    yield from model("standard", "by_rows", device, heads=3)
    yield from model("standard", "by_rows", device, given=3, heads=2, bias=False, mlp_layers=3, scratchpad=2)
    yield from model("standard", "by_rows", device, given=4, heads=1, layers=1, scratchpad=0, constants="sinusoidal")
    yield from model("standard", "turned", device, heads=3, rotary=True)
    yield from model(
        "standard", "turned", device, given=3, heads=2, bias=False, rotary=True, mlp_layers=3, scratchpad=2
    )
    yield from mixed_model("standard", device)


def attended(u: Tensor, n: Tensor, c: Tensor, own: Tensor, value: Tensor, output: Tensor, b: Any) -> Tensor:
    from posattn.nn.kernels.reading_layer import attending_layer

    maps = torch.cat([n.transpose(1, 2).flatten(2), own, value], dim=2)
    return attending_layer(u, maps, c.flatten(1), output, b, heads=n.shape[1])


def _attending_sum(u: Tensor, n: Tensor, c: Tensor, own: Tensor, value: Tensor, output: Tensor, b: Any) -> Tensor:
    return layers.attending_sum(u, n, c, _matrices(n.shape[1], own, value, output), b)


def _matrices(heads: int, own: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """[M₀, V_1·W_1, …]."""
    per_head = torch.einsum("rkhv,rhvf->rhkf", value.unflatten(2, (heads, -1)), output.unflatten(1, (heads, -1)))
    return torch.cat([own.unsqueeze(1), per_head], dim=1)


def _turned(x: Tensor) -> Tensor:
    """Pairs of dimensions as complex numbers, times e^(i·angle)."""
    nodes, width = x.shape[-2:]
    angle = torch.arange(nodes)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2).double() / width)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def _turning(turns: Tensor, heads: int, *given: Tensor) -> Tensor:
    from posattn.nn.kernels.reading_layer import attending_layer

    u, q, qb, k, kb, own, value, output, b = given
    maps, shift = torch.cat([q, k, own, value], dim=2), torch.cat([qb, kb], dim=1)
    return attending_layer(u, maps, shift, output, b, heads=heads, turns=turns)


def _turning_sum(heads: int, *given: Tensor) -> Tensor:
    u, q, qb, k, kb, own, value, output, b = given
    m = _matrices(heads, own, value, output)
    query, key = (
        _turned((torch.einsum("rsik,rkl->rsil", u, w) + v[:, None, None]).unflatten(3, (heads, -1)).transpose(2, 3))
        for w, v in ((q, qb), (k, kb))
    )
    weights = torch.einsum("rshil,rshjl->rshij", query, key).softmax(-1)
    z = torch.einsum("rsik,rkf->rsif", u, m[:, 0]) + torch.einsum("rshij,rsjk,rhkf->rsif", weights, u, m[:, 1:])
    return z + b[:, None, None, :]


def mixing(device: str) -> Iterator[Line]:
    """`mix`, `mixing_gradient`, and the layer that is made of them."""
    from posattn.nn.kernels import mixing_rows
    from posattn.nn.kernels.mixing_rows import mix, mixing_gradient
    from posattn.nn.kernels.reading_layer import mixing_layer

    # replicas, samples, nodes, heads, width: up to 256 columns, of samples and features, a program; 16 … 128 rows
    for shape in [
        (2, 19, 9, 2, 7),
        (3, 5, 7, 3, 11),
        (1, 1, 1, 1, 1),
        (2, 16, 16, 2, 16),
        (2, 17, 17, 1, 5),
        (1, 3, 33, 2, 13),
        (1, 5, 99, 2, 3),
    ]:
        r, samples, nodes, heads, width = shape
        rows, every = samples * nodes, heads * width
        a, v, dread = drawn(device, (r, heads, nodes, nodes), (r, rows, 3 + every), (r, rows, every))
        values = v[:, :, 3:]  # as they lie beside other columns
        split = values.cpu().double().unflatten(1, (samples, nodes)).unflatten(3, (heads, width))
        gradient = dread.cpu().double().unflatten(1, (samples, nodes)).unflatten(3, (heads, width))
        matrices = a.cpu().double()
        for exact, bound in ((True, FLOAT32), (False, 4 * ROUNDOFF["tf32"])):
            read = torch.full((r, rows, every + 2), torch.nan, device=device)
            mix(a, values, read[:, :, :every], exact=exact)
            expected = torch.einsum("rhij,rsjhf->rsihf", matrices, split).flatten(3).flatten(1, 2)
            yield Line(f"mixing {shape}", f"A·v, exact={exact}", norm_error(read[:, :, :every], expected), bound)
            yield Line(f"mixing {shape}", "no more", float(not read[:, :, every:].isnan().all()), 0.0)
            mix(a, values, read[:, :, :every], exact=exact, backward=True)
            expected = torch.einsum("rhji,rsjhf->rsihf", matrices, split).flatten(3).flatten(1, 2)
            yield Line(f"mixing {shape}", f"Aᵀ·v, exact={exact}", norm_error(read[:, :, :every], expected), bound)
            with patch.object(mixing_rows, "SLICE", 128):  # several slices
                da = mixing_gradient(dread, values, heads=heads, nodes=nodes, exact=exact)
                again = (
                    mixing_gradient(dread, values, heads=heads, nodes=nodes, exact=exact) if device == "cuda" else da
                )
            expected = torch.einsum("rsihf,rsjhf->rhij", gradient, split)
            yield Line(f"mixing {shape}", f"gradient of A, exact={exact}", norm_error(da, expected), bound)
            yield Line(f"mixing {shape}", "the same every time", float(not torch.equal(da, again)), 0.0)

    def whole(u: Tensor, a: Tensor, own: Tensor, value: Tensor, output: Tensor, b: Any) -> Tensor:
        m = _matrices(a.shape[1], own, value, output)
        eye = torch.eye(a.shape[2], dtype=a.dtype).expand(a.shape[0], 1, -1, -1)
        z = layers.mixed_sum(u.permute(0, 2, 3, 1), torch.cat([eye, a], dim=1), m, b)
        return z.permute(0, 3, 1, 2)

    def fast(u: Tensor, a: Tensor, own: Tensor, value: Tensor, output: Tensor, b: Any) -> Tensor:
        return mixing_layer(u, a, torch.cat([own, value], dim=2), output, b)

    # replicas, batch, nodes, into, heads, width of a value, out
    for size in [(1, 7, 9, 64, 2, 32, 64), (2, 3, 11, 13, 2, 5, 7), (2, 67, 1, 5, 1, 2, 3), (1, 2, 33, 70, 3, 5, 65)]:
        r, s, n, k, h, v, f = size
        inputs = drawn(
            device, (r, s, n, k), (r, h, n, n), (r, k, f), (r, k, h * v), (r, h * v, f), (r, f),
            scales=[1.0, n**-0.5, k**-0.5, k**-0.5, (h * v) ** -0.5, 1.0],
        )  # fmt: skip
        yield from compared(f"mixing layer {size}", fast, whole, inputs, FLOAT32)
        with rounding():
            yield from compared(f"rounded {size}", fast, whole, inputs, ROUNDINGS * ROUNDOFF["tf32"])
        if s == 3:
            yield from compared(f"without bias {size}", fast, whole, [*inputs[:-1], None], FLOAT32)
            yield from compared(f"strewn {size}", fast, whole, strewn(*inputs), FLOAT32)
    yield Line("second derivative", "is refused", float(not refuses_twice(fast, inputs)), 0.0)
    inputs = drawn(device, (2, 3, 3, 5), (2, 1, 3, 3), (2, 5, 7), (2, 5, 2), (2, 2, 7), (2, 7))
    yield from kept_precision("mixing layer", fast, inputs)
    yield from model("positional", "by_rows", device, heads=3)
    yield from model("positional", "by_rows", device, given=3, heads=2, bias=False, mlp_layers=3, scratchpad=2)
    yield from model("positional", "by_rows", device, given=4, heads=1, layers=1, scratchpad=0, constants="sinusoidal")
    yield from mixed_model("positional", device)


def _nearest(x: Tensor) -> Tensor:
    """To the 11 bits of TF32."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa.abs() * 2**11 + 0.5).floor() * mantissa.sign() / 2**11, exponent)


def maps(device: str) -> Iterator[Line]:
    """`map_rows` and `slope_rows`: 64 rows, 64 columns and a depth of 64 at once, or 128 rows and a depth of 32."""
    from posattn.nn.kernels import row_maps
    from posattn.nn.kernels.reading_layer import mapped
    from posattn.nn.kernels.row_maps import map_rows, slope_rows

    # replicas, rows, depth, columns
    for shape in [(2, 130, 33, 65), (3, 5, 11, 7), (1, 1, 1, 1), (2, 128, 64, 64), (1, 140, 200, 130), (2, 70, 64, 3)]:
        r, rows, depth, columns = shape
        x, w, own, bias, z, dz, g = drawn(
            device, (r, rows, depth + 2), (r, depth, columns), (r, rows, 3 * columns), (r, columns),
            (r, rows, depth), (r, rows, depth), (r, rows, depth + 5),
        )  # fmt: skip
        x = x[:, :, 2:]  # the first of other columns, and the last
        across = w.mT.contiguous().mT
        exact_x, exact_w, exact_own, exact_bias = (tensor.cpu().double() for tensor in (x, w, own, bias))
        product = torch.einsum("rid,rdj->rij", exact_x, exact_w)
        sums = exact_own[:, :, :columns] + exact_own[:, :, columns : 2 * columns]
        for exact, bound in ((True, FLOAT32), (False, 4 * ROUNDOFF["tf32"])):
            beside = own[:, :, : 2 * columns]
            for case, found, expected in [
                ("x·W", map_rows(x, w, exact=exact), product),
                ("x·W, W lying otherwise", map_rows(x, across, exact=exact), product),
                ("two blocks beside", map_rows(x, w, exact=exact, own=beside), product + sums),
                (
                    "one block, bias, ReLU",
                    map_rows(x, w, exact=exact, own=own[:, :, :columns], bias=bias, relu=True),
                    (product + exact_own[:, :, :columns] + exact_bias[:, None]).relu(),
                ),
            ]:
                yield Line(f"maps {shape}", f"{case}, exact={exact}", norm_error(found, expected), bound)
            if not exact:  # to the nearest TF32, where tensor cores would cut off
                nearest = torch.einsum("rid,rdj->rij", _nearest(exact_x), _nearest(exact_w))
                found = map_rows(x, w, exact=False)
                yield Line(f"maps {shape}", "x·W of rounded factors", norm_error(found, nearest), FLOAT32)
            sloped = dz.cpu().double() * (z.cpu() > 0)
            dx, added = slope_rows(dz, z, w, g[:, :, :depth], exact=exact)
            expected = torch.einsum("rid,rdj->rij", sloped, exact_w)
            yield Line(f"slope {shape}", f"dx, exact={exact}", norm_error(dx, expected), bound)
            yield Line(f"slope {shape}", "g", norm_error(g[:, :, :depth], sloped), 0.0)
            yield Line(f"slope {shape}", "sums", norm_error(added, sloped.sum(1)), FLOAT32)
            if rows > 64:
                with patch.object(row_maps, "PROGRAMS", 1):  # a program goes through several tiles, and past the last
                    added = slope_rows(dz, z, w, g[:, :, :depth], exact=exact)[1]
                    found = map_rows(x, w, exact=exact)
                yield Line(f"slope {shape}", "sums, by few programs", norm_error(added, sloped.sum(1)), FLOAT32)
                yield Line(f"maps {shape}", "x·W, by few programs", norm_error(found, product), bound)
    inputs = drawn(device, (2, 3, 7, 5), (2, 5, 11), (2, 11), scales=[1.0, 5**-0.5, 1.0])

    def formula(x: Tensor, w: Tensor, b: Any) -> Tensor:
        z = torch.einsum("rsik,rkf->rsif", x, w)
        return z if b is None else z + b[:, None, None]

    yield from compared("mapped", mapped, formula, inputs, FLOAT32)
    yield from compared("mapped, without bias", mapped, formula, [*inputs[:2], None], FLOAT32)
    yield from compared("mapped, strewn", mapped, formula, strewn(*inputs), FLOAT32)
    yield from kept_precision("mapped", mapped, inputs)
    # Parts of numbers of any size, and what cancels: the error is that of the largest terms.
    x, w = drawn(device, (1, 64, 64), (1, 64, 64))
    for scale in (1e-30, 1e-10, 1e10, 1e30):
        found = map_rows(x * scale, w, exact=True)
        expected = torch.einsum("rid,rdj->rij", (x * scale).cpu().double(), w.cpu().double())
        yield Line("maps", f"numbers of about {scale:g}", norm_error(found, expected), FLOAT32)


def trespassing(device: str) -> Iterator[Line]:
    """A tile of 16 rows holds one sample of nine nodes, and writes that: its other rows are the next tiles'.

    The interpreter runs one tile after another, so the next one would make good what this one did; run it alone.
    """
    from posattn.nn.kernels import attending_rows as kernels

    total, k, f, n = 27, 16, 8, 9
    width, own = k + 2 * f, [False] * n + [True] * (total - n)
    u, moved, shift, dread = drawn(device, (total, k), (total, width), (k,), (total, f))
    sizes: dict[str, Any] = {"total": total, "into": k, "wide": k, "value": f, "values_at": k + f, "width": width}
    sizes |= {"HEADS": 1, "NODES": n, "TURNED": False, "EXACT": True, "ROWS": 16, "WIDE": k, "VALUE": 16}
    read, weights, right, du = (torch.full((total, columns), torch.nan, device=device) for columns in (f, n, width, k))
    right[:, k : k + f] = 0.0  # the columns between queries and values are written by another kernel
    kernels._forward[(1, 1, 1)](u, moved, shift, u, read, weights, **sizes)
    kept = weights.isnan().any(1).tolist()
    sums = torch.zeros(1, k, device=device)
    kernels._backward[(1, 1, 1)](u, moved, shift, u, weights.nan_to_num(), dread, right, du, sums, **sizes)
    for name, written in (("read", read), ("right", right), ("du", du)):
        yield Line("one tile alone", f"{name}: its own rows", float(written.isnan().any(1).tolist() != own), 0.0)
    yield Line("one tile alone", "weights: its own sample's", float(kept != own), 0.0)
