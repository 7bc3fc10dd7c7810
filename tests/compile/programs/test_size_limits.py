"""Sizes of library programs are known before anything is built, and what is too large is refused."""

import time

import pytest

from compile.models import library_model
from posattn import PosattnError
from posattn.compile import library
from posattn.compile.programs import size_limits as sizes


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_the_size_of_a_library_program_is_known_before_it_is_built(name):
    routes = {"permute": ("benes", "direct"), "fetch": ("sort", "grid")}.get(name, (None,))
    for route in routes:
        options = {} if route is None else {"route": route}
        for length in (1, 2, 3, 4, 5, 8, 13) if name == "fetch" else (1, 2, 3, 4, 5, 8, 13, 16, 17):
            made = library.get(name, length, **options)
            assert sizes.library_size(name, length, **options) == (made.nodes, len(made.rounds)), (length, route)


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_a_length_beyond_all_measure_is_refused_before_any_work(name):
    began = time.monotonic()
    with pytest.raises(PosattnError, match=f"length=1000000000: '{name}' .* Choose a shorter length"):
        library.get(name, 10**9)
    assert time.monotonic() - began < 0.5


def test_a_model_larger_than_the_memory_is_refused(monkeypatch):
    for memory, fits in ((2**30, False), (2**34, True), (None, True)):
        monkeypatch.setattr(sizes, "_physical_memory", lambda memory=memory: memory)
        sizes.check_memory("sort", 4096)
        sizes.check_memory("cumsum", 8000)
        if fits:
            sizes.check_memory("cumsum", 16000)
        else:
            with pytest.raises(PosattnError, match=r"16,000 nodes, .* takes about 4 GiB; this machine has 1\."):
                sizes.check_memory("cumsum", 16000)


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_models_have_the_heads_that_are_reckoned_with(name):
    heads = library_model(name, 16 if name != "fetch" else 4).model.architecture.heads
    assert heads == sizes.HEADS.get(name, 1)
