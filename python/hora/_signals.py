"""Being asked to stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import numpy as np

from hora import _core
from hora._arguments import Max
from hora._ops import Collectives
from hora.numpy.adapter import NumpyAdapter

__all__ = ["stop_requested"]

_collectives = Collectives(NumpyAdapter())


class StopSignals:
    """Notes the first SIGTERM or SIGINT; whatever handled these before gets the second."""

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self._before: dict[int, object] = {}
        self.has_come = False

    def watch(self) -> None:
        """Begin to; only the main thread can."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        self._before = {number: signal.signal(number, self._on_signal) for number in self.SIGNALS}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        usual = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler)
        for each, before in self._before.items():
            if before is not None:  # of a library that is not Python
                signal.signal(each, before)  # type: ignore[arg-type]
        _core.renew_last_signal()
        before = self._before[number]
        if callable(before) and before not in usual:
            before(number, frame)


_stop_signals = StopSignals()


def stop_requested() -> bool:
    """Say whether some rank has got SIGTERM or SIGINT: the same on all ranks, which all call this.

    Ask it once in every step: from the first call on, the first of these signals does no more than make this
    return True, so that the ranks can leave their loop in the same step, write a checkpoint and end in order.
    A second signal does what the first would have done otherwise. A handler that the program had installed
    before runs too. It costs one small allreduce.

    Raises
    ------
    HorovodInternalError
        If a rank has been lost.
    NotInitializedError
        Before :func:`init`.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.stop_requested()
    False
    """
    _stop_signals.watch()
    if _core.size() == 1:
        return _stop_signals.has_come
    flag = np.array([_stop_signals.has_come], np.uint8)
    return bool(_collectives.allreduce(flag, op=Max, name="hora.stop_requested")[0])
