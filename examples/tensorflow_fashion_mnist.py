"""Train a small convolutional network on Fashion-MNIST with a loop of TensorFlow, alone or on many ranks.

    python examples/tensorflow_fashion_mnist.py
    mpirun -np 2 --bind-to none python examples/tensorflow_fashion_mnist.py --threads 1

The batch size is that of all ranks together, so both commands take the same steps on the same images: every
global batch is dealt out over the ranks, and `DistributedGradientTape` averages the gradients of the shares.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import fashion_mnist
import numpy as np
import tensorflow as tf

import hora.tensorflow as hvd

EVALUATION_BATCH = 1000


def build_network() -> tf.keras.Model:
    """Return the usual two convolutions and two dense layers, 47 thousand weights."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(16, 5, activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(32, 5, activation="relu"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def normalised(images: fashion_mnist.Bytes) -> tf.Tensor:
    """Return a batch of images as the network takes them."""
    pixels = tf.cast(images[..., np.newaxis], tf.float32) / 255.0
    return (pixels - fashion_mnist.MEAN) / fashion_mnist.DEVIATION


class Trainer:
    """The network, its optimizer and its data on one rank."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.train_set = fashion_mnist.read_part(options.data, "train", options.images)
        self.test_set = fashion_mnist.read_part(options.data, "t10k", options.images)
        self.steps = len(self.train_set[1]) // options.batch_size
        tf.keras.utils.set_random_seed(options.seed)
        self.model = build_network()
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.optimizer = tf.keras.optimizers.SGD(options.base_lr, momentum=0.9)
        self.optimizer.build(self.model.trainable_variables)
        hvd.broadcast_variables(self.model.variables + self.optimizer.variables, root_rank=0)

    def batches(self, epoch: int) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Yield this rank's share of every global batch, which all ranks draw alike."""
        order = np.random.default_rng([self.options.seed, epoch]).permutation(len(self.train_set[1]))
        for step in range(self.steps):
            batch = order[step * self.options.batch_size : (step + 1) * self.options.batch_size]
            share = batch[hvd.rank() :: hvd.size()]
            yield normalised(self.train_set[0][share]), tf.constant(self.train_set[1][share])

    @tf.function  # type: ignore[untyped-decorator]
    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Train on a batch and return the loss of this rank's share."""
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def train_epoch(self, epoch: int) -> float:
        """Train on every image once and return the loss, averaged over steps and ranks."""
        total = tf.constant(0.0)
        for step, (images, labels) in enumerate(self.batches(epoch)):
            self.optimizer.learning_rate = fashion_mnist.learning_rate(
                epoch + step / self.steps, self.options
            )
            total += self.train_step(images, labels)
        return float(hvd.allreduce(total / self.steps, name="train_loss"))

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def correct(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Return how many images of a batch are recognised."""
        found = tf.argmax(self.model(images, training=False), axis=1, output_type=tf.int32)
        return tf.math.count_nonzero(found == tf.cast(labels, tf.int32))

    def evaluate(self) -> float:
        """Return the accuracy on the test images, of which every rank looks at its share."""
        images, labels = (each[hvd.rank() :: hvd.size()] for each in self.test_set)
        correct = 0
        for start in range(0, len(labels), EVALUATION_BATCH):
            batch = slice(start, start + EVALUATION_BATCH)
            correct += int(self.correct(normalised(images[batch]), labels[batch]))
        total = hvd.allreduce(tf.constant(correct), name="test_correct", op=hvd.Sum)
        return int(total) / len(self.test_set[1])

    def weights_equal(self) -> bool:
        """Tell whether all ranks hold the same weights to the last bit."""
        digest = fashion_mnist.digest(self.model.get_weights())
        return len(set(hvd.allgather_object(digest, name="weights_digest"))) == 1


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Train to the end and return what was measured."""
    trainer = Trainer(options)
    seconds, accuracy = 0.0, 0.0
    images = trainer.steps * options.batch_size
    for epoch in range(options.epochs):
        hvd.barrier()
        start = time.perf_counter()
        loss = trainer.train_epoch(epoch)
        took = time.perf_counter() - start
        seconds += took
        accuracy = trainer.evaluate()
        if hvd.rank() == 0:
            line = fashion_mnist.epoch_line(epoch + 1, options.epochs, loss, accuracy, took, images)
            print(line, flush=True)
    return {
        "ranks": hvd.size(),
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "epochs": options.epochs,
        "images_per_second": images * options.epochs / seconds,
        "seconds_per_epoch": seconds / options.epochs,
        "test_accuracy": accuracy,
        "weights_equal": trainer.weights_equal(),
    }


def main() -> None:
    hvd.init()
    parser = fashion_mnist.make_parser("Train a small network on Fashion-MNIST with a loop of TensorFlow.")
    options = fashion_mnist.parse(parser, hvd.size())
    threads = options.threads or max(1, len(os.sched_getaffinity(0)) // hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    fashion_mnist.report(train(options), options.json, writes=hvd.rank() == 0)


if __name__ == "__main__":
    main()
