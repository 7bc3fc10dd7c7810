"""Triton kernels for NVIDIA GPUs, one family per file, named after what it computes."""
