#!/usr/bin/env python3
"""Holds the CUDA figures of Parallax against PyTorch's CUDA events.

    pip install torch cuda-bindings
    python tools/torch/events.py target/release/parallax --out DIR > table.md

Three kinds of rows: PyTorch's own call (`copy_`, `torch.mm`) against our case of the same shape, and our own kernels,
compiled from the output of `parallax kernel --json`, launched and timed by PyTorch. Runs of Parallax and rounds of PyTorch
alternate, and each side measures its cases in random order, so that both meet the same clocks, power cap and
temperature: on a card at its power limit, products alone in a loop take far longer than between other work. PyTorch rests
between its samples (`--rest`), as Parallax does while it reads sensors and fits; without rests the cap holds the clock
down, and kernels that live by it took up to 6 % longer on one H200.

DIR takes the runs of Parallax. Exit code 1: a kernel or a call that both sides share differs by more than `--within`.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from cuda.bindings import driver, nvrtc

from recorded import read

COPY = "copy/fwd/n67108864/f32/vec4"
PRODUCTS = ["matmul/fwd/m4096,n4096,k4096/f16/vendor", "matmul/fwd/m4096,n4096,k4096/bf16/vendor"]
ATTENTION = [
    "attention/fwd/b4,h16,s2048,d128/bf16/flash_mma",
    "attention/fwd/b4,h16,s2048,d128,causal/f16/flash_mma",
    "attention/fwd/b1,h8,s4096,d64/f32/flash",
]
CASES = [COPY, *PRODUCTS, *ATTENTION]
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SAMPLE = 5e-3  # Seconds of device work between two events; an event's own cost is a few microseconds.


def must(result):
    """The values of a call of the driver or the compiler, or its error."""
    error, *values = result
    if error.value != 0:
        raise RuntimeError(f"{type(error).__name__}: {error.name}")
    return values[0] if len(values) == 1 else tuple(values)


def dtype_of(case):
    return TYPES[case.split("/")[3]]


def shape_of(case):
    """Extents by name; a name without a number is an option and counts as 1."""
    parts = [part.rstrip("0123456789") for part in case.split("/")[2].split(",")]
    sizes = [part[len(name) :] for part, name in zip(case.split("/")[2].split(","), parts)]
    return {name: int(size or 1) for name, size in zip(parts, sizes)}


class Kernels:
    """The stages of a case, compiled with the program's own options and launched on PyTorch's stream."""

    def __init__(self, program, case, buffers):
        said = subprocess.run([program, "kernel", case, "--target", "cuda", "--json"], check=True, stdout=subprocess.PIPE)
        told = json.loads(said.stdout)
        self.modules = [must(driver.cuModuleLoadData(compiled(text["source"], told["options"]))) for text in told["texts"]]
        self.stages = [self.stage(stage, buffers) for stage in told["stages"]]

    def stage(self, stage, buffers):
        function = must(driver.cuModuleGetFunction(self.modules[stage["text"]], stage["entry"].encode()))
        shared = stage["dynamic_shared_bytes"]
        if shared:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            must((*driver.cuFuncSetAttribute(function, attribute, shared), None))
        used = [buffers[arg["buffer"]] for arg in stage["args"]]
        for arg, tensor in zip(stage["args"], used):
            assert tensor.numel() * tensor.element_size() == arg["bytes"], f"{arg} is another size here"
        # Values and the list of their addresses have to outlive every launch.
        values = [np.array([tensor.data_ptr()], dtype=np.uint64) for tensor in used]
        addresses = np.array([value.ctypes.data for value in values], dtype=np.uint64)
        return function, stage["grid"], stage["block"], shared, addresses, values

    def __call__(self):
        stream = torch.cuda.current_stream().cuda_stream
        for function, grid, block, shared, addresses, _ in self.stages:
            must((*driver.cuLaunchKernel(function, *grid, *block, shared, stream, addresses.ctypes.data, 0), None))


def compiled(source, options):
    program = must(nvrtc.nvrtcCreateProgram(source.encode(), b"case.cu", 0, [], []))
    must((*nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options]), None))
    image = b" " * must(nvrtc.nvrtcGetCUBINSize(program))
    must((*nvrtc.nvrtcGetCUBIN(program, image), None))
    return image


def rows(program):
    """Calls that PyTorch times: the case that each is compared with, its name, whether both sides do the same, and the call."""
    source = torch.randn(shape_of(COPY)["n"], device="cuda")
    target = torch.empty_like(source)
    ours = Kernels(program, COPY, {"x": source, "out": target})
    ours()
    assert torch.equal(source, target), "the kernel did not copy"
    yield COPY, "the same kernel", True, ours
    yield COPY, "`copy_`", False, partial(target.copy_, source)

    torch.backends.cuda.preferred_blas_library("cublaslt")
    for case in PRODUCTS:
        extents = shape_of(case)
        a = torch.randn(extents["m"], extents["k"], device="cuda").to(dtype_of(case))
        b = torch.randn(extents["k"], extents["n"], device="cuda").to(dtype_of(case))
        out = torch.empty(extents["m"], extents["n"], device="cuda", dtype=dtype_of(case))
        yield case, "`torch.mm`, cuBLASLt", True, partial(torch.mm, a, b, out=out)

    for case in ATTENTION:
        extents = shape_of(case)
        shape = [extents[name] for name in "bhsd"]
        q, k, v = (torch.randn(shape, device="cuda").to(dtype_of(case)) for _ in range(3))
        out = torch.empty_like(q)
        ours = Kernels(program, case, {"q": q, "k": k, "v": v, "out": out})
        ours()
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal="causal" in extents)
        torch.testing.assert_close(out, want, atol=4e-3, rtol=2e-2)
        yield case, "the same kernel", True, ours


def sample(call, launches):
    """Nanoseconds of one call: events around a row of them, after one that keeps the device busy until the row is there."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    call()
    begin.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e6 / launches


