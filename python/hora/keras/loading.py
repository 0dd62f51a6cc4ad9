"""Loading a model so that its training goes on distributed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import keras

from hora.compression import Compressor, NoneCompressor
from hora.keras.optimizer import DistributedOptimizer

__all__ = ["load_model"]


def load_model(
    filepath: str | os.PathLike[str],
    custom_optimizers: Iterable[type[keras.optimizers.Optimizer]] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Compressor = NoneCompressor,
    legacy_opts: bool = False,
) -> keras.Model:
    """Load a model whose optimizer, with the state that was saved, averages its gradients over all ranks.

    Every rank calls it and reads the file. What was saved by any optimizer of Keras will do, made distributed
    or not.

    Parameters
    ----------
    filepath : path
        What ``model.save`` wrote, ``.keras`` or ``.h5``.
    custom_optimizers : iterable of classes, optional
        Optimizers besides those of Keras that the file may name.
    custom_objects : dict, optional
        Other classes and functions by the names that the file uses for them.
    compression : Compressor
        As for :func:`DistributedOptimizer`, whose other arguments have their defaults.
    legacy_opts : bool
        Must be False: Keras 3 has no legacy optimizers.

    Returns
    -------
    keras.Model
        The model; one that was saved without being compiled has no optimizer.

    Raises
    ------
    ValueError
        If the file cannot be read, or for ``legacy_opts=True``.
    NotInitializedError
        Before ``init()``.

    Examples
    --------
    >>> import keras, tempfile
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.5)), "mse")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.keras")
    ...     loaded = hvd.load_model(f"{folder}/model.keras")
    >>> float(loaded.optimizer.learning_rate)
    0.5
    """
    if legacy_opts:
        raise ValueError("Keras 3 has no legacy optimizers; leave out legacy_opts")
    objects = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})})
    if model.compiled and model.optimizer is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
