"""Train a small convolutional network on Fashion-MNIST with Keras, alone or on many ranks.

    python examples/keras_fashion_mnist.py
    mpirun -np 2 --bind-to none python examples/keras_fashion_mnist.py --threads 1

The batch size is that of all ranks together. Each rank has its share of the images, and
`DistributedOptimizer` averages the gradients. With KERAS_BACKEND=torch it trains on PyTorch.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import fashion_mnist
import keras
import numpy as np

import hora.keras as hvd

EVALUATION_BATCH = 1000


def build_network() -> keras.Model:
    """Return the usual two convolutions and two dense layers, 47 thousand weights."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Rescaling(
                1 / (255 * fashion_mnist.DEVIATION), -fashion_mnist.MEAN / fashion_mnist.DEVIATION
            ),
            layers.Conv2D(16, 5, activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(32, 5, activation="relu"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


class Report(keras.callbacks.Callback):
    """Measures epochs, without their validation, and prints a line for each on rank 0."""

    def __init__(self, images: int, epochs: int) -> None:
        super().__init__()
        self.images = images
        self.epochs = epochs
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        hvd.barrier()
        self._start = time.perf_counter()

    def on_test_begin(self, logs: Any = None) -> None:
        self.seconds.append(time.perf_counter() - self._start)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if hvd.rank() == 0:
            figures = logs["loss"], logs["val_accuracy"], self.seconds[-1]
            print(fashion_mnist.epoch_line(epoch + 1, self.epochs, *figures, self.images), flush=True)


def read_share(options: argparse.Namespace, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return this rank's images and labels: as many on every rank, so that all take the same steps."""
    images, labels = fashion_mnist.read_part(options.data, part, options.images)
    count = len(labels) // hvd.size()
    share = slice(hvd.rank(), count * hvd.size(), hvd.size())
    return images[share, ..., np.newaxis], labels[share]


def make_callbacks(options: argparse.Namespace, report: Report) -> list[Any]:
    """Return what `fit` calls, in this order: what comes after the averages sees the averages."""
    rate = options.base_lr * options.batch_size / fashion_mnist.BASE_BATCH
    warmup = int(options.warmup_epochs)
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup),
        hvd.callbacks.LearningRateScheduleCallback(
            1.0,
            lambda epoch: fashion_mnist.learning_rate(epoch, options),
            start_epoch=warmup,
            staircase=False,
        ),
        report,
    ]
    if hvd.rank() == 0 and options.checkpoint:
        callbacks.append(keras.callbacks.ModelCheckpoint(options.checkpoint / "epoch-{epoch:04d}.keras"))
    return callbacks


def load_or_build(options: argparse.Namespace) -> tuple[keras.Model, int]:
    """Return a compiled model and the epochs that it has been trained: rank 0 looks for a checkpoint."""
    found = sorted(options.checkpoint.glob("epoch-*.keras")) if options.checkpoint else []
    newest = hvd.broadcast_object(found[-1] if found else None, root_rank=0, name="newest")
    if newest:
        if hvd.rank() == 0:
            print(f"resumed from {newest}", flush=True)
        return hvd.load_model(newest), int(newest.stem.removeprefix("epoch-"))
    keras.utils.set_random_seed(options.seed)
    model = build_network()
    model.compile(
        hvd.DistributedOptimizer(keras.optimizers.SGD(options.base_lr, momentum=0.9)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model, 0


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Train to the end and return what was measured."""
    model, epochs_done = load_or_build(options)
    images, labels = read_share(options, "train")
    keras.utils.set_random_seed(1000 * options.seed + hvd.rank())  # ranks shuffle in different ways
    report = Report(len(labels) * hvd.size(), options.epochs)
    test_set = read_share(options, "t10k")
    history = model.fit(
        images,
        labels,
        batch_size=options.batch_size // hvd.size(),
        epochs=options.epochs,
        initial_epoch=epochs_done,
        validation_data=test_set,
        validation_batch_size=EVALUATION_BATCH,
        verbose=0,
        callbacks=make_callbacks(options, report),
    ).history
    seconds = float(np.mean(report.seconds)) if report.seconds else 0.0
    digests = hvd.allgather_object(fashion_mnist.digest(model.get_weights()), name="weights_digest")
    return {
        "ranks": hvd.size(),
        "threads": options.threads,
        "epochs": options.epochs,
        "images_per_second": report.images / seconds if seconds else 0.0,
        "seconds_per_epoch": seconds,
        "test_accuracy": history["val_accuracy"][-1] if history else 0.0,
        "weights_equal": len(set(digests)) == 1,
    }


def set_threads(threads: int) -> None:
    """Tell the backend how many threads this rank has."""
    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(threads)
    else:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def main() -> None:
    hvd.init()
    parser = fashion_mnist.make_parser("Train a small network on Fashion-MNIST with Keras.")
    parser.add_argument(
        "--checkpoint", type=Path, help="folder for a file per epoch, resumed from if any is there"
    )
    options = fashion_mnist.parse(parser, hvd.size())
    options.threads = options.threads or max(1, len(os.sched_getaffinity(0)) // hvd.local_size())
    set_threads(options.threads)
    fashion_mnist.report(train(options), options.json, writes=hvd.rank() == 0)


if __name__ == "__main__":
    main()
