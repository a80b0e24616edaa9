"""Rows of tables: taken, put together in bags, and side by side from many tables."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import extents, gradients, random

CASES = {
    "embedding": (
        ["n37,v11,d129", "n512,v1000,d64"],
        {"fwd": ["naive", "rows"], "bwd": ["atomic", "sorted"]},
    ),
    "embedding_bag": (
        [f"b37,l5,v11,d{d},{mode}" for d in (7, 64) for mode in ("sum", "mean", "max", "sum,weighted")],
        {"fwd": ["naive", "rows"], "bwd": ["atomic", "sorted"]},
    ),
    "embedding_select": (
        ["n37,t3,v11,d13", "n128,t4,v100,d32"],
        {"fwd": ["loop", "flatten", "fused"], "bwd": ["loop", "fused", "sorted"]},
    ),
    "hash_embedding": (
        ["r257,g83,d64,sorted", "r1009,g101,d67,sorted"],
        {"fwd": ["basic", "owner", "shared", "chunked"]},
    ),
}


def embedding(n, words, forward, dtype, rng):
    inputs = {"index": rng.integers(0, n["v"], n["n"], dtype=np.uint32)}
    if forward:
        inputs["table"] = random(rng, (n["v"], n["d"]), dtype)
        return inputs, lambda index, table: {"out": F.embedding(index.long(), table)}
    inputs["dout"] = random(rng, (n["n"], n["d"]), dtype)

    def back(index, dout):
        of = lambda table: [F.embedding(index.long(), table)]
        table = torch.zeros(n["v"], n["d"], dtype=torch.float64)
        return {"dtable": gradients(of, {"table": table}, ["table"], [dout])["table"]}

    return inputs, back


def embedding_bag(n, words, forward, dtype, rng):
    items, mode = n["b"] * n["l"], words[0]
    between = np.sort(rng.integers(0, items + 1, n["b"] - 1))
    inputs = {
        "index": rng.integers(0, n["v"], items, dtype=np.uint32),
        "offsets": np.concatenate([[0], between, [items]]).astype(np.uint32),
        "table": random(rng, (n["v"], n["d"]), dtype),
    }
    if "weighted" in words:
        inputs["weight"] = random(rng, items, "f32")

    def bags(index, offsets, table, weight=None):
        indices = index.long(), table, offsets.long()
        return F.embedding_bag(*indices, mode=mode, per_sample_weights=weight, include_last_offset=True)

    if forward:
        return inputs, lambda **given: {"out": bags(**given)}
    inputs["dout"] = random(rng, (n["b"], n["d"]), dtype)
    learned = [name for name in ("table", "weight") if name in inputs]

    def back(dout, **given):
        of = lambda **leaves: [bags(**leaves)]
        return {f"d{name}": value for name, value in gradients(of, given, learned, [dout]).items()}

    return inputs, back


def embedding_select(n, words, forward, dtype, rng):
    inputs = {"index": rng.integers(0, n["v"], (n["n"], n["t"]), dtype=np.uint32)}
    shape = n["t"], n["v"], n["d"]

    def side_by_side(index, tables):
        return torch.cat([F.embedding(index[:, k].long(), tables[k]) for k in range(n["t"])], 1)

    if forward:
        inputs["tables"] = random(rng, shape, dtype)
        return inputs, lambda **given: {"out": side_by_side(**given)}
    inputs["dout"] = random(rng, (n["n"], n["t"] * n["d"]), dtype)

    def back(index, dout):
        of = lambda tables: [side_by_side(index, tables)]
        tables = torch.zeros(*shape, dtype=torch.float64)
        return {"dtables": gradients(of, {"tables": tables}, ["tables"], [dout])["tables"]}

    return inputs, back


def hashed(ids):
    """The finaliser of MurmurHash3, as it was published."""
    h = ids.astype(np.uint64)
    for shift, factor in (16, 0x85EBCA6B), (13, 0xC2B2AE35):
        h = ((h ^ h >> np.uint64(shift)) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return h ^ h >> np.uint64(16)


def hash_embedding(n, words, forward, dtype, rng):
    inputs = {
        "id": rng.integers(0, 2**32, n["r"], dtype=np.uint32),
        "group": np.sort(rng.integers(0, n["g"], n["r"], dtype=np.uint32)),
        "weight": random(rng, n["r"], dtype),
    }

    def summed(id, group, weight):
        h = hashed(id.numpy())
        column = torch.from_numpy((h & np.uint64(0x7FFFFFFF)).astype(np.int64) % n["d"])
        sign = torch.from_numpy(np.where(h >> np.uint64(31), -1.0, 1.0))
        out = torch.zeros(n["g"], n["d"], dtype=torch.float64)
        return {"out": out.index_put_((group.long(), column), sign * weight, accumulate=True)}

    return inputs, summed


PROBLEMS = {one.__name__: one for one in [embedding, embedding_bag, embedding_select, hash_embedding]}


def problem(workload, direction, shape, dtype, rng):
    words = [part for part in shape.split(",") if part.isalpha()]
    return PROBLEMS[workload](extents(shape), words, direction == "fwd", dtype, rng)
