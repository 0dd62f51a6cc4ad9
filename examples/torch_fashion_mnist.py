"""Train a small convolutional network on Fashion-MNIST, alone or on many ranks.

    python examples/torch_fashion_mnist.py
    mpirun -np 2 --bind-to none python examples/torch_fashion_mnist.py --threads 1

The batch size is that of all ranks together, so both commands take the same steps on the same images: the
sampler deals every global batch out over the ranks, and `DistributedOptimizer` averages the gradients of the
shares.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import hora.torch as hvd

DEFAULT_DATA = Path("/usr/share/datasets/fashion-mnist")
BASE_BATCH = 64  # the batch size for which --base-lr was found
EVALUATION_BATCH = 1000


class FashionMnist(Dataset[tuple[Tensor, Tensor]]):
    """Images and labels of one part ("train" or "t10k"), kept in memory as bytes and normalised when read."""

    def __init__(self, folder: Path, part: str, limit: int | None = None) -> None:
        images = _read_idx(folder / f"{part}-images-idx3-ubyte.gz", header_bytes=16).reshape(-1, 1, 28, 28)
        labels = _read_idx(folder / f"{part}-labels-idx1-ubyte.gz", header_bytes=8)
        self.images = torch.from_numpy(images[:limit].copy())
        self.labels = torch.from_numpy(labels[:limit].astype(np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        images, labels = self.__getitems__([index])
        return images[0], labels[0]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Return a whole batch, which the loader asks for when this method exists."""
        chosen = torch.tensor(indices)
        return (self.images[chosen].float() / 255.0 - 0.286) / 0.353, self.labels[chosen]


