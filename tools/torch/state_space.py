"""PyTorch's calls for parts of selective state-space models, which it has no functions for.

They are written as tensor operations, eagerly and by `torch.compile`. The kernels of the package `mamba_ssm` are not called.
"""

from functools import partial

import torch
import torch.nn.functional as F
from parts import compiled, normal, words_of
from problems.common import extents


def heads(h, device):
    """Rates, skips and biases of steps."""
    return -1 - 15 * torch.rand(h, device=device), 2 * torch.rand(h, device=device), 5 * torch.rand(h, device=device) - 7


def ssm_update(direction, shape, dtype, device):
    n = extents(shape)
    b, h, g, d, size = n["b"], n["h"], n.get("g", 1), n["d"], n["n"]
    state = normal((b, h, d, size), torch.float32, device)
    x, z = (normal((b, h, d), dtype, device) for _ in range(2))
    dt = normal((b, h), dtype, device, 0.5)
    left, right = (normal((b, g, size), dtype, device) for _ in range(2))
    rate, skip, bias = heads(h, device)
    gated = "gated" in words_of(shape)

    def update(state, x, dt, left, right, z):
        """Changes the state in place."""
        step = F.softplus(dt.float() + bias)
        left, right = (shared.float().repeat_interleave(h // g, 1) for shared in (left, right))
        taken = (step[..., None] * x.float())[..., None] * right[:, :, None]
        state.mul_(torch.exp(step * rate)[..., None, None]).add_(taken)
        out = (state * left[:, :, None]).sum(-1) + skip[:, None] * x.float()
        return (out * F.silu(z.float()) if gated else out).to(x.dtype)

    yield "eager", False, partial(update, state, x, dt, left, right, z)
    yield "compile", False, compiled(update, state, x, dt, left, right, z)


def causal_conv1d(direction, shape, dtype, device):
    n = extents(shape)
    c, k = n["c"], n.get("k", 4)
    x, w = normal((n["b"], n["s"], c), dtype, device), normal((c, k), dtype, device, 0.5)
    bias, silu = normal(c, dtype, device), "silu" in words_of(shape)

    def convolved(x, w, bias):
        out = F.conv1d(x.mT, w[:, None], bias, padding=k - 1, groups=c)[..., : x.shape[1]].mT
        return F.silu(out) if silu else out

    def summed(x, w, bias):
        """Shifted tokens, each times a tap: one loop for a compiler."""
        before = F.pad(x, (0, 0, k - 1, 0)).float()
        out = sum((before[:, j : j + x.shape[1]] * w[:, j].float() for j in range(k)), bias.float())
        return (F.silu(out) if silu else out).to(x.dtype)

    yield "conv1d", False, partial(convolved, x, w, bias)
    yield "conv1d, compile", False, compiled(convolved, x, w, bias)
    yield "sum of taps, compile", False, compiled(summed, x, w, bias)


def fading(exponents):
    """Exponentials of the sums of exponents between each two places: zero for an earlier row than column."""
    sums = exponents.cumsum(-1)
    later = torch.ones(2 * exponents.shape[-1:], dtype=torch.bool, device=exponents.device).tril()
    return torch.exp((sums[..., :, None] - sums[..., None, :]).masked_fill(~later, -torch.inf))


def scan(x, dt, left, right, rate, skip, bias, chunk=128):
    """Results and last states by the chunks of Dao and Gu (2024). `left` is C, and `right` is B."""
    b, s, h, d = x.shape
    more, g = -s % chunk, left.shape[2]
    step = F.softplus(dt.float() + bias)
    # Of each chunk, with heads before tokens; tokens that are added have no steps.
    tokens, step = F.pad(x, (0, 0, 0, 0, 0, more)), F.pad(step, (0, 0, 0, more))
    split = lambda array: array.unflatten(1, (-1, chunk)).transpose(2, 3)
    exponents, weighted = split(step * rate), split(tokens * step[..., None].to(x.dtype))
    left, right = (split(F.pad(shared, (0, 0, 0, 0, 0, more))) for shared in (left, right))
    scores = (left @ right.mT).repeat_interleave(h // g, 2)
    out = (scores * fading(exponents).to(x.dtype)) @ weighted
    left, right = (shared.repeat_interleave(h // g, 2) for shared in (left, right))
    sums = exponents.cumsum(-1)
    rest = torch.exp(sums[..., -1:] - sums).to(x.dtype)
    after = ((right * rest[..., None]).mT @ weighted).float()
    # The state before each chunk, and after the last, from those of all chunks before.
    between = fading(F.pad(sums[..., -1].transpose(1, 2), (1, 0)))
    states = torch.einsum("bhij,bjhnd->bihnd", between[..., 1:], after)
    out = out + (left * torch.exp(sums).to(x.dtype)[..., None]) @ states[:, :-1].to(x.dtype)
    out = out.transpose(2, 3).flatten(1, 2)[:, :s] + skip.to(x.dtype)[:, None] * x
    return out, states[:, -1].mT.contiguous()


def ssm_scan(direction, shape, dtype, device):
    n = extents(shape)
    b, s, h, g, d, size = n["b"], n["s"], n["h"], n.get("g", 1), n["d"], n["n"]
    x, dt = normal((b, s, h, d), dtype, device), normal((b, s, h), dtype, device, 0.5)
    left, right = (normal((b, s, g, size), dtype, device) for _ in range(2))
    given = (x, dt, left, right, *heads(h, device))
    yield "chunks, eager", False, partial(scan, *given)
    yield "chunks, compile", False, compiled(scan, *given)


WORKLOADS = {one.__name__: one for one in [causal_conv1d, ssm_update, ssm_scan]}


def named():
    """Cases of these workloads that are measured where none are given."""
    yield from (f"ssm_update/fwd/{shape}/bf16" for shape in ("b1,h80,d64,n128", "b64,h80,d64,n128", "b256,h128,g8,d64,n128"))
    yield from (f"causal_conv1d/fwd/{shape},silu/bf16" for shape in ("b1,s2048,c5376", "b8,s4096,c5376"))
    yield from (f"ssm_scan/fwd/{shape}/bf16" for shape in ("b1,s2048,h80,d64,n128", "b4,s4096,h80,d64,n128"))
