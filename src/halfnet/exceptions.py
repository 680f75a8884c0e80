"""The errors that halfnet raises for what a caller did.

Every one is a `HalfnetError` and also the built-in error that a caller would expect, so both
`except halfnet.HalfnetError` and `except ValueError` work.
"""

__all__ = ["HalfnetError", "HalfnetFileError", "HalfnetTypeError", "HalfnetValueError"]


class HalfnetError(Exception):
    """Base class of every error that halfnet raises on purpose."""


class HalfnetValueError(HalfnetError, ValueError):
    """An argument has the right type and a value that cannot be used."""


class HalfnetTypeError(HalfnetError, TypeError):
    """An argument has a type that cannot be used."""


class HalfnetFileError(HalfnetError, ValueError):
    """A file is not what it should be: damaged, of another kind, or from a newer format."""
