"""The version, in its only place: pyproject.toml reads it here, and no installed copy is needed."""

__version__ = "0.2.0"