def turns(calls, count, order, rest):
    """`count` samples of every call, in rounds of random order, with rests between them, in multiples of a sample."""
    launches = [max(1, round(SAMPLE * 1e9 / sample(call, 3))) for call in calls]
    samples = [[] for _ in calls]
    for turn in range(count + 3):
        for i in order.sample(range(len(calls)), len(calls)):
            begin = time.perf_counter()
            took = sample(calls[i], launches[i])
            time.sleep(rest * (time.perf_counter() - begin))
            if turn >= 3:  # The first ones warm up.
                samples[i].append(took)
    return [statistics.median(s) for s in samples]


def run(program, out, budget):
    """Medians of a run of Parallax by case, the kernels that its trace names, and which Parallax it was."""
    before = set(out.glob("*.json"))
    cases = [word for case in CASES for word in ("--case", case)]
    arguments = ["run", "--target", "cuda", "--ceilings", "off", "--budget", str(budget), "--out", str(out), *cases]
    subprocess.run([program, *arguments], check=True, stdout=sys.stderr)
    [file] = [file for file in set(out.glob("*.json")) - before if not file.name.endswith(".trace.json")]
    return read(file)


def kernel_of(call):
    """The kernel that a call launches, by the name that the profiler has for it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    names = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return next((name for name in names if not name.startswith("Mem")), "?")


def spread(medians):
    return f"{statistics.median(medians) / 1e3:.2f} µs ({min(medians) / 1e3:.2f} to {max(medians) / 1e3:.2f})"


def main():
    settings = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_argument("program", help="the command line of Parallax")
    settings.add_argument("--out", type=Path, required=True, help="folder for its runs")
    settings.add_argument("--rounds", type=int, default=5, help="runs of Parallax, with PyTorch's samples between them")
    settings.add_argument("--turns", type=int, default=60, help="PyTorch's samples of each row in a round")
    settings.add_argument("--budget", type=float, default=8, help="seconds of sampling in a run of Parallax")
    settings.add_argument("--rest", type=float, default=1, help="pause after a sample of PyTorch's, over its time")
    settings.add_argument("--within", type=float, default=0.02, help="largest difference of shared calls")
    args = settings.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(42)
    order = random.Random(42)
    table = list(rows(args.program))
    ours, theirs = [], []
    for _ in range(args.rounds):
        medians, kernels, version = run(args.program, args.out, args.budget)
        ours.append(medians)
        theirs.append(turns([call for *_, call in table], args.turns, order, args.rest))

    print("| case | timed by PyTorch | PyTorch's events | Parallax | difference |\n| --- | --- | --- | --- | --- |")
    apart = []
    for row, (case, what, shared, _) in enumerate(table):
        here, there = [m[case] for m in ours], [m[row] for m in theirs]
        difference = statistics.median(here) / statistics.median(there) - 1
        print(f"| {case} | {what} | {spread(there)} | {spread(here)} | {difference:+.2%} |")
        if shared and abs(difference) > args.within:
            apart.append(f"{case}, {what}: {difference:+.2%}")
    print(f"\nMedians of {args.rounds} rounds, and the smallest and largest round.")
    print(f"{version}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}.\n")
    print("| case | by | kernel |\n| --- | --- | --- |")
    for case in PRODUCTS:
        print(f"| {case} | Parallax | `{kernels[case]}` |")
        for row, what, _, call in table:
            if row == case:
                print(f"| {case} | {what} | `{kernel_of(call)}` |")
    if apart:
        sys.exit("more than agreed on: " + "; ".join(apart))


if __name__ == "__main__":
    main()
