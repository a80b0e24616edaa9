#!/usr/bin/env python3
"""Compares results of Parallax with PyTorch in f64, on arrays that no other test uses.

    pip install torch numpy
    python tools/torch/agree.py target/release/parallax --target cuda > table.md

Every case is computed by `parallax eval` on random arrays, and by PyTorch from the same arrays in f64, gradients by
autograd. Exit code 1: an output is farther off than 1e-4 (f32) or 5e-3 (f16) of the largest element of its reference.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import problems
import torch
from problems.common import extents

BOUND = {"f32": 1e-4, "f16": 5e-3}
# Variants of one dialect only, and with 16-bit floats only.
ON_TENSOR_CORES = {"fused_mma", "mma", "prefix_mma", "rows_mma", "separate_mma", "split_mma", "unfused_mma", "wgmma"}
CUDA_ONLY = {"decoupled", "flash_atomic", "flash_mma", "level3", "vendor", "vendor_tuned"} | ON_TENSOR_CORES
WGSL_ONLY = {"subgroup"}
NOT_F32 = {"flash_mma", "level3"} | ON_TENSOR_CORES
# Their library products stand around attention on tensor cores.
NOT_F32_IN = {"attention_block": {"vendor"}, "encoder_layer": {"vendor"}, "encoder": {"vendor"}}
# cuDNN keeps parts of these gradients' sums in f16, and the suite skips it there.
LIBRARY_SUMS_IN_F16 = {"depthwise_conv2d", "depthwise_conv3d"}
# Workloads whose every number is f32.
F32_ONLY = {"train_step", "sort_by_key", "hash_embedding", "fft", "nms"}


def worst(module, program, target, case, rng):
    """How far each output is off, as a share of the largest element of its reference."""
    workload, direction, shape, dtype, _ = case.split("/")
    inputs, reference = module.problem(workload, direction, shape, dtype, rng)
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "eval", case, "--target", target, "--output-dir", folder]
        for name, array in inputs.items():
            np.save(f"{folder}/{name}.in.npy", array)
            command += ["--input", f"{name}={folder}/{name}.in.npy"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        want = reference(**{name: torch.from_numpy(array.astype(np.float64)) for name, array in inputs.items()})
        off = {}
        for name, right in want.items():
            file = Path(folder) / f"{name}.npy"
            got = torch.from_numpy(np.load(file).astype(np.float64)).reshape(right.shape)
            off[name] = ((got - right).abs().max() / right.abs().max()).item()
    return off


def takes(workload, name, shape):
    """Whether a variant takes a shape: warpgroups copy eight neighbouring channels of either side, `mma` groups of 128 weights,
    and `rows` few rows."""
    if workload == "linear" and name in ("rows", "rows_mma"):
        return extents(shape)["m"] <= 16
    if workload == "matmul_q8" and name == "mma":
        n = extents(shape)
        return n["k"] % 128 == 0 and n.get("g", 128) % 128 == 0
    if name != "wgmma":
        return True
    n, words = extents(shape), shape.split(",")
    if "t" in n:
        return n["n"] % 8 == 0 and n["k"] % 8 == 0
    last = "nhwc" in words or "ndhwc" in words
    return last and all(count // n.get("g", 1) % 8 == 0 for count in (n["c"], n.get("m", n["c"])))


def types(workload):
    return ["f32"] if workload in F32_ONLY else list(BOUND)


def missing(workload, direction, target, dtype):
    """Variants that a target does not have for an element type."""
    lacking = set(WGSL_ONLY if target == "cuda" else CUDA_ONLY)
    if dtype == "f32":
        lacking |= NOT_F32 | NOT_F32_IN.get(workload, set())
    if dtype == "f16" and direction == "bwd" and workload in LIBRARY_SUMS_IN_F16:
        lacking |= {"vendor", "vendor_tuned"}
    return lacking


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--only", nargs="+", default=list(problems.CASES), choices=problems.CASES, metavar="WORKLOAD")
    args = parser.parse_args()
    torch.set_num_threads(4)
    rng, failures, count = np.random.default_rng(args.seed), [], 0
    print("| workload | direction | type | cases | largest error, of the largest element |\n| --- | --- | --- | --: | --- |")
    for workload, (module, shapes, variants) in problems.CASES.items():
        if workload not in args.only:
            continue
        for direction, offered in variants.items():
            for dtype in types(workload):
                bound, errors = BOUND[dtype], {}
                names = [name for name in offered if name not in missing(workload, direction, args.target, dtype)]
                cases = [f"{workload}/{direction}/{shape}/{dtype}/{name}" for shape in shapes for name in names if takes(workload, name, shape)]
                for case in cases:
                    for output, error in worst(module, args.program, args.target, case, rng).items():
                        errors[output] = max(error, errors.get(output, 0.0))
                        if not error <= bound:
                            failures.append(f"{case}: {output} is off by {error:.2e}")
                count += len(cases)
                told = ", ".join(f"{output} {error:.1e}" for output, error in errors.items())
                print(f"| {workload} | {direction} | {dtype} | {len(cases)} | {told} |", flush=True)
    print(f"\n{count} cases on {args.target}, {len(failures)} wrong; PyTorch {torch.__version__}, seed {args.seed}")
    for failure in failures:
        print(f"- {failure}")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
