"""The tests run as `make test-machines` told them to; torch ignores a setting that it does not know."""

import os
from pathlib import Path

import torch

import conftest


def test_torch_computes_with_the_instructions_and_threads_it_was_told_to():
    capability = os.environ.get("ATEN_CPU_CAPABILITY", torch.backends.cpu.get_cpu_capability())
    assert torch.backends.cpu.get_cpu_capability() == capability.upper()
    assert torch.get_num_threads() == int(os.environ.get("OMP_NUM_THREADS", 1))


def test_every_file_that_is_left_out_on_other_machines_is_there():
    here = Path(__file__).parent
    named = [*conftest.NUMERIC, *(name.partition("::")[0] for name in conftest.NOT_NUMERIC)]
    assert [name for name in named if not (here / name).exists()] == []
