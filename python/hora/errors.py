"""Exceptions that hora raises."""

from __future__ import annotations

__all__ = ["HorovodInternalError", "NotInitializedError"]


class HorovodInternalError(RuntimeError):
    """A collective failed after it was accepted: ranks disagree about it, a rank left, or the session broke.

    Keeps Horovod's name, so that existing ``except`` clauses go on working.

    Examples
    --------
    >>> from hora.errors import HorovodInternalError
    >>> issubclass(HorovodInternalError, RuntimeError)
    True
    """


class NotInitializedError(HorovodInternalError, ValueError):
    """hora was called before ``init()`` or after ``shutdown()``.

    Horovod raises a ``ValueError`` here from the rank functions and a ``HorovodInternalError`` from the
    collectives; this class is both.

    Examples
    --------
    >>> from hora.errors import NotInitializedError
    >>> issubclass(NotInitializedError, ValueError)
    True
    """
