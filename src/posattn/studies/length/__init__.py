"""Experiments on inputs longer than those of training."""
