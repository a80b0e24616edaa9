"""Parts of other workloads: transposes, sums, sorts, scaled columns."""

import numpy as np
import torch

from .common import extents, random

CASES = {
    "transpose": (["b2,r72,c40", "b3,r136,c200", "r264,c72"], {"fwd": ["naive", "tiled", "vector"]}),
    "reduce": (
        ["n4099,sum", "n65536,sum", "n4099,max", "n65536,max"],
        {"fwd": ["atomic", "tree", "vector"]},
    ),
    "scan": (
        ["n4099,inclusive", "n4099,exclusive", "n32768,inclusive", "n32768,exclusive"],
        {"fwd": ["three_pass", "vector", "decoupled"]},
    ),
    "sort_by_key": (["n5003,bits5", "n4096", "n12289,bits20"], {"fwd": ["order", "radix4", "radix8"]}),
    "top_k": (["r5,n1009,k64", "r3,n4100,k100", "r67,n130,k1"], {"fwd": ["naive", "groups"]}),
    "sample": (["r5,n1009,k20,t0.7,p0.9", "r67,n130,k5,m0.1", "r3,n4100,k33"], {"fwd": ["naive", "groups"]}),
    "standard_scaler": (["n257,f5", "n1009,f12", "n4096,f64"], {"fwd": ["two_pass", "welford"]}),
}
EPS = 1e-5


def transpose(n, words, dtype, rng):
    dims = n.get("b", 1), n["r"], n.get("c", n["r"])
    return {"x": random(rng, dims, dtype)}, lambda x: {"out": x.transpose(1, 2)}


def reduce(n, words, dtype, rng):
    # Not around zero, where a sum is small beside its terms.
    x = random(rng, n["n"], dtype, 0.5)
    return {"x": x}, lambda x: {"out": (x.sum() if "sum" in words else x.max())[None]}


def scan(n, words, dtype, rng):
    x = random(rng, n["n"], dtype)

    def sums(x):
        running = x.cumsum(0)
        return {"out": running if "inclusive" in words else running - x}

    return {"x": x}, sums


def sort_by_key(n, words, dtype, rng):
    inputs = {"keys": rng.integers(0, 2 ** n.get("bits", 32), n["n"], dtype=np.uint64).astype(np.uint32)}
    inputs["values"] = rng.integers(0, 2**32, n["n"], dtype=np.uint64).astype(np.uint32)

    def by_key(keys, values):
        rising, order = torch.sort(keys, stable=True)
        return {"sorted": rising, "carried": values[order]}

    return inputs, by_key


def top_k(n, words, dtype, rng):
    def largest(x):
        # A stable sort: of equal values, the one with the lower index comes first.
        falling, order = x.sort(dim=1, descending=True, stable=True)
        return {"values": falling[:, : n["k"]], "indices": order[:, : n["k"]]}

    return {"x": random(rng, (n["r"], n["n"]), dtype)}, largest


def sample(n, words, dtype, rng):
    temperature, share, least = n.get("t", 1.0), n.get("p", 1.0), n.get("m", 0.0)

    def drawn(x, u):
        falling, order = x.sort(dim=1, descending=True, stable=True)
        weights = (falling[:, : n["k"]] / temperature).softmax(1)
        keep = weights >= least * weights[:, :1]
        if share < 1:
            keep &= weights.cumsum(1) - weights < share
        kept = weights * keep
        sums = kept.cumsum(1)
        place = torch.searchsorted(sums, u[:, None] * sums[:, -1:], right=True)
        return {"token": order.gather(1, place)[:, 0], "probability": (kept.gather(1, place) / sums[:, -1:])[:, 0]}

    x = random(rng, (n["r"], n["n"]), dtype)
    return {"x": x, "u": rng.random(n["r"], np.float32)}, drawn


def standard_scaler(n, words, dtype, rng):
    x = 2 * random(rng, (n["n"], n["f"]), dtype, 1.5)

    def scaled(x):
        variance, mean = torch.var_mean(x, 0, correction=0)
        return {"mean": mean, "variance": variance, "out": (x - mean) / (variance + EPS).sqrt()}

    return {"x": x}, scaled


PROBLEMS = {one.__name__: one for one in [transpose, reduce, scan, sort_by_key, top_k, sample, standard_scaler]}


def problem(workload, direction, shape, dtype, rng):
    words = {part for part in shape.split(",") if part.isalpha()}
    return PROBLEMS[workload](extents(shape), words, dtype, rng)
