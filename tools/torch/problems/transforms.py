"""Linear transforms of rows and images."""

import torch

from .common import extents, random

CASES = {
    "hadamard": (["r37,n64", "r9,n512", "r5,n4096"], {"fwd": ["naive", "row"]}),
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


def problem(workload, direction, shape, dtype, rng):
    return {"hadamard": hadamard}[workload](extents(shape), shape, dtype, rng)
