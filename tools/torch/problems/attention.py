"""Attention, and a step of decoding over a cache."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import extents, gradients, random

HEADS = [
    "b2,h3,s37,t50,d72",
    "b1,h8,kv2,s130,d128,causal",
    "b2,h6,kv1,s50,t67,d64,causal",
    "b3,h4,kv2,s50,t67,d64,padded",
    "b2,h3,s37,t50,d72,biased",
    "b1,h8,kv2,s130,d128,w40,causal",
    "b3,h4,s37,t70,d64,causal,padded,biased",
    "b1,h8,kv2,s130,d128,cap5,causal",
    "b2,h6,kv1,s50,t67,d64,causal,sinks",
    "b2,h3,s37,t50,d72,alibi",
    "b3,h4,s37,t70,d64,w20,cap5,causal,biased,sinks,alibi",
    "b1,h4,kv2,s130,d64,n5",
    "b1,h2,s300,d72,w40,n4,causal",
]
CACHES = [
    "b3,h8,kv2,t300,d128,ragged",
    "b2,h5,kv1,t67,d64,p7",
    "b2,h4,t130,d72,contiguous",
    "b3,h8,kv2,t300,d128,ragged,append",
    "b2,h20,kv1,t67,d64,p7,append",
    "b5,h6,kv2,t300,d72,pre160,ragged",
    "b9,h4,kv1,t130,d64,p7,pre105,ragged",
]
CASES = {
    "attention": (
        HEADS,
        {"fwd": ["manual", "subgroup", "flash", "flash_mma"], "bwd": ["manual", "flash", "flash_atomic", "flash_mma"]},
    ),
    "attention_decode": (CACHES, {"fwd": ["naive", "split", "split_append", "split_mma", "prefix", "prefix_mma"]}),
}


def changed_attention(q, k, v, added, cap, alibi, sinks):
    """Attention with a soft cap, slopes over distances, or a number per head that joins the sum of weights."""
    h, (s, t) = q.shape[1], (q.shape[2], k.shape[2])
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if alibi:
        slopes = torch.exp2(-8.0 * torch.arange(1, h + 1) / h)
        scores = scores - slopes[:, None, None] * (torch.arange(s)[:, None] + t - s - torch.arange(t)).abs()
    scores = scores + added
    if sinks is not None:
        column = sinks[None, :, None, None].expand(q.shape[0], h, s, 1)
        scores = torch.cat([scores, column], -1)
    return torch.softmax(scores, -1)[..., :t] @ v


def attention(q, k, v, causal, lengths=None, bounds=None, mask=None, window=0, sinks=None, cap=0, alibi=False):
    group = q.shape[1] // k.shape[1]
    s, t = q.shape[2], k.shape[2]
    added = torch.zeros(s, t, dtype=q.dtype) if mask is None else mask
    if causal:
        # Aligned to the last key; PyTorch's own `is_causal` is aligned to the first.
        visible = torch.ones(s, t, dtype=torch.bool).tril(t - s)
        visible &= torch.ones(s, t, dtype=torch.bool).triu(t - s - window + 1) if window else True
        added = added.masked_fill(~visible, -torch.inf)
    if lengths is not None:
        there = torch.arange(t) < lengths.long()[:, None]
        added = torch.where(there[:, None, None], added, -torch.inf)
    if bounds is not None:
        sequence = torch.searchsorted(bounds, torch.arange(s, dtype=bounds.dtype), right=True)
        added = added.masked_fill(sequence[:, None] != sequence, -torch.inf)
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    if cap or alibi or sinks is not None:
        return changed_attention(q, k, v, added, cap, alibi, sinks)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=added)


def attention_problem(n, shape, direction, dtype, rng):
    kv, t, words = n.get("kv", n["h"]), n.get("t", n["s"]), shape.split(",")
    causal = "causal" in words
    inputs = {"q": random(rng, (n["b"], n["h"], n["s"], n["d"]), dtype)}
    inputs |= {name: random(rng, (n["b"], kv, t, n["d"]), dtype) for name in "kv"}
    if "padded" in words:
        # With a key each, and no more queries than keys, no query is left without one: PyTorch gives NaN for such.
        inputs["lengths"] = rng.integers(1, t + 1, n["b"]).astype(np.uint32)
    if n.get("n"):
        # From the first token to the last, so that each is in a sequence.
        between = np.sort(rng.integers(0, n["s"] + 1, n["n"] - 1))
        inputs["bounds"] = np.concatenate([[0], between, [n["s"]]]).astype(np.uint32)
    if "biased" in words:
        inputs["mask"] = random(rng, (n["s"], t), dtype)
    if "sinks" in words:
        inputs["sinks"] = random(rng, (n["h"],), dtype)
    options = {"causal": causal, "window": n.get("w", 0), "cap": n.get("cap", 0), "alibi": "alibi" in words}
    if direction == "fwd":
        return inputs, lambda **given: {"out": attention(**given, **options)}
    inputs["dout"] = random(rng, inputs["q"].shape, dtype)

    def back(dout, **given):
        names = [name for name in ("q", "k", "v", "sinks") if name in given]
        found = gradients(lambda **g: [attention(**g, **options)], given, names, [dout])
        return {f"d{name}": value for name, value in found.items()}

    return inputs, back


def decode_problem(n, shape, dtype, rng):
    kv, size = n.get("kv", n["h"]), n.get("p", 16)
    entries = -(-n["t"] // size)
    pages = n["b"] * entries
    dealt = np.arange(pages) if "contiguous" in shape else rng.permutation(pages)
    inputs = {"q": random(rng, (n["b"], n["h"], n["d"]), dtype)}
    inputs |= {name: random(rng, (pages, size, kv, n["d"]), dtype) for name in "kv"}
    inputs["table"] = dealt.reshape(n["b"], entries).astype(np.uint32)
    # Pages of a shared prefix are those of the first sequence.
    inputs["table"][:, : n.get("pre", 0) // size] = inputs["table"][0, : n.get("pre", 0) // size]
    inputs["lengths"] = rng.integers(1, n["t"] + 1, n["b"]).astype(np.uint32)

    appends = "append" in shape.split(",")
    if appends:
        inputs |= {f"new_{name}": random(rng, (n["b"], kv, n["d"]), dtype) for name in "kv"}

    def of_sequence(q, k, v, table, length):
        k, v = (x[table.long()].flatten(0, 1)[: int(length)].transpose(0, 1)[None] for x in (k, v))
        return attention(q[None, :, None], k, v, False)[0, :, 0]

    def forward(q, k, v, table, lengths, **new):
        last = lengths.long() - 1
        pages = table.long().gather(1, (last // size)[:, None])[:, 0]
        # Each sequence's key and value at its last place, as a framework's cache is written.
        caches = {
            name: cache.index_put((pages, last % size), new[f"new_{name}"]) if appends else cache
            for name, cache in {"k": k, "v": v}.items()
        }
        out = torch.stack([of_sequence(q[i], **caches, table=table[i], length=lengths[i]) for i in range(n["b"])])
        return {"out": out} | (caches if appends else {})

    return inputs, forward


def problem(workload, direction, shape, dtype, rng):
    n = extents(shape)
    if workload == "attention_decode":
        return decode_problem(n, shape, dtype, rng)
    return attention_problem(n, shape, direction, dtype, rng)