def _read_idx(path: Path, header_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    try:
        with gzip.open(path) as file:
            return np.frombuffer(file.read(), np.uint8, offset=header_bytes)
    except FileNotFoundError:
        sys.exit(
            f"{path} is missing: install Debian's package dataset-fashion-mnist or name a folder with --data"
        )


def build_network() -> nn.Sequential:
    """Return the usual two convolutions and two linear layers, 47 thousand weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, kernel_size=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
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


@contextmanager
def progress_bar(steps: int, shown: bool) -> Iterator[Progress]:
    """Show one bar for the whole job, where somebody can see it."""
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not shown or not console.is_terminal) as progress:
        progress.add_task("training", total=steps)
        yield progress


class Trainer:
    """The network, its optimizer and its data on one rank."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = choose_device(options.device)
        torch.manual_seed(options.seed)
        self.train_set = FashionMnist(options.data, "train", options.images)
        self.test_set = FashionMnist(options.data, "t10k", options.images)
        self.sampler: DistributedSampler[tuple[Tensor, Tensor]] = DistributedSampler(
            self.train_set, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=True, seed=options.seed
        )
        self.loader = DataLoader(
            self.train_set,
            batch_size=options.batch_size // hvd.size(),
            sampler=self.sampler,
            collate_fn=lambda batch: batch,
        )
        self.model = build_network().to(self.device)
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.model.parameters(), lr=options.base_lr, momentum=0.9),
            named_parameters=self.model.named_parameters(),
        )

    def resume(self) -> int:
        """Load the newest checkpoint on rank 0, give its state to all, and return the epochs already done."""
        epochs_done = 0
        if hvd.rank() == 0 and self.options.checkpoint:
            found = sorted(self.options.checkpoint.glob("epoch-*.pt"))
            if found:
                state = torch.load(found[-1], map_location=self.device, weights_only=True)
                self.model.load_state_dict(state["model"])
                self.optimizer.load_state_dict(state["optimizer"])
                epochs_done = int(state["epochs_done"])
                print(f"resumed from {found[-1]}", flush=True)
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)
        return int(hvd.broadcast_object(epochs_done, root_rank=0, name="epochs_done"))

    def save(self, epochs_done: int) -> None:
        """Write a checkpoint on rank 0, complete or not at all."""
        if hvd.rank() != 0 or not self.options.checkpoint:
            return
        self.options.checkpoint.mkdir(parents=True, exist_ok=True)
        path = self.options.checkpoint / f"epoch-{epochs_done:04d}.pt"
        state = {
            "epochs_done": epochs_done,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, path.with_suffix(".partial"))
        os.replace(path.with_suffix(".partial"), path)

    def train_epoch(self, epoch: int, progress: Progress) -> float:
        """Train on every image once and return the loss, averaged over steps and ranks."""
        self.model.train()
        self.sampler.set_epoch(epoch)
        total = 0.0
        for step, (images, labels) in enumerate(self.loader):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(epoch + step / len(self.loader), self.options)
            self.optimizer.zero_grad()
            output = self.model(images.to(self.device, memory_format=torch.channels_last))
            loss = functional.cross_entropy(output, labels.to(self.device))
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total += loss.item()
            progress.advance(progress.task_ids[0])
        return float(hvd.allreduce(torch.tensor(total / len(self.loader)), name="train_loss"))

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the accuracy on the test images, of which every rank looks at its share."""
        self.model.eval()
        share = range(hvd.rank(), len(self.test_set), hvd.size())
        correct = 0
        for start in range(0, len(share), EVALUATION_BATCH):
            images, labels = self.test_set.__getitems__(list(share[start : start + EVALUATION_BATCH]))
            output = self.model(images.to(self.device, memory_format=torch.channels_last))
            correct += int((output.argmax(dim=1).cpu() == labels).sum())
        total = hvd.allreduce(torch.tensor(correct), name="test_correct", op=hvd.Sum)
        return int(total) / len(self.test_set)

    def weights_equal(self) -> bool:
        """Tell whether all ranks hold the same weights to the last bit."""
        digest = hashlib.sha256()
        for value in self.model.state_dict().values():
            digest.update(value.cpu().contiguous().numpy().tobytes())
        return len(set(hvd.allgather_object(digest.hexdigest(), name="weights_digest"))) == 1


def choose_device(wanted: str) -> torch.device:
    """Give this rank a GPU of its own where there is one, and return where to train."""
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    return torch.device(wanted)


def train(options: argparse.Namespace) -> dict[str, object]:
    """Train to the end and return what was measured."""
    trainer = Trainer(options)
    epochs_done = trainer.resume()
    accuracy = trainer.evaluate() if epochs_done >= options.epochs else 0.0
    seconds: list[float] = []
    steps = (options.epochs - epochs_done) * len(trainer.loader)
    with progress_bar(steps, shown=options.progress and hvd.rank() == 0) as progress:
        for epoch in range(epochs_done, options.epochs):
            hvd.barrier()
            start = time.perf_counter()
            loss = trainer.train_epoch(epoch, progress)
            seconds.append(time.perf_counter() - start)
            accuracy = trainer.evaluate()
            trainer.save(epoch + 1)
            if hvd.rank() == 0:
                progress.console.print(
                    f"epoch {epoch + 1}/{options.epochs}: loss {loss:.4f}, test accuracy {accuracy:.4f}, "
                    f"{seconds[-1]:.1f} s, {len(trainer.train_set) / seconds[-1]:.0f} images/s",
                    highlight=False,
                    soft_wrap=True,
                )
    mean_seconds = sum(seconds) / len(seconds) if seconds else 0.0
    return {
        "ranks": hvd.size(),
        "threads": torch.get_num_threads(),
        "epochs": options.epochs,
        "images_per_second": len(trainer.train_set) / mean_seconds if seconds else 0.0,
        "seconds_per_epoch": mean_seconds,
        "test_accuracy": accuracy,
        "weights_equal": trainer.weights_equal(),
    }


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a small network on Fashion-MNIST, alone or under mpirun.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
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
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: this rank's GPU, once hora reduces on GPUs",
    )
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with the four .gz files")
    parser.add_argument("--images", type=int, help="use only so many images of each part")
    parser.add_argument(
        "--checkpoint", type=Path, help="folder for a file per epoch; resumed from if any is there"
    )
    parser.add_argument("--json", type=Path, help="file to write the measured figures to")
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, default=True, help="show a bar on a terminal"
    )
    options = parser.parse_args(arguments)
    if options.batch_size < 1 or options.batch_size % hvd.size():
        parser.error(f"--batch-size {options.batch_size} cannot be split evenly over {hvd.size()} ranks")
    return options


def main() -> None:
    hvd.init()
    options = parse_options()
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) // hvd.local_size()))
    result = train(options)
    if hvd.rank() == 0 and options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if not result["weights_equal"]:
        sys.exit("the ranks ended with different weights")


if __name__ == "__main__":
    main()
