"""Rotary embedding of new tokens, and their keys and values in a paged cache."""

import numpy as np
import torch

from .common import KIND, extents
from .quantize import MOST, quantized

CASES = {
    "rope_append": (
        [
            "b3,s4,h6,kv2,t67,d72,p7,ragged",
            "b2,s37,h4,kv2,d128,e4m3",
            "b5,h8,t50,d64,ragged,int8",
            "b3,s6,h2,kv1,t20,d24,p5,ragged,e4m3",
        ],
        {"fwd": ["naive", "separate", "fused"]},
    ),
}


def resolved(shape):
    """Extents with their defaults, and the codes of the cache."""
    given = extents(shape)
    n = {"s": 1, "p": 16, "kv": given["h"], "t": given.get("s", 1)} | given
    return n, next((word for word in shape.split(",") if word in MOST), None)


def table_of(n):
    """Cosines and sines of all positions, multiples of 2**-11."""
    half = n["d"] // 2
    angles = np.outer(np.arange(n["t"]), 10_000.0 ** (-np.arange(half) / half))
    return (np.round(2048 * np.concatenate([np.cos(angles), np.sin(angles)], 1)) / 2048).astype(np.float32)


def places(n, table, lengths):
    """Positions of new tokens, which of them are no padding, and page and place in the page of those."""
    position = lengths.long()[:, None] + torch.arange(n["s"], device=lengths.device) - n["s"]
    real = position >= 0
    position = position.clamp(min=0)
    page = table.long().gather(1, position // n["p"])
    return position, real, page[real], (position % n["p"])[real]


def rotated(x, cosine, sine):
    first, second = x.unflatten(-1, (2, -1)).unbind(-2)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def rope_append(shape, dtype, rng):
    n, kind = resolved(shape)
    b, s, h, kv, d = (n[name] for name in ("b", "s", "h", "kv", "d"))
    entries = -(-n["t"] // n["p"])
    rows = (2, b * entries, n["p"], kv)
    inputs = {
        # Odd multiples of 2**-7: rotations are exact in f32, and so are codes.
        "qkv": ((2 * np.floor(64 * rng.standard_normal((b, s, h + 2 * kv, d)).clip(-3, 3)) + 1) / 128).astype(KIND[dtype]),
        "angles": table_of(n),
        "table": rng.permutation(b * entries).reshape(b, entries).astype(np.uint32),
        "lengths": rng.integers(0, n["t"] + 1, b).astype(np.uint32),
    }
    if kind:
        inputs["cache"] = rng.integers(0, 1 << 32, (*rows, d // 4), dtype=np.uint32)
        inputs["scales"] = rng.random(rows, np.float32)
    else:
        inputs["cache"] = rng.standard_normal((*rows, d)).astype(KIND[dtype])

    def of(qkv, angles, table, lengths, cache, scales=None):
        position, real, page, place = places(n, table, lengths)
        cosine, sine = angles[position][:, :, None].chunk(2, -1)
        q, k, v = qkv.split([h, kv, kv], 2)
        fresh = torch.stack([rotated(k, cosine, sine), v])[:, real]
        found = {"q": rotated(q, cosine, sine) * real[:, :, None, None]}
        cache = cache.clone()
        if not kind:
            cache[:, page, place] = fresh
            return found | {"cache": cache}
        codes, scale = quantized(fresh, d, kind)
        weights = torch.tensor([1, 1 << 8, 1 << 16, 1 << 24])
        cache[:, page, place] = (codes.long().unflatten(-1, (-1, 4)) * weights).sum(-1).double()
        scales = scales.clone()
        scales[:, page, place] = scale.squeeze(-1)
        return found | {"cache": cache, "scales": scales}

    return inputs, of


def problem(workload, direction, shape, dtype, rng):
    return rope_append(shape, dtype, rng)
