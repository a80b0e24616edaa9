"""PyTorch's calls for layers of a mixture of experts, as `calls.py` has them."""

from functools import partial

import torch
from parts import eager_and_compiled, normal, words_of
from problems.common import extents


def moe_route(direction, shape, dtype, device):
    n, words = extents(shape), words_of(shape)
    logits = normal((n["t"], n["e"]), dtype, device)
    bounds = torch.arange(n["e"] + 1, device=device)
    items = torch.arange(n["t"] * n["k"], device=device)

    def route(logits):
        logits = logits.float()
        if "chosen" in words:
            top, experts = logits.topk(n["k"], dim=1)
            weights = top.softmax(1)
        else:
            weights, experts = logits.softmax(1).topk(n["k"], dim=1)
        rising, order = torch.sort(experts.flatten(), stable=True)
        slots = torch.empty_like(order).scatter_(0, order, items)
        return weights, experts, torch.searchsorted(rising, bounds), slots, order

    yield from eager_and_compiled(route, logits)


def begins(rows, groups):
    """First rows of uniform groups, and the number of rows, as the workload has them."""
    step = rows // groups // 8
    away = [0, step, -step]
    return [0, *(rows * group // groups + away[group % 3] for group in range(1, groups)), rows]


def grouped_matmul(direction, shape, dtype, device):
    n = extents(shape)
    a = normal((n["t"], n["k"]), dtype, device)
    b = normal((n["e"], n["k"], n["n"]), dtype, device, n["k"] ** -0.5)
    offsets = begins(n["t"], n["e"])
    if device == "cuda" and dtype == torch.bfloat16:
        ends = torch.tensor(offsets[1:], dtype=torch.int32, device=device)
        yield "_grouped_mm", False, partial(torch._grouped_mm, a, b, offs=ends)
    out = torch.empty((n["t"], n["n"]), dtype=dtype, device=device)
    groups = [slice(*rows) for rows in zip(offsets, offsets[1:])]
    operands = [(a[rows], matrix, out[rows]) for rows, matrix in zip(groups, b) if rows.start < rows.stop]

    def each():
        for rows, matrix, to in operands:
            torch.mm(rows, matrix, out=to)

    yield "a loop of mm", False, each


WORKLOADS = {one.__name__: one for one in [moe_route, grouped_matmul]}


def named():
    for shape in ["t16384,e8,k2,chosen", "t16384,e128,k8,chosen", "t65536,e256,k8,softmax"]:
        yield from (f"moe_route/fwd/{shape}/{dtype}" for dtype in ("bf16", "f32"))
    for shape in ["t16384,n14336,k4096,e8", "t131072,n14336,k4096,e8", "t65536,n1536,k4096,e128"]:
        yield f"grouped_matmul/fwd/{shape},uniform/bf16"
