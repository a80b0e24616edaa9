"""Self-attention with its projections, a whole layer of an encoder, and layers one behind the other."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import KIND, extents, gradients, random
from .training import stays

CASES = {
    "attention_block": (
        ["b3,h2,s37,d33", "b2,h3,s70,d72,causal"],
        {"fwd": ["level0", "level1", "level2", "level3", "vendor"]},
    ),
    "encoder_layer": (
        ["b3,s37,h2,d33,f65", "b3,s37,h2,d33,f65,p0.25", "b3,s40,h3,d72,f264,kept"],
        dict.fromkeys(["fwd", "bwd"], ["unfused", "fused", "mma", "vendor"]),
    ),
    "encoder": (
        ["l3,b3,s37,h2,d33,f65", "l2,b3,s40,h3,d72,f264"],
        dict.fromkeys(["fwd", "fwd+bwd"], ["unfused", "fused", "mma", "vendor"]),
    ),
}

PARTS = "qkv"


def weights(n, width, dtype, rng):
    scaled = lambda: random(rng, [width, width], dtype) / KIND[dtype](width**0.5)
    found = {f"w{part}": scaled() for part in PARTS} | {f"b{part}": random(rng, width, dtype) for part in PARTS}
    return found | {"wo": scaled(), "bo": random(rng, width, dtype)}


def attended(n, x, causal, given):
    """Attention over heads side by side, and the projection out of them."""
    heads = lambda rows: rows.unflatten(-1, (n["h"], n["d"])).transpose(1, 2)
    q, k, v = (heads(x @ given[f"w{part}"] + given[f"b{part}"]) for part in PARTS)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)
    return mixed @ given["wo"] + given["bo"]


def block(n, causal, dtype, rng):
    width = n["h"] * n["d"]
    inputs = {"x": random(rng, [n["b"], n["s"], width], dtype)} | weights(n, width, dtype, rng)
    return inputs, lambda x, **given: {"out": attended(n, x, causal, given)}


def parameters(n, dtype, rng):
    """Learned parameters of a layer."""
    width, middle = n["h"] * n["d"], n["f"]
    inputs = weights(n, width, dtype, rng)
    for which in "12":
        inputs[f"gamma{which}"] = random(rng, width, dtype, around=1.0)
        inputs[f"beta{which}"] = random(rng, width, dtype)
    inputs["w1"] = random(rng, [width, middle], dtype) / KIND[dtype](width**0.5)
    inputs["b1"] = random(rng, middle, dtype)
    inputs["w2"] = random(rng, [middle, width], dtype) / KIND[dtype](middle**0.5)
    return inputs | {"b2": random(rng, width, dtype)}


def passed(n, x, dropped, given):
    """A layer's result, and GELU's argument."""
    norm = lambda rows, which: F.layer_norm(rows, rows.shape[-1:], given[f"gamma{which}"], given[f"beta{which}"], 1e-5)
    total = x + dropped(attended(n, norm(x, 1), False, given), 1)
    pre = norm(total, 2) @ given["w1"] + given["b1"]
    return total + dropped(F.gelu(pre, approximate="tanh") @ given["w2"] + given["b2"], 2), pre


def layer(n, forward, kept, dtype, rng):
    inputs = {"x": random(rng, [n["b"], n["s"], n["h"] * n["d"]], dtype)} | parameters(n, dtype, rng)
    learned, keys = list(inputs), {}
    if share := n.get("p", 0):
        keys = {f"seed{which}": rng.integers(0, 2**32, 2, dtype=np.uint32) for which in "12"}

    def dropped(rows, which):
        return rows * stays(rows.numel(), share, keys[f"seed{which}"]).reshape(rows.shape) if share else rows

    of = lambda x, **given: passed(n, x, dropped, given)
    inputs |= keys
    if forward:

        def results(**given):
            out, pre = of(**given)
            return ({"pre": pre} if kept else {}) | {"out": out}

        return inputs, results
    inputs["dout"] = random(rng, inputs["x"].shape, dtype)

    def back(dout, **given):
        return named(gradients(lambda **g: [of(**g)[0]], given, learned, [dout]), [""])

    return inputs, back


def named(found, layers):
    """Gradients as outputs, those of queries, keys and values side by side; layers by the suffix of their names."""
    together = {}
    for layer in layers:
        for kind in "wb":
            parts = [found.pop(f"{kind}{part}{layer}") for part in PARTS]
            together[f"d{kind}qkv{layer}"] = torch.cat(parts, -1)
    return {f"d{name}": value for name, value in found.items()} | together


def encoder(n, forward, dtype, rng):
    of_layers = [parameters(n, dtype, rng) for _ in range(n["l"])]
    inputs = {"x": random(rng, [n["b"], n["s"], n["h"] * n["d"]], dtype)}
    for at, of_layer in enumerate(of_layers):
        inputs |= {f"{name}_{at}": value for name, value in of_layer.items()}

    def of(x, **given):
        for at, of_layer in enumerate(of_layers):
            x, _ = passed(n, x, lambda rows, _: rows, {name: given[f"{name}_{at}"] for name in of_layer})
        return x

    if forward:
        return inputs, lambda **given: {"out": of(**given)}
    learned = list(inputs)
    inputs["dout"] = random(rng, inputs["x"].shape, dtype)

    def both(dout, **given):
        found = gradients(lambda **g: [of(**g)], given, learned, [dout])
        return {"out": of(**given)} | named(found, [f"_{at}" for at in range(n["l"])])

    return inputs, both


def problem(workload, direction, shape, dtype, rng):
    n, words = extents(shape), shape.split(",")
    if workload == "attention_block":
        return block(n, "causal" in words, dtype, rng)
    if workload == "encoder":
        return encoder(n, direction == "fwd", dtype, rng)
    return layer(n, direction == "fwd", "kept" in words, dtype, rng)
