"""The version, apart from the package itself so that every part can import it."""

__version__ = "0.1.0"
