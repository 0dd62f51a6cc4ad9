"""A parameter server over mpi4py: where data-parallel training began, and what ring-allreduce replaced.

One more process holds the parameters. In every step each worker sends it its gradients and gets the
parameters back. A synchronous server waits for the gradients of all workers and applies their mean once; an
asynchronous one applies and answers whatever comes first, so that workers do not wait for each other, but
train with parameters that others have changed meanwhile (Dean et al., "Large Scale Distributed Deep
Networks", 2012). All bytes of all workers pass through one process, which is why the time of a step grows
with their number.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[np.float32]
PUSH, START, STOP = 1, 2, 3
POLL_S = 2e-5  # the server sleeps between looks, so that it does not keep a worker from a core


class Worker:
    """One training process; the server is the last rank."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._world = MPI.COMM_WORLD
        self._server = MPI.COMM_WORLD.size - 1

    def start(self, parameters: Flat) -> None:
        """Tell the server what training begins with; the first worker's count."""
        self._world.Send(parameters, self._server, START)

    def exchange(self, gradients: Flat, parameters: Flat) -> None:
        """Send gradients, and receive the parameters that follow from them."""
        self._world.Send(gradients, self._server, PUSH)
        self._world.Recv(parameters, self._server)

    def stop(self) -> None:
        self._world.Send(np.empty(0, np.float32), self._server, STOP)


class Server:
    """Arrays are told apart by their length; each has parameters of its own."""

    def __init__(self, synchronous: bool, learning_rate: float) -> None:
        from mpi4py import MPI

        self._mpi, self._world = MPI, MPI.COMM_WORLD
        self._workers = MPI.COMM_WORLD.size - 1
        self._synchronous, self._learning_rate = synchronous, learning_rate
        self._parameters: dict[int, Flat] = {}
        self._sums: dict[int, Flat] = {}
        self._waiting: list[int] = []  # synchronous: whose gradients are in the sum

    def serve(self) -> None:
        """Answer until every worker has stopped."""
        active = self._workers
        while active:
            status = self._next()
            values = np.empty(status.Get_count(self._mpi.FLOAT), np.float32)
            self._world.Recv(values, status.Get_source(), status.Get_tag())
            if status.Get_tag() == PUSH:
                self._push(status.Get_source(), values)
            elif status.Get_tag() == START:
                self._parameters.setdefault(values.size, values)
            else:
                active -= 1

    def _next(self) -> Any:
        status = self._mpi.Status()
        while not self._world.Iprobe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG, status):
            time.sleep(POLL_S)
        return status

    def _push(self, worker: int, gradients: Flat) -> None:
        size = gradients.size
        if not self._synchronous:
            self._apply(size, gradients)
            self._world.Send(self._parameters[size], worker)
            return
        if self._waiting:
            self._sums[size] += gradients
        else:
            self._sums[size] = gradients
        self._waiting.append(worker)
        if len(self._waiting) == self._workers:
            self._sums[size] /= self._workers
            self._apply(size, self._sums[size])
            requests = [self._world.Isend(self._parameters[size], each) for each in self._waiting]
            self._mpi.Request.Waitall(requests)
            self._waiting.clear()

    def _apply(self, size: int, gradients: Flat) -> None:
        parameters = self._parameters.setdefault(size, np.zeros(size, np.float32))
        gradients *= self._learning_rate
        parameters -= gradients
