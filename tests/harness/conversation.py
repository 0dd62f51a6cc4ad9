"""The launcher's side of the conversation with its ranks: answers each step when all ranks have posted it.

The steps of a launch are ``collected``, then for each test ``start``, any number of ``exchange``, ``end`` and
``clean``, and at last ``done``.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from pathlib import Path
from typing import Any

from harness.results import Result, merge

START_S = 120.0  # from the start of the processes to the first test: imports dominate
BETWEEN_S = 30.0  # cleaning up after a test
AFTER_FAILURE_S = 15.0  # what the peers of a failed rank get to end their test


class Trouble(Exception):
    """The launch cannot go on."""


class Conversation:
    """What has been said so far, and until when the next step is due.

    Attributes
    ----------
    results : list of Result
        Tests that have ended, and files that could not be collected.
    done, total : int
        How many tests are behind, and how many there are.
    test, phase : str
        The test that is running, if any, and the last step that all ranks have posted.
    deadline : float
        In the time of `time.monotonic`.
    """

    def __init__(self, address: Path, title: str, ranks: int, done: int) -> None:
        self.results: list[Result] = []
        self.done = done
        self.total = 0
        self.test: str | None = None
        self.phase = "start"
        self.deadline = time.monotonic() + START_S
        self.pids: dict[int, int] = {}
        self._title = title
        self._ranks = ranks
        self._started = 0.0
        self._posted: dict[int, dict[str, Any]] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._unread: dict[socket.socket, bytes] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address))
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def close(self) -> None:
        self._selector.close()
        for connection in [self._listener, *self._unread]:
            connection.close()

    def name(self) -> str:
        """Return what is going on, in words that fit a result."""
        return f"{self._title}: {self.test or self.phase}"

    def silent(self) -> list[int]:
        """Return the ranks that have not posted the step which the others have."""
        return sorted(set(range(self._ranks)) - set(self._posted))

    def listen(self, seconds: float) -> list[int]:
        """Take what the ranks post within `seconds`; return the ranks whose connection has ended."""
        lost: list[int] = []
        for key, _ in self._selector.select(timeout=seconds):
            if key.fileobj is self._listener:
                connection, _ = self._listener.accept()
                self._unread[connection] = b""
                self._selector.register(connection, selectors.EVENT_READ)
            else:
                assert isinstance(key.fileobj, socket.socket)
                lost += self._read(key.fileobj)
        return lost

    def _read(self, connection: socket.socket) -> list[int]:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = connection.recv(1 << 20)
        if not data:
            self._selector.unregister(connection)
            return [rank for rank, other in self._sockets.items() if other is connection]
        *lines, self._unread[connection] = (self._unread[connection] + data).split(b"\n")
        for line in lines:
            self._take(connection, json.loads(line))
        return []

    def _take(self, connection: socket.socket, message: dict[str, Any]) -> None:
        if message["kind"] == "hello":
            self._sockets[message["rank"]] = connection
            self.pids[message["rank"]] = message["pid"]
            return
        sender = next(rank for rank, other in self._sockets.items() if other is connection)
        self._posted[sender] = message
        if message["kind"] == "end" and message["outcome"] == "failed":
            self.deadline = min(self.deadline, time.monotonic() + AFTER_FAILURE_S)
        self._refuse_late_exchanges()
        if len(self._posted) == self._ranks:
            self._step()

    def _refuse_late_exchanges(self) -> None:
        """Let no rank wait for the value of a peer that has ended the test."""
        ended = [rank for rank, message in self._posted.items() if message["kind"] == "end"]
        waiting = [rank for rank, message in self._posted.items() if message["kind"] == "exchange"]
        for rank in waiting if ended else []:
            del self._posted[rank]
            self._reply(rank, {"error": f"ranks {sorted(ended)} have ended the test"})

    def _step(self) -> None:
        messages = [self._posted[rank] for rank in range(self._ranks)]
        kinds = [message["kind"] for message in messages]
        if len(set(kinds)) > 1:
            raise Trouble(f"ranks run different steps: {kinds}")
        if kinds[0] != "exchange":
            self._note(kinds[0], messages)
        self._posted.clear()
        for rank in range(self._ranks):
            self._reply(rank, {"messages": messages})

    def _note(self, kind: str, messages: list[dict[str, Any]]) -> None:
        now = time.monotonic()
        self.phase = kind
        self.deadline = now + BETWEEN_S
        if kind == "collected":
            self._note_collection(messages)
        elif kind == "start":
            if len({message["test"] for message in messages}) > 1:
                raise Trouble(f"ranks run different tests: {[message['test'] for message in messages]}")
            self.test = messages[0]["test"]
            self._started = now
            self.deadline = now + messages[0]["limit_s"]
        elif kind == "end":
            self.results.append(merge(self.name(), messages, now - self._started))
        elif kind == "clean":
            self.test = None
            self.done += 1

    def _note_collection(self, messages: list[dict[str, Any]]) -> None:
        if any(message["tests"] != messages[0]["tests"] for message in messages):
            raise Trouble("ranks found different tests")
        self.total = len(messages[0]["tests"])
        if self.done == 0:
            for reports in zip(*(message["troubles"] for message in messages), strict=True):
                self.results.append(merge(f"{self._title}: {reports[0]['name']}", reports))

    def _reply(self, rank: int, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):
            self._sockets[rank].sendall(json.dumps(message).encode() + b"\n")
