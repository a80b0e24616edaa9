"""Gated delta rule of linear attention: states by one token or over sequences."""

import numpy as np
import torch

from .common import KIND, extents, random

CASES = {
    "gated_delta": (
        ["b2,s70,h4,dk64", "b1,s129,h2,dk128,dv64", "b1,s65,h3,dk9,dv20"],
        {"fwd": ["naive", "recurrent", "chunked", "chunked_mma"]},
    ),
    "gated_delta_update": (
        ["b2,h3,dk5,dv7", "b3,h4,dk33,dv16", "b2,h6,dk128"],
        {"fwd": ["naive", "rows"]},
    ),
}


def update(state, q, k, v, g, beta):
    """State and results of one token, by the formula as written in the paper."""
    known = torch.einsum("bhkv,bhk->bhv", state, k)
    state = torch.exp(g)[..., None, None] * (state - torch.einsum("bh,bhk,bhv->bhkv", beta, k, known))
    state = state + torch.einsum("bh,bhk,bhv->bhkv", beta, k, v)
    return state, torch.einsum("bhkv,bhk->bhv", state, q) / k.shape[-1] ** 0.5


def inputs_of(tokens, n, dtype, rng):
    dk, dv = n["dk"], n.get("dv", n["dk"])
    k = rng.standard_normal((*tokens, dk))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    inputs = {"q": random(rng, (*tokens, dk), dtype), "k": k.astype(KIND[dtype]), "v": random(rng, (*tokens, dv), dtype)}
    return inputs | {"g": (-0.5 * rng.random(tokens)).astype(np.float32), "beta": rng.random(tokens).astype(KIND[dtype])}


def gated_delta(shape, dtype, rng):
    n = extents(shape)
    inputs = inputs_of((n["b"], n["s"], n["h"]), n, dtype, rng)

    def scan(**tokens):
        state, out = torch.zeros(n["b"], n["h"], n["dk"], n.get("dv", n["dk"]), dtype=torch.float64), []
        for token in range(n["s"]):
            state, result = update(state, **{name: array[:, token] for name, array in tokens.items()})
            out.append(result)
        return {"out": torch.stack(out, 1), "state": state}

    return inputs, scan


def gated_delta_update(shape, dtype, rng):
    n = extents(shape)
    tokens = n["b"], n["h"]
    inputs = inputs_of(tokens, n, dtype, rng) | {"state": random(rng, (*tokens, n["dk"], n.get("dv", n["dk"])), "f32")}
    return inputs, lambda **given: dict(zip(["state", "out"], update(**given)))


PROBLEMS = {one.__name__: one for one in [gated_delta, gated_delta_update]}


def problem(workload, direction, shape, dtype, rng):
    return PROBLEMS[workload](shape, dtype, rng)
