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


WORKLOADS = {one.__name__: one for one in [ssm_update]}


def named():
    """Cases of these workloads that are measured where none are given."""
    yield from (f"ssm_update/fwd/{shape}/bf16" for shape in ("b1,h80,d64,n128", "b64,h80,d64,n128", "b256,h128,g8,d64,n128"))
