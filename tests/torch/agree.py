#!/usr/bin/env python3
"""Holds what Parallax computes against PyTorch in f64, on arrays that no other test uses.

    pip install torch numpy
    python tests/torch/agree.py target/release/parallax --target cuda > table.md

Every case is computed by `parallax eval` on random arrays, and by PyTorch from the same arrays in f64, gradients by
autograd. Exit code 1: an output is farther off than 1e-4 (f32) or 5e-3 (f16) of the largest element of its reference.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

BOUND = {"f32": 1e-4, "f16": 5e-3}
ROWS = ["r37,c129", "r64,c1024"]
VARIANTS = {
    "softmax": (ROWS, {"fwd": ["naive", "online", "row"], "bwd": ["naive", "row"]}),
    "layernorm": (ROWS, {"fwd": ["naive", "row"], "bwd": ["naive", "row"]}),
    "rmsnorm": (ROWS, {"fwd": ["naive", "row"], "bwd": ["naive", "row"]}),
    "add_layernorm": (ROWS, {"fwd": ["naive", "separate", "fused"], "bwd": ["naive", "fused"]}),
    "gelu": (["n4099,tanh", "n4096,erf"], dict.fromkeys(["fwd", "bwd"], ["scalar", "vector"])),
    "dropout": (["n4099", "n4096,p0.5"], dict.fromkeys(["fwd", "bwd"], ["naive", "stored", "regenerated"])),
    "adamw": (["n4099,t1", "n4096"], {"fwd": ["separate", "scalar", "vector"]}),
    "cross_entropy": (ROWS, {"fwd": ["naive", "separate", "online", "row"], "bwd": ["naive", "separate", "fused"]}),
    "loss_sigmoid": (["n37,d129", "n128,d64"], {"fwd": ["naive", "separate", "fused"], "bwd": ["naive", "tiled"]}),
    "loss_smape": (["n4099,k4", "n4096,w2.5"], {"fwd": ["separate", "fused"], "bwd": ["scalar", "vector"]}),
    "rope": (["b2,h3,s37,d64", "b1,h8,s50,d24"], dict.fromkeys(["fwd", "bwd"], ["scalar", "vector", "heads"])),
}


def extents(shape):
    """Numbers by name; words are left out."""
    parts = (re.fullmatch(r"([a-z]+)([0-9.]+)", part) for part in shape.split(","))
    return {part[1]: float(part[2]) if "." in part[2] else int(part[2]) for part in parts if part}


def random(rng, shape, dtype, around=0.0):
    return (around + rng.standard_normal(shape)).astype({"f32": np.float32, "f16": np.float16}[dtype])


def gradients(function, inputs, names, upstream):
    """Gradients of a function's results, each weighted with its upstream gradient."""
    leaves = {name: value.clone().requires_grad_(name in names) for name, value in inputs.items()}
    results = function(**leaves)
    total = sum((result * weight).sum() for result, weight in zip(results, upstream))
    return dict(zip(names, torch.autograd.grad(total, [leaves[name] for name in names])))


def layernorm(x, gamma, beta):
    mean = x.mean(1, keepdim=True)
    rstd = (x.var(1, correction=0, keepdim=True) + 1e-5).rsqrt()
    return {"out": (x - mean) * rstd * gamma + beta, "mean": mean, "rstd": rstd}


def rmsnorm(x, gamma):
    rstd = (x.square().mean(1, keepdim=True) + 1e-6).rsqrt()
    return {"out": x * rstd * gamma, "rstd": rstd}


def rotate(x, cosines, sines):
    low, high = x.chunk(2, -1)
    return torch.cat([low * cosines - high * sines, high * cosines + low * sines], -1)


