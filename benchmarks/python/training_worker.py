"""One rank of one contender: trains, times every step, leaves the times in a file; see training_runs.py."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from launch import rank_and_size
from models import WORKLOADS
from shared_page import SharedPage
from timing import time_calls
from trainers import SERVED, TRAINERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", choices=TRAINERS, required=True)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument(
        "--exchange-bytes", type=int, default=0, help="of an array exchanged without training"
    )
    parser.add_argument("--exchanges", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    folder = Path(os.environ["HORA_BENCH_FOLDER"])
    rank, size = rank_and_size()
    trainer = TRAINERS[options.contender]()  # a parameter server does not return
    page = SharedPage(folder / "page", rank, size - (options.contender in SERVED))
    workload = WORKLOADS[options.workload]
    step = trainer.make_step(workload.make(), workload.data())
    one_way_us = page.one_way_us()
    page.barrier()
    result = {"step_s": time_calls(step, options.steps), "one_way_us": one_way_us, "exchange_s": []}
    page.barrier()
    if options.exchange_bytes:
        tensor = torch.zeros(options.exchange_bytes // 4)
        result["exchange_s"] = time_calls(lambda: trainer.exchange(tensor), options.exchanges)
    (folder / f"{rank}.json").write_text(json.dumps(result))
    page.barrier()
    trainer.close()


if __name__ == "__main__":
    main()
