"""What a link between two hosts can do: a full-duplex exchange over one TCP connection, by no library."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
from contender import Contender, Memory
from referee import Referee

LIMIT_S = 30.0


class RawTcp(Contender):
    """The first ranks of both hosts send each other as many bytes as are reduced; other ranks do nothing.

    No allreduce can do with less, for each host has to learn what the other put in. While it waits, it
    sleeps, so for small sizes, where latency is all, libraries that poll are faster.
    """

    checked = False

    def __init__(self, referee: Referee, address: str) -> None:
        """Connect the hosts; `address` is one of the host of rank 0."""
        self._peer: socket.socket | None = None
        if referee.rank == 0:
            with socket.create_server((address, 0)) as listener:
                listener.settimeout(LIMIT_S)
                referee.from_root(str(listener.getsockname()[1]))
                self._peer, _ = listener.accept()
        else:
            port = int(referee.from_root(""))
            if os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] == "0":
                self._peer = socket.create_connection((address, port), LIMIT_S)
        if self._peer is not None:
            self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peer.setblocking(False)

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        if memory.op != "allreduce":
            raise NotImplementedError(f"it is no limit of {memory.op}")
        peer = self._peer
        if peer is None:
            return lambda: None
        output, received = memory.work.view(np.uint8).data, np.zeros(memory.work.nbytes, np.uint8).data
        return lambda: exchange(peer, output, received)

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()


def exchange(peer: socket.socket, output: memoryview, received: memoryview) -> None:
    """Send and receive at the same time, as much in both directions."""
    size, sent, got = len(output), 0, 0
    poll = select.poll()
    while sent < size or got < size:
        events = (select.POLLOUT if sent < size else 0) | (select.POLLIN if got < size else 0)
        poll.register(peer, events)
        ready = poll.poll(LIMIT_S * 1e3)
        if not ready:
            raise TimeoutError(f"nothing moved on the connection for {LIMIT_S:.0f} s")
        if ready[0][1] & select.POLLOUT and sent < size:
            sent += peer.send(output[sent:])
        if ready[0][1] & ~select.POLLOUT and got < size:
            count = peer.recv_into(received[got:])
            if count == 0:
                raise ConnectionError("the other host closed the connection")
            got += count
