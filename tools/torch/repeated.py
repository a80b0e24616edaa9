#!/usr/bin/env python3
"""Runs deterministic cases ten times and compares results bit by bit; and dropout's choices between targets.

    pip install torch numpy
    python tools/torch/repeated.py target/release/parallax --targets cuda wgpu cpu > table.md

Every case is computed by `parallax eval` on the same random arrays, in f16 where it exists, and on the first shape of `agree.py`'s
list. Exit code 1: two runs differ in a bit, targets drop different elements, or a run failed.
"""

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import problems
from agree import missing, types

BY_CUDNN = ["conv2d", "conv3d", "depthwise_conv2d", "depthwise_conv3d"]
# Sums by atomic additions come in any order, and so do those of some of cuDNN's gradients.
ATOMIC = {
    "attention/bwd": {"flash_atomic", "flash_mma"},
    "encoder_layer/bwd": {"mma", "vendor"},
    "train_step/fwd+bwd": {"separate"},
    "encoder/fwd+bwd": {"mma", "vendor"},
    "reduce/fwd": {"atomic"},
    "scan/fwd": {"decoupled"},
} | {f"{name}/bwd": {"vendor", "vendor_tuned"} for name in BY_CUDNN}


def computed(program, target, case, arrays, folder):
    """The bytes of every output."""
    command = [program, "eval", case, "--target", target, "--output-dir", str(folder)]
    command += [part for name, file in arrays.items() for part in ("--input", f"{name}={file}")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {file.stem: file.read_bytes() for file in folder.glob("*.npy")}


def saved(module, case, folder, rng):
    """Files of the case's inputs."""
    workload, direction, shape, dtype, _ = case.split("/")
    inputs, _ = module.problem(workload, direction, shape, dtype, rng)
    folder.mkdir(parents=True)
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
    return {name: folder / f"{name}.npy" for name in inputs}


def repeated(program, target, case, arrays, folder, runs):
    """In how many runs a bit differs from the first."""
    results = [computed(program, target, case, arrays, folder / str(run)) for run in range(runs)]
    return sum(result != results[0] for result in results[1:])


def dropped(program, target, arrays, shape, folder):
    """Which elements a target drops."""
    variant = "host" if target == "cpu" else "regenerated"
    computed(program, target, f"dropout/fwd/{shape}/f32/{variant}", arrays, folder)
    return np.load(folder / "out.npy") == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--targets", nargs="+", default=["cuda", "wgpu", "cpu"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", nargs="+", default=list(problems.CASES), choices=problems.CASES, metavar="WORKLOAD")
    args = parser.parse_args()
    rng, failures = np.random.default_rng(7), []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        print("| target | cases | runs of each | differing |\n| --- | --: | --: | --: |")
        for target in [target for target in args.targets if target != "cpu"]:
            jobs = {}
            for workload in args.only:
                module, shapes, variants = problems.CASES[workload]
                dtype = types(workload)[-1]
                for direction, offered in variants.items():
                    out = missing(workload, direction, target, dtype) | ATOMIC.get(f"{workload}/{direction}", set())
                    for name in [name for name in offered if name not in out]:
                        case, at = f"{workload}/{direction}/{shapes[0]}/{dtype}/{name}", Path(folder) / target / str(len(jobs))
                        arrays = saved(module, case, at / "in", rng)
                        jobs[case] = pool.submit(repeated, args.program, target, case, arrays, at, args.runs)
            for case, job in jobs.items():
                try:
                    if job.result():
                        failures.append(f"{target} {case}: {job.result()} of {args.runs - 1} runs differ from the first")
                except subprocess.CalledProcessError as error:
                    failures.append(f"{target} {case}: exit code {error.returncode}")
            print(f"| {target} | {len(jobs)} | {args.runs} | {sum(f.startswith(target) for f in failures)} |", flush=True)
        module, shapes, _ = problems.CASES["dropout"]
        for shape in shapes:
            at = Path(folder) / f"dropout-{shape}"
            arrays = saved(module, f"dropout/fwd/{shape}/f32/any", at / "in", rng)
            masks = {target: dropped(args.program, target, arrays, shape, at / target) for target in args.targets}
            alike = all((mask == masks[args.targets[0]]).all() for mask in masks.values())
            print(f"\ndropout {shape}: {masks[args.targets[0]].sum()} dropped, {'the same' if alike else 'others'} on {', '.join(masks)}")
            if not alike:
                failures.append(f"dropout {shape}: targets drop different elements")
    for failure in failures:
        print(f"- {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
