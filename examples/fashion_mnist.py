"""What the examples on Fashion-MNIST share: images, the learning rate, options and what they report."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

DEFAULT_DATA = Path("/usr/share/datasets/fashion-mnist")
BASE_BATCH = 64  # the batch size for which --base-lr was found
MEAN, DEVIATION = 0.286, 0.353  # of a pixel between 0 and 1

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def read_part(folder: Path, part: str, limit: int | None = None) -> tuple[Bytes, Bytes]:
    """Return images, 28 x 28 bytes each, and labels of one part ("train" or "t10k")."""
    images = _read_idx(folder / f"{part}-images-idx3-ubyte.gz", header_bytes=16).reshape(-1, 28, 28)
    labels = _read_idx(folder / f"{part}-labels-idx1-ubyte.gz", header_bytes=8)
    return images[:limit].copy(), labels[:limit].copy()


def _read_idx(path: Path, header_bytes: int) -> Bytes:
    try:
        with gzip.open(path) as file:
            return np.frombuffer(file.read(), np.uint8, offset=header_bytes)
    except FileNotFoundError:
        sys.exit(
            f"{path} is missing: install Debian's package dataset-fashion-mnist or name a folder with --data"
        )


def learning_rate(epoch: float, options: argparse.Namespace) -> float:
    """Return the rate at a point of the training, given in epochs with fractions.

    The linear scaling rule: a k times larger batch is trained with a k times larger rate, reached gradually
    from the base rate during the warm-up (Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in
    1 Hour", 2017, arXiv:1706.02677, sections 2.1 and 2.2). After the warm-up it falls along half a cosine.
    """
    scale = options.batch_size / BASE_BATCH
    if epoch < options.warmup_epochs:
        return float(options.base_lr * (1 + (scale - 1) * epoch / options.warmup_epochs))
    left = (options.epochs - epoch) / max(options.epochs - options.warmup_epochs, 1e-9)
    return float(options.base_lr * scale * 0.5 * (1 - math.cos(math.pi * min(left, 1.0))))


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all examples have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128, help="images per step of ALL ranks together")
    parser.add_argument(
        "--base-lr", type=float, default=0.025, help=f"learning rate at batch size {BASE_BATCH}"
    )
    parser.add_argument("--warmup-epochs", type=float, default=1.0)
    parser.add_argument(
        "--threads", type=int, help="threads of each rank (default: its fair share of the cores)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with the four .gz files")
    parser.add_argument("--images", type=int, help="use only so many images of each part")
    parser.add_argument("--json", type=Path, help="file to write the measured figures to")
    return parser


def parse(parser: argparse.ArgumentParser, ranks: int) -> argparse.Namespace:
    """Return the options, if they fit the number of ranks."""
    options = parser.parse_args()
    if options.batch_size < 1 or options.batch_size % ranks:
        parser.error(f"--batch-size {options.batch_size} cannot be split evenly over {ranks} ranks")
    return options


def epoch_line(epoch: int, epochs: int, loss: float, accuracy: float, seconds: float, images: int) -> str:
    """Return what is printed after an epoch."""
    return (
        f"epoch {epoch}/{epochs}: loss {loss:.4f}, test accuracy {accuracy:.4f}, "
        f"{seconds:.1f} s, {images / seconds:.0f} images/s"
    )


def digest(weights: Iterable[np.ndarray[Any, Any]]) -> str:
    """Return a digest of a model's weights, to compare those of ranks to the last bit."""
    found = hashlib.sha256()
    for each in weights:
        found.update(np.ascontiguousarray(each).tobytes())
    return found.hexdigest()


def report(figures: dict[str, Any], path: Path | None, writes: bool) -> None:
    """Write the figures where a file is named, and end with an error if the weights are not equal."""
    if path and writes:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n")
    if not figures["weights_equal"]:
        sys.exit("the ranks ended with different weights")
