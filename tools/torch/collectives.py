#!/usr/bin/env python3
"""Measures PyTorch's collectives (torch.distributed with NCCL) on cases of the suite, beside our figures.

    pip install torch
    python tools/torch/collectives.py --ours results/RUN.json --json collectives.json > table.md
    python tools/torch/collectives.py --case all_reduce/fwd/n268435456/f32 --samples 20

One process a GPU, as PyTorch recommends. A sample is a row of calls between two events on each GPU; it begins when all have finished the
calls before. Its time is that of the slowest GPU, as in ours, and the figure is the median. `all_reduce` and `broadcast` work in place
here, and from one buffer to another in ours. The results have the form of those of `peers.py`, for `figures.py`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from peers import table
from problems.common import extents
from recorded import conditions, read

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"]
SAMPLE = 5e-3  # Seconds of work between two events.
MOST_LAUNCHES = 1000
LEAD = 10  # Calls before the first event, which let the host run ahead of the GPUs.


def named():
    """The cases that are measured where none are given: a kilobyte to a gigabyte in f32."""
    for workload in COLLECTIVES:
        yield from (f"{workload}/fwd/n{4 ** power}/{dtype}" for power in range(4, 15) for dtype in TYPES)


def call_of(case, rank, device):
    """A call of PyTorch that computes a case on a rank."""
    workload, _, shape, dtype = case.split("/")[:4]
    sizes = extents(shape)
    ranks, count, kind = sizes.get("gpus", 2), sizes["n"], TYPES[dtype]
    x = torch.zeros(count, dtype=kind, device=device)
    part = torch.zeros(count // ranks, dtype=kind, device=device)
    out = torch.zeros_like(x)

    def around():
        sends = dist.P2POp(dist.isend, x, (rank + 1) % ranks)
        receives = dist.P2POp(dist.irecv, out, (rank - 1) % ranks)
        for request in dist.batch_isend_irecv([sends, receives]):
            request.wait()

    return {
        "all_reduce": lambda: dist.all_reduce(x),
        "all_gather": lambda: dist.all_gather_into_tensor(out, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, x),
        "broadcast": lambda: dist.broadcast(x, 0),
        "all_to_all": lambda: dist.all_to_all_single(out, x),
        "send_recv": around,
    }[workload]


def slowest(seconds, device):
    """Largest of a number over all ranks, on each of them."""
    longest = torch.tensor(seconds, dtype=torch.float64, device=device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.item()


def sample(call, launches, device):
    """Seconds of a call on the slowest rank, among several behind each other."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    for _ in range(LEAD):
        call()
    begin.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return slowest(begin.elapsed_time(end) * 1e-3 / launches, device)


def measured(case, rank, device, samples):
    """The row of a case."""
    call = call_of(case, rank, device)
    sample(call, 3, device)
    launches = min(MOST_LAUNCHES, max(1, round(SAMPLE / sample(call, 10, device))))
    times = [sample(call, launches, device) * 1e3 for _ in range(samples)]
    row = {"case": case, "peer": "torch.distributed", "ms": statistics.median(times)}
    row |= {"quartiles": statistics.quantiles(times, n=4)[::2]} if samples > 1 else {}
    return row | {"least": min(times), "most": max(times)}


def work(rank, gpus, cases, samples, folder):
    """Process of a rank. The first writes the rows after each case, so that an interrupted run leaves its results."""
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=rank, world_size=gpus, device_id=device)
    rows = []
    for number, case in enumerate(cases, 1):
        if rank == 0:
            print(f"{number} of {len(cases)}: {case}", file=sys.stderr)
        rows.append(measured(case, rank, device, samples))
        torch.cuda.empty_cache()
        if rank == 0:
            Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.destroy_process_group()


def arguments():
    settings = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_argument("--ours", type=Path, help="a run of Parallax to set beside it")
    settings.add_argument("--only", nargs="+", choices=COLLECTIVES, metavar="WORKLOAD", help="of the named cases, these")
    settings.add_argument("--case", nargs="+", help="other cases of one number of GPUs, with or without a variant")
    settings.add_argument("--samples", type=int, default=40)
    settings.add_argument("--json", type=Path, help="file for the results")
    return settings.parse_args()


def main():
    args = arguments()
    chosen = [case for case in named() if not args.only or case.split("/")[0] in args.only]
    cases = list(dict.fromkeys("/".join(case.split("/")[:4]) for case in args.case or chosen))
    sizes = {extents(case.split("/")[2]).get("gpus", 2) for case in cases}
    if len(sizes) != 1:
        sys.exit(f"cases of {sorted(sizes)} GPUs: name those of one number")
    gpus = sizes.pop()
    if torch.cuda.device_count() < gpus:
        sys.exit(f"{gpus} GPUs are needed, there are {torch.cuda.device_count()}")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # As in ours.
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (gpus, cases, args.samples, folder), nprocs=gpus)
        rows = json.loads(Path(folder, "rows.json").read_text())
    device = f"{gpus} × {torch.cuda.get_device_name()}"
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    version = f"PyTorch {torch.__version__}, NCCL {nccl}"
    if args.json:
        args.json.write_text(json.dumps({"device": device, "version": version, "rows": rows}, indent=1))
    medians, _, suite = read(args.ours) if args.ours else ({}, {}, "no run of ours")
    print(table(rows, medians, conditions(args.ours) if args.ours else {}))
    print(f"\n{device}; {version}; {suite}")


if __name__ == "__main__":
    main()
