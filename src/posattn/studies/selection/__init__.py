"""The experiments of Wang et al. 2024."""
