"""Workloads that go over memory once, and workloads built from them."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import extents, gradients, random

ROWS = ["r37,c129", "r64,c1024"]
CASES = {
    "softmax": (ROWS, {"fwd": ["naive", "online", "row"], "bwd": ["naive", "row"]}),
    "softmax_v": (
        ["b2,s37,t50,d72", "b3,s130,t259,d64"],
        {"fwd": ["separate", "separate_mma", "fused"], "bwd": ["separate", "separate_mma"]},
    ),
    "layernorm": (ROWS, {"fwd": ["naive", "row"], "bwd": ["naive", "row"]}),
    "rmsnorm": (ROWS, {"fwd": ["naive", "row"], "bwd": ["naive", "row"]}),
    "add_layernorm": (ROWS, {"fwd": ["naive", "separate", "fused"], "bwd": ["naive", "fused"]}),
    "gelu": (["n4099,tanh", "n4096,erf"], dict.fromkeys(["fwd", "bwd"], ["scalar", "vector"])),
    "rope": (["b2,h3,s37,d64", "b1,h8,s50,d24"], dict.fromkeys(["fwd", "bwd"], ["scalar", "vector", "heads"])),
}


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


def problem(workload, direction, shape, dtype, rng):
    n, forward = extents(shape), direction == "fwd"
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
    if workload == "softmax_v":
        sizes = {"x": (n["s"], n["t"]), "v": (n["t"], n["d"])}
        inputs = {name: random(rng, (n["b"], *size), dtype) for name, size in sizes.items()}
        if forward:
            return inputs, lambda x, v: {"out": x.softmax(-1) @ v}
        inputs["dout"] = random(rng, (n["b"], n["s"], n["d"]), dtype)

        def back(dout, **given):
            found = gradients(lambda x, v: [x.softmax(-1) @ v], given, ["x", "v"], [dout])
            return {f"d{name}": value for name, value in found.items()}

        return inputs, back
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
