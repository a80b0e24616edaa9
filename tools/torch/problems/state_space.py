"""Parts of selective state-space models: causal convolutions, and states by one token or over sequences."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import extents, random

CASES = {
    "causal_conv1d": (
        ["b2,s3,c5,silu", "b3,s17,c12,k2", "b1,s257,c136,silu"],
        {"fwd": ["naive", "march"]},
    ),
    "ssm_update": (
        ["b2,h3,d5,n7,gated", "b3,h4,g2,d33,n16", "b2,h6,g3,d64,n128,gated"],
        {"fwd": ["naive", "rows"]},
    ),
    "ssm_scan": (
        ["b2,s70,h4,g2,d64,n16", "b1,s129,h2,d64,n128", "b1,s200,h3,d128,n48"],
        {"fwd": ["naive", "chunked", "mma"]},
    ),
}


def heads(h, rng):
    """Rates, skips and biases of steps."""
    rows = [-1 - 15 * rng.random(h), 2 * rng.random(h), 5 * rng.random(h) - 7]
    return np.stack(rows).astype(np.float32)


def per_head(shared, h):
    """Rows of groups, repeated for each of their heads."""
    return shared.repeat_interleave(h // shared.shape[-2], -2)


def update(state, x, dt, b, c, heads, z=None):
    """State and results of one token, in the types of the arguments."""
    rate, skip, bias = heads
    step = F.softplus(dt + bias)
    b, c = (per_head(shared, len(rate)) for shared in (b, c))
    taken = torch.einsum("bh,bhd,bhn->bhdn", step, x, b)
    state = state * torch.exp(step * rate)[..., None, None] + taken
    out = torch.einsum("bhdn,bhn->bhd", state, c) + skip[:, None] * x
    return state, out if z is None else out * F.silu(z)


def ssm_update(shape, dtype, rng):
    n, gated = extents(shape), "gated" in shape
    b, h, g, d, size = n["b"], n["h"], n.get("g", 1), n["d"], n["n"]
    inputs = {"state": random(rng, (b, h, d, size), "f32"), "x": random(rng, (b, h, d), dtype)}
    inputs |= {"dt": random(rng, (b, h), dtype), "heads": heads(h, rng)}
    inputs |= {name: random(rng, (b, g, size), dtype) for name in "bc"}
    inputs |= {"z": random(rng, (b, h, d), dtype)} if gated else {}
    return inputs, lambda **given: dict(zip(["state", "out"], update(**given)))


def ssm_scan(shape, dtype, rng):
    n = extents(shape)
    b, s, h, g, d, size = n["b"], n["s"], n["h"], n.get("g", 1), n["d"], n["n"]
    inputs = {"x": random(rng, (b, s, h, d), dtype), "dt": random(rng, (b, s, h), dtype), "heads": heads(h, rng)}
    inputs |= {name: random(rng, (b, s, g, size), dtype) for name in "bc"}

    def scan(heads, **tokens):
        state, out = torch.zeros(b, h, d, size, dtype=torch.float64), []
        for token in range(s):
            state, result = update(state, heads=heads, **{name: array[:, token] for name, array in tokens.items()})
            out.append(result)
        return {"out": torch.stack(out, 1), "state": state}

    return inputs, scan


def causal_conv1d(shape, dtype, rng):
    n = extents(shape)
    c, k = n["c"], n.get("k", 4)
    inputs = {"x": random(rng, (n["b"], n["s"], c), dtype), "w": random(rng, (c, k), dtype), "bias": random(rng, c, dtype)}

    def convolved(x, w, bias):
        out = F.conv1d(F.pad(x.mT, (k - 1, 0)), w[:, None], bias, groups=c).mT
        return {"out": F.silu(out) if "silu" in shape else out}

    return inputs, convolved


PROBLEMS = {one.__name__: one for one in [causal_conv1d, ssm_update, ssm_scan]}


def problem(workload, direction, shape, dtype, rng):
    return PROBLEMS[workload](shape, dtype, rng)
