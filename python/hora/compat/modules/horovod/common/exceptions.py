"""``horovod.common.exceptions``."""

from __future__ import annotations

from hora.errors import HorovodInternalError

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt"]


class HostsUpdatedInterrupt(RuntimeError):
    """The list of hosts has changed; only for ``except`` clauses, as hora does not raise it yet."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """The extension was built for another framework; hora is built for none and never raises it."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(f"{name} {version} is not the {installed_version} that the extension was built with")
        self.name = name
        self.version = version
        self.installed_version = installed_version
