"""PyTorch's calls for the gated delta rule of linear attention, which it has no functions for.

They are written as tensor operations, eagerly and by `torch.compile`. The kernels of the package `fla` are not called.
"""

from functools import partial

import torch
import torch.nn.functional as F
from parts import compiled, normal
from problems.common import extents

CHUNK = 64


def factors(q, k, g, beta):
    """Sums of exponents, solved systems and weighted scores of chunks. Chunks are the third axis, and their tokens the fourth."""
    sums = g.cumsum(-1)
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    decays = torch.exp((sums[..., :, None] - sums[..., None, :]).masked_fill(~later, -torch.inf))
    keys = k.mT
    system = (beta.float()[..., None] * (k @ keys).float() * decays).tril(-1)
    strengths = torch.diag_embed(beta.float())
    inverse = torch.linalg.solve_triangular(system, strengths, upper=False, unitriangular=True)
    scores = (q @ keys).float() * decays
    return sums, inverse.to(q.dtype), scores.to(q.dtype)


def chunk(state, q, k, v, sums, inverse, scores):
    """State after a chunk, and the results of its tokens."""
    decays = torch.exp(sums)[..., None].to(q.dtype)
    before = state.to(q.dtype)
    delta = inverse @ (v - decays * (k @ before))
    out = decays * (q @ before) + scores @ delta
    rest = torch.exp(sums[..., -1:] - sums)[..., None].to(q.dtype)
    state = torch.exp(sums[..., -1])[..., None, None] * state + ((k * rest).mT @ delta).float()
    return state, out


def chunked(q, k, v, g, beta, first=factors, each=chunk):
    """Results and last states by chunks of 64 tokens."""
    (b, s, h, dk), dv = q.shape, v.shape[-1]
    more = -s % CHUNK
    split = lambda x: F.pad(x, (0, 0, 0, 0, 0, more)).transpose(1, 2).unflatten(2, (-1, CHUNK)).contiguous()
    q, k, v = split(q * dk**-0.5), split(k), split(v)
    g, beta = (split(x[..., None]).squeeze(-1) for x in (g, beta))
    sums, inverse, scores = first(q, k, g, beta)
    state, out = torch.zeros(b, h, dk, dv, device=q.device), torch.empty_like(v)
    for i in range(v.shape[2]):
        state, out[:, :, i] = each(state, *(x[:, :, i] for x in (q, k, v, sums, inverse, scores)))
    return out.flatten(2, 3)[:, :, :s].transpose(1, 2), state


def inputs(tokens, n, dtype, device):
    dk, dv = n["dk"], n.get("dv", n["dk"])
    k = F.normalize(normal((*tokens, dk), torch.float32, device), dim=-1).to(dtype)
    g = -0.5 * torch.rand(tokens, device=device)
    beta = torch.rand(tokens, device=device).to(dtype)
    return normal((*tokens, dk), dtype, device), k, normal((*tokens, dv), dtype, device), g, beta


def gated_delta(direction, shape, dtype, device):
    n = extents(shape)
    given = inputs((n["b"], n["s"], n["h"]), n, dtype, device)
    yield "chunks, eager", False, partial(chunked, *given)
    # The loop over chunks stays eager: a compiler would write it out.
    parts = [torch.compile(part, mode="max-autotune-no-cudagraphs", dynamic=False) for part in (factors, chunk)]
    yield "chunks, compile", False, partial(chunked, *given, *parts)


def update(state, q, k, v, g, beta):
    """Changes the state in place."""
    state.mul_(torch.exp(g)[..., None, None])
    known = (state * k.float()[..., None]).sum(-2)
    delta = beta.float()[..., None] * (v.float() - known)
    state.add_(k.float()[..., None] * delta[..., None, :])
    return ((state * q.float()[..., None]).sum(-2) * q.shape[-1] ** -0.5).to(q.dtype)


def gated_delta_update(direction, shape, dtype, device):
    n = extents(shape)
    tokens = n["b"], n["h"]
    state = normal((*tokens, n["dk"], n.get("dv", n["dk"])), torch.float32, device)
    given = inputs(tokens, n, dtype, device)
    yield "eager", False, partial(update, state, *given)
    yield "compile", False, compiled(update, state, *given)


WORKLOADS = {one.__name__: one for one in [gated_delta, gated_delta_update]}


def named():
    """Cases of these workloads that are measured where none are given."""
    yield from (f"gated_delta/fwd/{shape}/bf16" for shape in ("b1,s4096,h16,dk128", "b8,s2048,h32,dk128"))
    yield from (f"gated_delta_update/fwd/{shape}/bf16" for shape in ("b1,h32,dk128", "b64,h32,dk128"))
