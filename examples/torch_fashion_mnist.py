"""Train a small convolutional network on Fashion-MNIST, alone or on many ranks.

    python examples/torch_fashion_mnist.py
    mpirun -np 2 --bind-to none python examples/torch_fashion_mnist.py --threads 1

The batch size is that of all ranks together, so both commands take the same steps on the same images: the
sampler deals every global batch out over the ranks, and `DistributedOptimizer` averages the gradients of the
shares.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fashion_mnist
import numpy as np
import torch
import torch.nn.functional as functional
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import hora.torch as hvd

EVALUATION_BATCH = 1000


class FashionMnist(Dataset[tuple[Tensor, Tensor]]):
    """Images and labels of one part ("train" or "t10k"), kept in memory as bytes and normalised when read."""

    def __init__(self, folder: Path, part: str, limit: int | None = None) -> None:
        images, labels = fashion_mnist.read_part(folder, part, limit)
        self.images = torch.from_numpy(images[:, np.newaxis])
        self.labels = torch.from_numpy(labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        images, labels = self.__getitems__([index])
        return images[0], labels[0]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Return a whole batch, which the loader asks for when this method exists."""
        chosen = torch.tensor(indices)
        pixels = self.images[chosen].float() / 255.0
        return (pixels - fashion_mnist.MEAN) / fashion_mnist.DEVIATION, self.labels[chosen]


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
                group["lr"] = fashion_mnist.learning_rate(epoch + step / len(self.loader), self.options)
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
        digest = fashion_mnist.digest(value.cpu().numpy() for value in self.model.state_dict().values())
        return len(set(hvd.allgather_object(digest, name="weights_digest"))) == 1


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
                figures = loss, accuracy, seconds[-1], len(trainer.train_set)
                line = fashion_mnist.epoch_line(epoch + 1, options.epochs, *figures)
                progress.console.print(line, highlight=False, soft_wrap=True)
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


def parse_options() -> argparse.Namespace:
    parser = fashion_mnist.make_parser("Train a small network on Fashion-MNIST, alone or under mpirun.")
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: this rank's GPU, once hora reduces on GPUs",
    )
    parser.add_argument(
        "--checkpoint", type=Path, help="folder for a file per epoch; resumed from if any is there"
    )
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, default=True, help="show a bar on a terminal"
    )
    return fashion_mnist.parse(parser, hvd.size())


def main() -> None:
    hvd.init()
    options = parse_options()
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) // hvd.local_size()))
    fashion_mnist.report(train(options), options.json, writes=hvd.rank() == 0)


if __name__ == "__main__":
    main()
