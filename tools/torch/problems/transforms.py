"""Linear transforms of rows and images."""

import numpy as np
import torch

from .common import extents, random

CASES = {
    "hadamard": (["r37,n64", "r9,n512", "r5,n4096"], {"fwd": ["naive", "row"]}),
    "fft": (
        ["b9,n64,c2c", "b3,n512,c2c,inverse", "b2,n4096,c2c", "b1,n32768,c2c", "b3,n256,r2c", "b2,n64,m128,c2c"],
        {"fwd": ["naive", "lines", "vendor"]},
    ),
}


def sylvester(n):
    """Hadamard's matrix in natural order."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < n:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def hadamard(n, shape, dtype, rng):
    of = lambda x: {"out": x @ sylvester(n["n"]) / n["n"] ** 0.5}
    return {"x": random(rng, (n["r"], n["n"]), dtype)}, of


def roots(n):
    """The table of roots: root k of each power of two up to the longer side is entry order + k."""
    longest = max(n["n"], n.get("m", 1))
    table = np.zeros((2 * longest, 2))
    for order in (1 << power for power in range(longest.bit_length())):
        angle = 2 * np.pi * np.arange(order) / order
        table[order : 2 * order] = np.stack([np.cos(angle), -np.sin(angle)], 1)
    return table.astype(np.float32)


def fft(n, shape, dtype, rng):
    real, m = "r2c" in shape, n.get("m", 1)
    dims = (n["b"], n["n"]) if real else (n["b"], m, n["n"], 2)

    def transformed(x, roots):
        if real:
            return {"out": torch.view_as_real(torch.fft.rfft(x))}
        x = torch.view_as_complex(x.contiguous())
        inverse = "inverse" in shape
        out = torch.fft.ifft2(x, norm="forward") if inverse else torch.fft.fft2(x)
        return {"out": torch.view_as_real(out)}

    return {"x": random(rng, dims, dtype), "roots": roots(n)}, transformed


def problem(workload, direction, shape, dtype, rng):
    return {"hadamard": hadamard, "fft": fft}[workload](extents(shape), shape, dtype, rng)
