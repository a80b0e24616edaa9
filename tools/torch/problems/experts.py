"""Layers of a mixture of experts."""

import numpy as np
import torch

from .common import KIND, extents, random

CASES = {
    "moe_route": (["t67,e60,k4,softmax", "t257,e256,k8,softmax", "t130,e8,k2,chosen"], {"fwd": ["naive", "lists"]}),
    "grouped_matmul": (
        ["t130,n72,k40,e3,uniform", "t200,n67,k33,e16,zipf", "t300,n200,k72,e7,zipf"],
        {"fwd": ["naive", "tiled", "mma", "wgmma"]},
    ),
}


def moe_route(n, words, dtype, rng):
    def route(logits):
        top, experts = torch.sort(logits, dim=1, descending=True, stable=True)
        top, experts = top[:, : n["k"]], experts[:, : n["k"]]
        over = top if "chosen" in words else logits
        rising, order = torch.sort(experts.flatten(), stable=True)
        return {
            "weights": (top - over.logsumexp(1, keepdim=True)).exp(),
            "experts": experts,
            "offsets": torch.searchsorted(rising, torch.arange(n["e"] + 1)),
            "slots": torch.argsort(order).reshape(experts.shape),
            "order": order.reshape(experts.shape),
        }

    return {"logits": random(rng, (n["t"], n["e"]), dtype)}, route


def grouped_matmul(n, words, dtype, rng):
    begins = np.sort(rng.integers(0, n["t"] + 1, n["e"] - 1))
    inputs = {
        "a": random(rng, (n["t"], n["k"]), dtype),
        "offsets": np.array([0, *begins, n["t"]], dtype=np.uint32),
        "b": random(rng, (n["e"], n["k"], n["n"]), dtype) / KIND[dtype](n["k"] ** 0.5),
    }

    def product(a, offsets, b):
        begins = offsets.long().tolist()
        return {"c": torch.cat([a[rows:end] @ matrix for rows, end, matrix in zip(begins, begins[1:], b)])}

    return inputs, product


PROBLEMS = {one.__name__: one for one in [moe_route, grouped_matmul]}


def problem(workload, direction, shape, dtype, rng):
    words = {part for part in shape.split(",") if part.isalpha()}
    return PROBLEMS[workload](extents(shape), words, dtype, rng)
