"""Common parts of all problems."""

import re

import numpy as np
import torch

KIND = {"f32": np.float32, "f16": np.float16}


def extents(shape):
    """Numbers by name; words are left out."""
    parts = (re.fullmatch(r"([a-z]+)([0-9.]+)", part) for part in shape.split(","))
    return {part[1]: float(part[2]) if "." in part[2] else int(part[2]) for part in parts if part}


def random(rng, shape, dtype, around=0.0):
    return (around + rng.standard_normal(shape)).astype(KIND[dtype])


def gradients(function, inputs, names, upstream):
    """Gradients of a function's results, each weighted with its upstream gradient."""
    leaves = {name: value.clone().requires_grad_(name in names) for name, value in inputs.items()}
    results = function(**leaves)
    total = sum((result * weight).sum() for result, weight in zip(results, upstream))
    return dict(zip(names, torch.autograd.grad(total, [leaves[name] for name in names])))