def philox(counters, key):
    """The four words of Philox 4x32-10 for each counter below 2^32."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    words = [counters.astype(np.uint64)] + [np.zeros(len(counters), np.uint64)] * 3
    key = [np.uint64(word) for word in key]
    for _ in range(10):
        first, third = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(third >> half) ^ words[1] ^ key[0], third & low, (first >> half) ^ words[3] ^ key[1], first & low]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(words, 1)


def dropout(n, forward, dtype, rng):
    share = n.get("p", 0.1)
    inputs = {name: random(rng, n["n"], dtype) for name in (["x"] if forward else ["x", "dout"])}
    inputs["seed"] = rng.integers(0, 2**32, 2, dtype=np.uint32)
    words = philox(np.arange((n["n"] + 3) // 4), inputs["seed"]).reshape(-1)[: n["n"]]
    factor = torch.from_numpy((words >= int(share * 2**32)) / (1 - share))
    if forward:
        return inputs, lambda x, seed: {"out": x * factor}
    of = lambda x: [x * factor]
    return inputs, lambda x, seed, dout: {"dx": gradients(of, {"x": x}, ["x"], [dout])["x"]}


def adamw(n, forward, dtype, rng):
    inputs = {"param": random(rng, n["n"], dtype), "grad": random(rng, n["n"], dtype)}
    inputs |= {"m": 0.1 * random(rng, n["n"], "f32"), "v": 0.01 + 0.01 * random(rng, n["n"], "f32") ** 2}

    def step(param, grad, m, v):
        leaf = torch.nn.Parameter(param.clone())
        leaf.grad = grad.clone()
        optimizer = torch.optim.AdamW([leaf], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
        before = torch.tensor(n.get("t", 100) - 1.0)
        optimizer.state[leaf] = {"step": before, "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
        optimizer.step()
        state = optimizer.state[leaf]
        return {"param": leaf.detach(), "m": state["exp_avg"], "v": state["exp_avg_sq"]}

    return inputs, step


def cross_entropy(n, forward, dtype, rng):
    inputs = {"logits": random(rng, (n["r"], n["c"]), dtype)}
    inputs["targets"] = rng.integers(0, n["c"], n["r"], dtype=np.uint32)
    if forward:
        each = lambda logits, targets: F.cross_entropy(logits, targets.long(), reduction="none")[:, None]
        return inputs, lambda **given: {"loss": each(**given), "lse": given["logits"].logsumexp(1, keepdim=True)}
    inputs["dloss"] = 100.0 * n["r"] * np.ones(1, np.float32)

    def back(logits, targets, dloss):
        of = lambda logits: [F.cross_entropy(logits, targets.long())]
        return {"dlogits": gradients(of, {"logits": logits}, ["logits"], [dloss])["logits"]}

    return inputs, back


def loss_sigmoid(n, forward, dtype, rng):
    dims, kind = (n["n"], n["d"]), {"f32": np.float32, "f16": np.float16}[dtype]
    inputs = {name: (rng.standard_normal(dims) / n["d"] ** 0.5).astype(kind) for name in ["x", "y"]}
    inputs |= {"temperature": np.full(1, 10, np.float32), "bias": np.full(1, -3, np.float32)}

    def loss(x, y, temperature, bias):
        signs = 2 * torch.eye(n["n"], dtype=torch.float64) - 1
        return [-F.logsigmoid(signs * (temperature * x @ y.T + bias)).sum() / n["n"]]

    if forward:
        return inputs, lambda **given: {"loss": loss(**given)[0]}
    inputs["dloss"] = np.full(1, 100, np.float32)

    def back(dloss, **given):
        return {f"d{name}": value for name, value in gradients(loss, given, list(given), [dloss]).items()}

    return inputs, back


def loss_smape(n, forward, dtype, rng):
    inputs = {"pred": 3 * random(rng, n["n"], dtype, 1.0), "targets": random(rng, n["n"], dtype, 4.0)}

    def loss(pred, targets):
        size, along, factor = targets.abs(), pred * targets.sign(), n.get("k", 2)
        outside = F.relu(torch.maximum(along - factor * size, size / factor - along))
        error = 2 * (pred - targets).abs() / (pred.abs() + size + 1e-8)
        return [(error + n.get("w", 0.5) * outside / (size + 1e-8)).mean()]

    if forward:
        return inputs, lambda **given: {"loss": loss(**given)[0]}
    inputs["dloss"] = np.full(1, 100 * n["n"], np.float32)
    return inputs, lambda dloss, **given: {"dpred": gradients(loss, given, ["pred"], [dloss])["pred"]}


OTHERS = {family.__name__: family for family in [dropout, adamw, cross_entropy, loss_sigmoid, loss_smape]}


def problem(workload, direction, shape, dtype, rng):
    """Inputs by name, and a function from the same in f64 to outputs by name."""
    n, forward = extents(shape), direction == "fwd"
    if workload in OTHERS:
        return OTHERS[workload](n, forward, dtype, rng)
    if workload == "gelu":
        name = "tanh" if "tanh" in shape else "none"
        inputs = {"x": random(rng, n["n"], dtype)}
        if forward:
            return inputs, lambda x: {"out": F.gelu(x, approximate=name)}
        inputs["dout"] = random(rng, n["n"], dtype)
        of = lambda x: [F.gelu(x, approximate=name)]
        return inputs, lambda x, dout: {"dx": gradients(of, {"x": x}, ["x"], [dout])["x"]}
    if workload == "rope":
        dims = [n["b"], n["h"], n["s"], n["d"]]
        angles = np.arange(n["s"])[:, None] / 10000.0 ** (np.arange(n["d"] // 2) * 2.0 / n["d"])
        tables = {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
        if forward:
            return {"x": random(rng, dims, dtype)} | tables, lambda x, **t: {"out": rotate(x, **t)}
        back = lambda dout, cosines, sines: {"dx": rotate(dout, cosines, -sines)}
        return {"dout": random(rng, dims, dtype)} | tables, back
    dims = (n["r"], n["c"])
    inputs = {"x": random(rng, dims, dtype)}
    if workload != "softmax":
        inputs["gamma"] = random(rng, n["c"], dtype, 1.0)
    if not forward:
        inputs["dout"] = random(rng, dims, dtype)
    if workload == "softmax":
        if forward:
            return inputs, lambda x: {"out": x.softmax(1)}
        return inputs, lambda x, dout: {"dx": gradients(lambda x: [x.softmax(1)], {"x": x}, ["x"], [dout])["x"]}
    if workload == "rmsnorm":
        if forward:
            return inputs, lambda **given: rmsnorm(**given)

        def back(x, gamma, dout):
            given = gradients(lambda **g: [rmsnorm(**g)["out"]], {"x": x, "gamma": gamma}, ["x", "gamma"], [dout])
            return {f"d{name}": value for name, value in given.items()}

        return inputs, back
    added = workload == "add_layernorm"
    if forward:
        inputs["beta"] = random(rng, n["c"], dtype)
        if not added:
            return inputs, lambda **given: layernorm(**given)
        inputs["residual"] = random(rng, dims, dtype)

        def sum_and_norm(x, residual, gamma, beta):
            exact = x + residual
            stored = exact.to({"f32": torch.float32, "f16": torch.float16}[dtype]).double()
            return {"sum": exact} | layernorm(stored, gamma, beta)

        return inputs, sum_and_norm
    if added:
        inputs["sum"], inputs["dsum"] = inputs.pop("x"), random(rng, dims, dtype)

    def back(gamma, dout, x=None, sum=None, dsum=None):
        x = sum if added else x
        given = {"x": x, "gamma": gamma, "beta": torch.zeros_like(gamma)}
        of = lambda x, gamma, beta: [layernorm(x, gamma, beta)["out"], x]
        upstream = [dout, dsum if added else torch.zeros_like(dout)]
        return {f"d{name}": value for name, value in gradients(of, given, ["x", "gamma", "beta"], upstream).items()}

    return inputs, back


def worst(program, target, case, rng):
    """How far each output is off, as a share of the largest element of its reference."""
    workload, direction, shape, dtype, _ = case.split("/")
    inputs, reference = problem(workload, direction, shape, dtype, rng)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seed", type=int, default=20261122)
    args = parser.parse_args()
    torch.set_num_threads(4)
    rng, failures, count = np.random.default_rng(args.seed), [], 0
    print("| workload | direction | type | cases | largest error, of the largest element |\n| --- | --- | --- | --: | --- |")
    for workload, (shapes, variants) in VARIANTS.items():
        for direction, names in variants.items():
            for dtype, bound in BOUND.items():
                errors = {}
                cases = [f"{workload}/{direction}/{shape}/{dtype}/{name}" for shape in shapes for name in names]
                for case in cases:
                    for output, error in worst(args.program, args.target, case, rng).items():
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
