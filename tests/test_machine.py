"""The tests run as `make test-machines` told them to; torch ignores a setting that it does not know."""

import os

import torch


def test_torch_computes_with_the_instructions_and_threads_it_was_told_to():
    capability = os.environ.get("ATEN_CPU_CAPABILITY", torch.backends.cpu.get_cpu_capability())
    assert torch.backends.cpu.get_cpu_capability() == capability.upper()
    assert torch.get_num_threads() == int(os.environ.get("OMP_NUM_THREADS", 1))
