"""Running scripts that were written for Horovod, without a change to them.

``python -m hora.compat train.py args...`` runs a script whose ``import horovod.torch`` then finds hora,
``python -m hora.compat -m package.module args...`` a module. From code, :func:`install` does the same.

The modules that are provided lie in the folder ``modules`` and are found by an entry at the end of
``sys.path``, so processes that a script spawns find them too.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

__all__ = ["install"]

FOLDER = str(Path(__file__).with_name("modules"))


def install(*, replace: bool = False) -> None:
    """Let ``import horovod`` and ``import horovod.torch`` find hora from now on, in this process.

    Calling it again does nothing. Ranks that join follow Horovod's rule (``HORA_JOIN_RULE=horovod``). The
    entry in ``sys.path`` reaches spawned processes too.

    Parameters
    ----------
    replace : bool
        Also when a real Horovod is installed, which is then hidden; without it, it is never touched.

    Raises
    ------
    RuntimeError
        If a real Horovod is installed and ``replace`` is not given, or one was imported before.

    Examples
    --------
    >>> import hora.compat
    >>> hora.compat.install()
    >>> import horovod.torch as hvd
    >>> hvd.init()
    >>> hvd.size() >= 1
    True
    """
    os.environ.setdefault("HORA_JOIN_RULE", "horovod")
    imported = sys.modules.get("horovod")
    if imported is not None:
        if not is_ours(imported.__file__):
            raise RuntimeError(f"{imported.__file__} was imported before hora.compat was installed")
        return
    if replace:
        sys.path[:] = [FOLDER, *(entry for entry in sys.path if entry != FOLDER)]
        return
    if FOLDER in sys.path:
        return
    found = importlib.util.find_spec("horovod")
    if found is not None and found.origin is not None:
        raise RuntimeError(
            f"Horovod itself is installed ({found.origin}); uninstall it, or hide it with "
            "`python -m hora.compat --replace ...` or hora.compat.install(replace=True)"
        )
    sys.path.append(FOLDER)


def is_ours(origin: str | None) -> bool:
    """Return whether a module's file belongs to this package."""
    return origin is not None and Path(origin).is_relative_to(FOLDER)
