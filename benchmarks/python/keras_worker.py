"""One rank that trains a network of Keras on TensorFlow; does what training_worker.py does for PyTorch."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from launch import rank_and_size
from shared_page import SharedPage
from timing import time_calls

LEARNING_RATE = 0.01
BATCH, WIDTH = 32, 64


def tensors100() -> keras.Model:
    """Little to compute and 100 gradients of at most 16 KiB."""
    hidden = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(50)]
    return keras.Sequential([keras.layers.Input((WIDTH,)), *hidden])


WORKLOADS: dict[str, Callable[[], keras.Model]] = {"tensors100": tensors100}


class Local:
    """Independent processes, no library."""

    def wrap(self, optimizer: Any) -> Any:
        """Return what takes the place of the optimizer."""
        return optimizer

    def close(self) -> None:
        """Leave the job."""


class Idle(Local):
    """As independent processes, but hora is initialised."""

    def __init__(self) -> None:
        import hora.keras

        self._hvd = hora.keras
        self._hvd.init()

    def close(self) -> None:
        self._hvd.shutdown()


class Hora(Idle):
    """Gradients are averaged."""

    def wrap(self, optimizer: Any) -> Any:
        return self._hvd.DistributedOptimizer(optimizer)


TRAINERS: dict[str, Callable[[], Local]] = {"independent": Local, "idle": Idle, "hora": Hora}


def make_step(trainer: Local, workload: str) -> Callable[[], object]:
    """Return what `model.fit` calls for a batch; all do without XLA, which has no collectives."""
    keras.utils.set_random_seed(1)
    model = WORKLOADS[workload]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(trainer.wrap(keras.optimizers.SGD(LEARNING_RATE)), loss, jit_compile=False)
    draw = np.random.default_rng(1)
    data = draw.normal(size=(BATCH, WIDTH)).astype(np.float32), draw.integers(WIDTH, size=BATCH)
    batches = iter(tf.data.Dataset.from_tensors(data).repeat())
    model.make_train_function()
    return lambda: model.train_function(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", choices=TRAINERS, required=True)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    folder = Path(os.environ["HORA_BENCH_FOLDER"])
    rank, size = rank_and_size()
    trainer = TRAINERS[options.contender]()
    page = SharedPage(folder / "page", rank, size)
    step = make_step(trainer, options.workload)
    step()  # builds the function
    one_way_us = page.one_way_us()
    page.barrier()
    result = {"step_s": time_calls(step, options.steps), "one_way_us": one_way_us, "exchange_s": []}
    page.barrier()
    (folder / f"{rank}.json").write_text(json.dumps(result))
    page.barrier()
    trainer.close()


if __name__ == "__main__":
    main()
