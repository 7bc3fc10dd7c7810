"""The experiments of Back de Luca et al. 2025."""
