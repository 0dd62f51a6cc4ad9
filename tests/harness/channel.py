"""A rank's line to the process that launched it; independent of MPI and of the library under test.

Everything is one kind of step: each rank posts a message, and when all ranks have posted, each receives the
list of all messages. A rank whose peers have already ended the test receives an error instead.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

ADDRESS = "TEST_LAUNCH_CHANNEL"
DONE = "TEST_LAUNCH_DONE"  # how many tests an earlier launch has run


class PeerFailed(AssertionError):
    """A peer ended the test while this rank waited for its value."""


class Channel:
    def __init__(self, rank: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ[ADDRESS])
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self.post({"kind": "hello", "rank": rank, "pid": os.getpid()})

    def post(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]]:
        line = self._lines.readline()
        if not line:
            os._exit(70)  # the launcher is gone: so is the reason to be here
        reply = json.loads(line)
        if "error" in reply:
            raise PeerFailed(reply["error"])
        messages: list[dict[str, Any]] = reply["messages"]
        return messages

    def gather(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """Post one message and wait for those of all ranks."""
        self.post({"kind": kind, **fields})
        return self.receive()
