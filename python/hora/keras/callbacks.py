"""Callbacks for ``model.fit``: one state at the start, one value of every metric, learning rates, files.

Examples
--------
>>> import keras
>>> import hora.keras as hvd
>>> from hora.keras.callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback
>>> hvd.init()
>>> model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
>>> model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 * hvd.size())), "mse")
>>> callbacks = [BroadcastGlobalVariablesCallback(0), MetricAverageCallback()]
>>> history = model.fit(keras.ops.ones((8, 2)), keras.ops.ones(8), verbose=0, callbacks=callbacks)
>>> list(history.history)
['loss']
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

import hora.numpy as collectives
from hora import _core
from hora._arguments import Min
from hora._objects import allgather_object
from hora.keras.learning_rate import LearningRateScheduleCallback, LearningRateWarmupCallback
from hora.keras.reducing import local_variables_of
from hora.keras.state import broadcast_variables, identity, slots_of

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

Logs = dict[str, Any] | None


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Give all ranks the root's weights and optimizer state before the first step.

    Where a model is not built before its first batch, as one without ``Input`` layer on TensorFlow, this is
    done after that batch. Random seeds and metrics stay each rank's own, and so do local variables, those
    given here and those of the optimizer, with what the optimizer keeps for them. All ranks take part,
    whatever process set the optimizer has.

    Parameters
    ----------
    root_rank : int
        Whose state all ranks get, such as one that has loaded a checkpoint.
    device : str
        Accepted as in Horovod.
    local_variables : iterable of variables, optional
        Those that stay each rank's own.

    Raises
    ------
    HorovodInternalError, tf.errors.FailedPreconditionError
        When training begins, on all ranks, if their models differ.

    Examples
    --------
    >>> from hora.keras.callbacks import BroadcastGlobalVariablesCallback
    >>> callback = BroadcastGlobalVariablesCallback(root_rank=0)
    """

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None
    ) -> None:
        super().__init__()
        self.root_rank = root_rank
        self._local = list(local_variables or ())
        self._waits = False

    def register_local_var(self, var: Any) -> None:
        """Leave a variable as this rank has it."""
        self._local.append(var)

    def on_train_begin(self, logs: Logs = None) -> None:
        """Broadcast, if the model is built on all ranks."""
        built = all(layer.built for layer in self.model._flatten_layers())
        self._waits = not collectives.allreduce(np.array(built), op=Min)
        if not self._waits:
            self._broadcast()

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Broadcast after the first batch, if it built the model."""
        if batch > 0:
            self._broadcast_now_at_last()

    def on_test_begin(self, logs: Logs = None) -> None:
        """Broadcast before a validation that follows the first batch."""
        self._broadcast_now_at_last()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Broadcast after an epoch of one batch."""
        self._broadcast_now_at_last()

    def _broadcast_now_at_last(self) -> None:
        if self._waits:
            self._waits = False
            self._broadcast()

    def _broadcast(self) -> None:
        variables = list(self.model.weights)
        optimizer = self.model.optimizer
        local = list(self._local)
        if optimizer is not None:
            if not optimizer.built:
                optimizer.build(self.model.trainable_variables)
            variables += optimizer.variables
            local += local_variables_of(optimizer)
            local += slots_of(optimizer, local)
        kept = set(map(identity, local))
        broadcast_variables([each for each in variables if identity(each) not in kept], self.root_rank)


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Replace the metrics of an epoch by their averages over all ranks, those of validation too.

    Callbacks that follow it in the list, the history and the progress bar see the averages, which are equal
    on all ranks. Each rank counts as much, however many samples it has seen. All ranks take part, whatever
    process set the optimizer has.

    Parameters
    ----------
    device : str
        Accepted as in Horovod.

    Raises
    ------
    ValueError
        On all ranks, at the end of an epoch, if they do not have the same metrics.

    Examples
    --------
    >>> from hora.keras.callbacks import MetricAverageCallback
    >>> logs = {"loss": 0.5}
    >>> MetricAverageCallback().on_epoch_end(0, logs)
    >>> logs
    {'loss': 0.5}
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Average the logs in place."""
        own = {} if logs is None else {name: np.asarray(value, np.float64) for name, value in logs.items()}
        everyone = allgather_object(own)
        for rank, theirs in enumerate(everyone):
            if theirs.keys() != everyone[0].keys():
                raise ValueError(
                    f"MetricAverageCallback: rank {rank} has the metrics {sorted(theirs)}, rank 0 "
                    f"{sorted(everyone[0])}; all ranks need the same, those of validation too"
                )
        for name in own:
            assert logs is not None
            mean = np.mean([theirs[name] for theirs in everyone], axis=0)
            logs[name] = mean if mean.ndim else float(mean)


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Write the model on rank 0 whenever a metric is better than ever before.

    Put it after :class:`MetricAverageCallback`, so that the metric is that of all ranks.

    Parameters
    ----------
    monitor : str
        The metric.
    verbose : int
        Above 0, rank 0 says when it writes.
    mode : str
        ``min``, ``max``, or ``auto``, which goes by the metric.
    save_freq : int or str
        ``epoch``, or after how many batches to look.
    save_weights_only : bool
        Write weights, not the whole model.
    filepath : str or path, optional
        Where to, as for ``keras.callbacks.ModelCheckpoint``. May be set as an attribute later, before
        training.

    Raises
    ------
    ValueError
        When training begins, if there is no ``filepath``, or it has another ending than ``.keras`` or, with
        ``save_weights_only``, ``.weights.h5``.

    Examples
    --------
    >>> from hora.keras.callbacks import BestModelCheckpoint
    >>> callback = BestModelCheckpoint(monitor="val_accuracy", filepath="best.keras")
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: int | str = "epoch",
        save_weights_only: bool = False,
        filepath: Any = None,
    ) -> None:
        self._ending = ".weights.h5" if save_weights_only else ".keras"
        super().__init__(
            f"unnamed{self._ending}" if filepath is None else filepath,
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        if filepath is None:
            self.filepath: Any = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Refuse to go on without a name that will do."""
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint has no filepath")
        self.filepath = os.fspath(self.filepath)
        if not self.filepath.endswith(self._ending):
            raise ValueError(
                f"BestModelCheckpoint: the filepath {self.filepath!r} must end in {self._ending!r}"
            )
        super().on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Write on rank 0."""
        if _core.rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write on rank 0."""
        if _core.rank() == 0:
            super().on_epoch_end(epoch, logs)
