"""Which launch of a kernel is fastest on this GPU?

    python benchmarks/launches.py                  every case
    python benchmarks/launches.py attending map    cases whose name has one of these words in it

The kernels of `posattn.nn.kernels.reading_layer` at the sizes of the studies, with the constants of their files changed
to each of the candidates below. Kernels compile in as many processes as there are cores; then every candidate is timed,
milliseconds of a call, and the one that the package takes is marked.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import starmap
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from posattn.nn.kernels import attending_rows, mixing_rows, row_maps
from timing import gpu_milliseconds, needs_gpu

STEPS = 10
Change = tuple[Any, str, Any]  # a module, the name of a constant, its value


class Table(dict[int, Any]):
    """A table of launches by the rows of a tile, of which one is tried."""

    def __init__(self, given: dict[int, Any], tile: int) -> None:
        super().__init__(given)
        self.tile = tile

    def __repr__(self) -> str:
        return shown(self[self.tile])


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda", generator=torch.Generator("cuda").manual_seed(0))


def maps(replicas: int, rows: int, depth: int, columns: int, own: int, slope: bool, exact: bool) -> Callable[[], Any]:
    """One linear map of many rows."""
    x, w = drawn(replicas, rows, depth), drawn(replicas, depth, columns)
    if slope:
        z, g = drawn(replicas, rows, depth), torch.empty(replicas, rows, 2 * depth, device="cuda")
        return lambda: row_maps.slope_rows(x, z, w, g[:, :, :depth], exact=exact)
    beside = drawn(replicas, rows, own * columns) if own else None
    return lambda: row_maps.map_rows(x, w, exact=exact, own=beside, relu=own == 1)


def attending(
    replicas: int, batch: int, nodes: int, wide: int, value: int, turned: bool, backward: bool, exact: bool
) -> Callable[[], Any]:
    """Two heads."""
    rows, queries = batch * nodes, (4 if turned else 2) * wide
    turns = drawn(2, nodes, wide) if turned else None
    layer = attending_rows.Attending(2, nodes, wide, queries + 2 * value, exact, turns)
    u, moved = drawn(replicas, rows, wide), drawn(replicas, rows, queries + 4 * value)
    shift, dread, right = drawn(replicas, queries), drawn(replicas, rows, 2 * value), torch.empty_like(moved)
    if not backward:
        return lambda: layer.read(u, moved, shift)
    weights = torch.rand(replicas, rows * 2 * nodes, device="cuda")
    return lambda: layer.differentiated(u, moved, shift, weights, dread, right)


def mixing(replicas: int, batch: int, nodes: int, value: int, summed: bool, exact: bool) -> Callable[[], Any]:
    """Two heads, whose values stand beside as many other columns."""
    a, moved = drawn(replicas, 2, nodes, nodes), drawn(replicas, batch * nodes, 4 * value)
    read, values = torch.empty(replicas, batch * nodes, 2 * value, device="cuda"), moved[:, :, 2 * value :]
    if summed:
        return lambda: mixing_rows.mixing_gradient(read, values, heads=2, nodes=nodes, exact=exact)
    return lambda: mixing_rows.mix(a, values, read, exact=exact)


def cases() -> Iterator[tuple[str, Callable[[int], Callable[[], Any]], int, list[list[Change]]]]:
    """Name, what makes the work for some replicas, replicas, and the candidates."""
    for exact in (True, False):
        how = "float32" if exact else "tf32"
        launches = [
            row_maps.Launch(*one)
            for one in (
                (64, 64, 64, 4, 1), (64, 64, 64, 4, 2), (128, 64, 64, 8, 2), (128, 32, 64, 8, 2), (128, 32, 64, 8, 3),
                (64, 32, 64, 4, 3), (64, 32, 64, 4, 4),
            )
        ]  # fmt: skip
        for replicas, rows, depth, columns, own, slope in (
            (100, 9000, 64, 256, 0, False),
            (100, 9000, 64, 128, 0, False),
            (100, 9000, 64, 64, 1, False),
            (100, 9000, 64, 64, 0, True),
            (100, 9000, 128, 64, 0, False),
            (100, 9000, 256, 64, 2, False),
            (15, 9000, 256, 64, 2, False),
            (6, 99_000, 32, 128, 0, False),
            (6, 99_000, 128, 32, 2, False),
        ):
            # a launch that takes less than the whole depth at once is for deep maps whatever the depth
            candidates = [
                [(row_maps, "SHALLOW", one), (row_maps, "DEEP", one)]
                if min(depth, 64) > one.depth
                else [(row_maps, "DEEP" if depth > 64 else "SHALLOW", one)]
                for one in launches
            ]
            what = f"map {depth} → {columns}{', sloped' if slope else ''}{f', {own} beside' if own else ''}, {how}"
            work = partial(maps, rows=rows, depth=depth, columns=columns, own=own, slope=slope, exact=exact)
            yield what, work, replicas, candidates
        for replicas, nodes, wide, value, turned, warps in (
            (100, 9, 64, 32, False, (1, 2)),
            (15, 9, 64, 32, True, (1, 2)),
            (15, 17, 64, 32, False, (1, 2, 4)),
            (15, 33, 64, 32, False, (4, 8)),
            (6, 99, 32, 16, False, (4, 8)),
        ):
            tile = max(16, 1 << (nodes - 1).bit_length())
            sizes: dict[str, Any] = {"batch": 1000, "nodes": nodes, "wide": wide, "value": value, "turned": turned}
            for backward in (False, True):
                which = "backward" if backward else "forward"
                what = f"attending {nodes}{' turned' if turned else ''}, {which}, {how}"
                work = partial(attending, **sizes, backward=backward, exact=exact)
                table = attending_rows.WARPS
                yield (
                    what,
                    work,
                    replicas,
                    [[(attending_rows, "WARPS", Table(table | {tile: one}, tile))] for one in warps],
                )
        for replicas, nodes, value, launches in (
            (100, 9, 32, ((128, 2, 16, 128, 4), (256, 4, 16, 64, 4), (128, 2, 16, 256, 4), (128, 2, 16, 128, 2))),
            (15, 33, 32, ((64, 4, 32, 64, 4), (64, 2, 16, 32, 2), (32, 4, 32, 32, 4), (64, 4, 16, 64, 8))),
            (6, 99, 16, ((64, 8, 32, 64, 8), (64, 8, 16, 32, 8), (64, 4, 16, 32, 4), (32, 4, 32, 64, 4))),
        ):
            tile = max(16, 1 << (nodes - 1).bit_length())
            for summed in (False, True):
                what = f"mixing {nodes}{', summed' if summed else ''}, {how}"
                work = partial(mixing, batch=1000, nodes=nodes, value=value, summed=summed, exact=exact)
                changes = [
                    [(mixing_rows, "LAUNCH", Table(mixing_rows.LAUNCH | {tile: mixing_rows.Launch(*one)}, tile))]
                    for one in launches
                ]
                yield what, work, replicas, changes


def changed(changes: list[Change]) -> ExitStack:
    stack = ExitStack()
    for of, name, value in changes:
        stack.enter_context(patch.object(of, name, value))
    return stack


def shown(value: Any) -> str:
    return f"{tuple(value)}" if isinstance(value, tuple) else f"{value}"


def chosen(words: list[str]) -> list[tuple[str, Callable[[int], Callable[[], Any]], int, list[list[Change]]]]:
    return [case for case in cases() if not words or any(word in case[0] for word in words)]


def compiled(words: list[str], case: int, candidate: int) -> str:
    """Run one candidate for one replica, and say what went wrong, if anything did."""
    _, made, _, candidates = chosen(words)[case]
    with changed(candidates[candidate]):
        try:
            made(1)()
            torch.cuda.synchronize()
        except (OutOfResources, RuntimeError) as error:  # a launch that does not fit is one that is not taken
            return f"{type(error).__name__}: {error}"[:100]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--compile", action="store_true", help="no more than that: a later run finds it done")
    asked = parser.parse_args()
    needs_gpu()
    found = chosen(asked.words)
    if not found:
        raise SystemExit(f"no case has {' or '.join(asked.words)} in its name: without words, all are shown.")
    jobs = [(asked.words, case, at) for case, one in enumerate(found) for at in range(len(one[3]))]
    with ProcessPoolExecutor(min(14, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        failures = dict(zip([job[1:] for job in jobs], pool.map(compiled, *zip(*jobs, strict=True)), strict=True))
    for case, (name, made, replicas, candidates) in enumerate([] if asked.compile else found):
        work, lines = made(replicas), []
        for at, changes in enumerate(candidates):
            values = ", ".join(starmap(lambda of, constant, value: shown(value), changes))
            if failures[case, at]:
                lines.append(f"{values}: {failures[case, at]}")
                continue
            taken = all(getattr(of, constant) == value for of, constant, value in changes)
            with changed(changes):
                lines.append(f"{gpu_milliseconds(work, STEPS):.4f}{' *' if taken else ''} ({values})")
        print(f"{name} × {replicas}: {'; '.join(lines)}", flush=True)
        del work
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
