"""A whole step of training a small model of tables: hashed features and a category, an MLP with two heads, AdamW."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import extents, random
from .training import adamw_step, smape

CASES = {
    "train_step": (
        ["n37,e3,v5,d33,f65,t1", "n300,e8,v1100,d64,f64"],
        {"fwd+bwd": ["separate", "fused"]},
    ),
}
# Targets that keep clear of the kinks of the loss, where predictions are about four.
RANGES = np.array([(5.2, 5.8), (2.6, 2.9), (11.0, 15.0), (0.5, 1.4), (-4.0, -1.0)])


def places(ids, width):
    """Column and sign of each feature, by MurmurHash3's finaliser."""
    low = np.uint64(0xFFFFFFFF)
    h = ids.astype(np.uint64)
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    h ^= h >> np.uint64(16)
    columns = (h & np.uint64(0x7FFFFFFF)) % np.uint64(width)
    return columns.astype(np.int64), 1.0 - 2.0 * (h >> np.uint64(31)).astype(np.float64)


def batch(n, rng):
    features = n["n"] * n["e"]
    ranges = RANGES[rng.integers(0, len(RANGES), [n["n"], 2])]
    return {
        "id": rng.integers(0, 2**32, features, dtype=np.uint32),
        "group": np.sort(rng.integers(0, n["n"], features, dtype=np.uint32)),
        "weight": random(rng, features, "f32"),
        "category": rng.integers(0, n["v"], n["n"], dtype=np.uint32),
        "targets": rng.uniform(ranges[..., 0], ranges[..., 1]).astype(np.float32),
        "dloss": np.full(1, 3 * n["n"], np.float32),
    }


def parameters(n, rng):
    v, d, f = n["v"], n["d"], n["f"]
    scaled = lambda dims, scale: random(rng, dims, "f32") * np.float32(scale)
    return {
        "table": scaled([v, d], 0.5),
        "w1": scaled([d, f], d**-0.5),
        "b1": scaled([f], 0.25),
        "w2": scaled([f, 2], 0.1 * f**-0.5),
        "b2": scaled([2], 0.02) + np.float32(4),
    }


def problem(workload, direction, shape, dtype, rng):
    n = extents(shape)
    given, learned = batch(n, rng), parameters(n, rng)
    columns, signs = places(given["id"], n["d"])
    inputs = dict(given)
    for name, value in learned.items():
        inputs[name] = value
        inputs[f"m_{name}"] = 0.1 * random(rng, value.shape, "f32")
        inputs[f"v_{name}"] = 0.01 + 0.01 * random(rng, value.shape, "f32") ** 2

    def step(group, weight, category, targets, dloss, **rest):
        leaves = {name: rest[name].clone().requires_grad_() for name in learned}
        at = (group.long(), torch.from_numpy(columns))
        hashed = torch.zeros(n["n"], n["d"], dtype=torch.float64)
        hashed = hashed.index_put(at, torch.from_numpy(signs) * weight, accumulate=True)
        x = hashed + F.embedding(category.long(), leaves["table"])
        hidden = F.gelu(x @ leaves["w1"] + leaves["b1"], approximate="tanh")
        pred = hidden @ leaves["w2"] + leaves["b2"]
        loss = smape(pred, targets)
        slopes = torch.autograd.grad(loss * dloss[0], list(leaves.values()))
        results = {"pred": pred.detach(), "loss": loss.detach()}
        for (name, leaf), slope in zip(leaves.items(), slopes):
            averages = rest[f"m_{name}"], rest[f"v_{name}"]
            stepped = adamw_step(leaf.detach(), slope, *averages, n.get("t", 100))
            results |= {name: stepped["param"], f"m_{name}": stepped["m"], f"v_{name}": stepped["v"]}
        return results

    return inputs, step
