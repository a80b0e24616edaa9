"""Numbers rounded to codes of 8 bits, with scales of groups that are powers of two, and products with weights of 8 bits."""

import numpy as np
import torch

from .common import KIND, extents, random

CASES = {
    "quantize": (
        ["r3,c260,g32,e4m3", "r2,c136,e5m2", "r5,c96,g8,int8", "r2,c1160,g1160,e4m3"],
        {"fwd": ["naive", "held"]},
    ),
    "matmul_q8": (
        ["m9,n40,k256", "m3,n17,k100,g20", "m5,n33,k516,g12", "m17,n70,k640,g640", "m33,n48,k1280,g256"],
        {"fwd": ["naive", "rows", "mma"]},
    ),
}
# Largest number of each format.
MOST = {"e4m3": 448.0, "e5m2": 57344.0, "int8": 127.0}
FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
LEAST = -100


def parts(shape):
    """Rows, columns, neighbours with one scale, and the format."""
    words = shape.split(",")
    n = {word[0]: int(word[1:]) for word in words[:-1]}
    return n["r"], n["c"], n.get("g", 128), words[-1]


def quantized(x, group, kind):
    """Codes as bytes, and a scale for each group, of f32 or f64. The group divides the columns."""
    blocks = x.unflatten(-1, (-1, group))
    largest = blocks.abs().amax(-1, keepdim=True)
    # The mantissa is at least one half, and below one.
    mantissa, exponent = torch.frexp(largest / MOST[kind])
    scale = torch.ldexp(torch.ones_like(largest), (exponent - (mantissa == 0.5).int()).clamp(min=LEAST))
    exact = blocks / scale
    codes = exact.round().to(torch.int8) if kind == "int8" else exact.to(torch.float32).to(FORMATS[kind])
    return codes.view(torch.uint8).flatten(-2), scale.squeeze(-1)


def product(shape, dtype, rng):
    """Rows of A times int8 weights, four to a word, whose groups divide the depth."""
    n = extents(shape)
    group = min(n.get("g", 128), n["k"])
    words = rng.integers(0, 1 << 32, (n["n"], n["k"] // 4), dtype=np.uint32)
    scale = (1 + rng.random((n["n"], n["k"] // group))) / 128

    def of(a, b, scale):
        bytes = torch.stack([b.long() >> 8 * place & 255 for place in range(4)], -1).flatten(1)
        weights = bytes - 256 * (bytes > 127)
        return {"c": a @ (weights.double().unflatten(1, (-1, group)) * scale[:, :, None]).flatten(1).t()}

    return {"a": random(rng, (n["m"], n["k"]), dtype), "b": words, "scale": scale.astype(KIND[dtype])}, of


def problem(workload, direction, shape, dtype, rng):
    if workload == "matmul_q8":
        return product(shape, dtype, rng)
    rows, columns, group, kind = parts(shape)
    x = random(rng, (rows, columns), dtype)

    def words_and_scales(x):
        # A last group that is shorter has zeros behind it.
        padded = torch.nn.functional.pad(x, (0, -columns % group))
        codes, scale = quantized(padded, group, kind)
        four = codes[:, :columns].long().unflatten(-1, (-1, 4))
        places = torch.tensor([1, 1 << 8, 1 << 16, 1 << 24])
        return {"codes": (four * places).sum(-1).double(), "scale": scale}

    return {"x": x}, words_and_scales
