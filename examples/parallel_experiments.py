"""Many experiments at once: each rank takes combinations of hyperparameters, all results meet in one table.

    mpirun -np 4 --bind-to none python examples/parallel_experiments.py

``launch(map_fun, args_dict)`` may be used from other scripts as well.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import hora.torch as hvd

Row = dict[str, Any]


def launch(map_fun: Callable[..., Any], args_dict: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Call a function once for every combination of arguments, spread over the ranks.

    Parameters
    ----------
    map_fun : callable
        Called with one value of each argument, by keyword; returns a number, or a dict of several results.
    args_dict : mapping of str to sequence
        The values of each argument; every rank passes the same.

    Returns
    -------
    list of dict
        On every rank, a row for each combination in the order of ``itertools.product``: the arguments, the
        results (a single one is called ``result``), the ``rank`` that ran it, and ``error``, which is None
        or the text of the exception that ended it. A combination that fails does not stop the others.
    """
    combinations = [
        dict(zip(args_dict, values, strict=True)) for values in itertools.product(*args_dict.values())
    ]
    mine = range(hvd.rank(), len(combinations), hvd.size())
    done = {index: run(map_fun, combinations[index]) for index in mine}
    rows: dict[int, Row] = {}
    for each in hvd.allgather_object(done):
        rows.update(each)
    return [rows[index] for index in range(len(combinations))]


def run(map_fun: Callable[..., Any], arguments: Row) -> Row:
    """Return the table's row of one combination."""
    row = {**arguments, "rank": hvd.rank(), "error": None}
    try:
        result = map_fun(**arguments)
    except Exception as error:
        return {**row, "error": f"{type(error).__name__}: {error}"}
    return {**row, **(result if isinstance(result, dict) else {"result": result})}


def table(rows: list[Row]) -> str:
    """Return the rows as text, in columns."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([text(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(lines)


def text(value: object) -> str:
    """Return a cell's text."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def train(lr: float, hidden: int, steps: int) -> Row:
    """Train one small model, without any other rank."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loss = torch.zeros(())
    for _ in range(steps):
        points = torch.rand(64, 2)
        optimizer.zero_grad()
        loss = (model(points) - (6 * points).sin().prod(dim=1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    return {"loss": float(loss), "parameters": sum(each.numel() for each in model.parameters())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, nargs="+", default=[0.001, 0.01, 0.1])
    parser.add_argument("--hidden", type=int, nargs="+", default=[4, 32])
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    rows = launch(train, {"lr": options.lr, "hidden": options.hidden, "steps": [options.steps]})
    if hvd.rank() == 0:
        print(table(rows))
        finished = [row for row in rows if row["error"] is None]
        if finished:
            best = min(finished, key=lambda row: row["loss"])
            print(f"best: lr {best['lr']}, {best['hidden']} hidden units, loss {best['loss']:.4g}")


if __name__ == "__main__":
    main()
