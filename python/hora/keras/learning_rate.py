"""Callbacks that change the learning rate from epoch to epoch, or from batch to batch.

Training with ``size`` ranks has a batch ``size`` times as large. Goyal et al., "Accurate, Large Minibatch
SGD: Training ImageNet in 1 Hour" (2017, arXiv:1706.02677), train it with a rate ``size`` times as large (the
linear scaling rule, section 2.1), which is reached gradually in the first epochs (section 2.2). Where an
optimizer's momentum holds updates that are already multiplied by the rate, it is multiplied by new rate / old
rate when the rate changes (momentum correction, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras

from hora import _core
from hora.keras.state import scale_variables

__all__ = ["LearningRateScheduleCallback", "LearningRateWarmupCallback"]

Logs = dict[str, Any] | None


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Set the learning rate to ``initial_lr`` times a multiplier.

    The rate at the end of an epoch is put into its logs as ``lr``.

    Parameters
    ----------
    initial_lr : float
        What is multiplied.
    multiplier : float or function
        A function gets the epoch, which has a fraction unless ``staircase``. A number makes a staircase.
    start_epoch, end_epoch : int
        The first epoch in which this callback sets the rate, and the first in which it does no more; without
        ``end_epoch`` it goes on.
    staircase : bool
        Set the rate once in an epoch; otherwise before every batch.
    momentum_correction : bool
        Multiply the momentum of ``SGD`` and ``RMSprop`` by new rate / old rate.
    steps_per_epoch : int, optional
        Batches of an epoch, for ``staircase=False`` where Keras does not know their number.

    Raises
    ------
    ValueError
        When training begins, if the optimizer has a schedule of its own, or the batches of an epoch are
        needed and not known.

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> from hora.keras.callbacks import LearningRateScheduleCallback
    >>> later = LearningRateScheduleCallback(0.1, multiplier=0.1, start_epoch=30, end_epoch=60)
    >>> falling = LearningRateScheduleCallback(0.1, lambda epoch: 0.9**epoch, staircase=False)
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self.initial_lr = initial_lr
        self.multiplier = multiplier
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase or not callable(multiplier)
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self._epoch = 0
        self._steps = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """Look at the optimizer and at the number of batches."""
        configured = self.model.optimizer.get_config().get("learning_rate")
        if isinstance(configured, dict):
            raise ValueError(
                f"{type(self).__name__} sets the learning rate, but the optimizer has a schedule of its own; "
                "give the optimizer a number"
            )
        if self.staircase:
            return
        self._steps = self.steps_per_epoch or self.params.get("steps") or 0
        if not self._steps:
            raise ValueError(
                f"{type(self).__name__} sets the rate before every batch and Keras does not know how many an "
                "epoch has; give it steps_per_epoch"
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Remember the epoch."""
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Set the rate."""
        if self._epoch < self.start_epoch or (self.end_epoch is not None and self._epoch >= self.end_epoch):
            return
        if not self.staircase:
            self._set_rate(self._epoch + batch / self._steps)
        elif batch == 0:
            self._set_rate(self._epoch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Log the rate."""
        if logs is not None:
            logs["lr"] = rate_of(self.model.optimizer)

    def _set_rate(self, epoch: float) -> None:
        factor = self.multiplier(epoch) if callable(self.multiplier) else self.multiplier
        optimizer = self.model.optimizer
        before = rate_of(optimizer)
        optimizer.learning_rate = self.initial_lr * factor
        after = rate_of(optimizer)
        if self.momentum_correction and before not in (0.0, after):
            scale_variables(momentum_of(optimizer), after / before)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raise the learning rate from ``initial_lr`` / size to ``initial_lr``, batch by batch.

    Parameters
    ----------
    initial_lr : float
        The rate at the end of the warm-up: usually that of one process times ``size()``.
    warmup_epochs : int or float
        How long the warm-up takes.
    momentum_correction, steps_per_epoch
        As for :class:`LearningRateScheduleCallback`.
    verbose : int
        Above 0, a line says when the warm-up is over.

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> from hora.keras.callbacks import LearningRateWarmupCallback
    >>> warmup = LearningRateWarmupCallback(initial_lr=0.1 * hvd.size(), warmup_epochs=3)
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # The last batch gets the full rate.
            done = min(1.0, (epoch + 1 / self._steps) / warmup_epochs)
            return (1 + done * (_core.size() - 1)) / _core.size()

        super().__init__(
            initial_lr,
            multiplier,
            end_epoch=math.ceil(warmup_epochs),
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Log the rate, and say when it has its full value."""
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and self.end_epoch is not None and epoch == self.end_epoch - 1:
            rate = rate_of(self.model.optimizer)
            print(f"\nEpoch {epoch + 1}: the learning rate has reached {rate:g} at the end of its warm-up.")


def rate_of(optimizer: Any) -> float:
    """Return the learning rate."""
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def momentum_of(optimizer: Any) -> list[Any]:
    """Return the variables with updates that are multiplied by the rate already.

    Variables that Keras overwrites, such as scales of float8, have no momentum.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if not inner.built:
        return []
    if isinstance(inner, keras.optimizers.SGD):
        return [each for each in inner.momentums if each is not None]
    if isinstance(inner, keras.optimizers.RMSprop):
        return [each for each in inner._momentums if each is not None]
    return []
