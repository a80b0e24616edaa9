"""Linear layers."""

import torch
import torch.nn.functional as F

from .common import KIND, extents, gradients, random

CASES = {
    "linear": (
        ["m37,n65,k129,gelu", "b2,m64,n72,k40,nt,residual", "m70,n64,k33,tn", "m5,n72,k136,nt,gelu"],
        {"fwd": ["naive", "separate", "tiled", "rows", "rows_mma", "mma", "vendor"], "bwd": ["naive", "tiled", "mma", "vendor"]},
    ),
    "mlp_gelu": (
        ["m37,c65,f129", "m64,c72,f136,kept"],
        dict.fromkeys(["fwd", "bwd"], ["naive", "separate", "fused", "mma", "vendor"]),
    ),
    "mlp_glu": (["m37,c65,f129", "m64,c72,f136,gelu"], {"fwd": ["naive", "separate", "fused", "mma", "vendor"]}),
}


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def linear(n, forward, shape, dtype, rng):
    batch, curved = n.get("b", 1), "gelu" in shape or "residual" in shape
    turned = lambda key, x: x.transpose(1, 2) if key in shape.split(",") else x
    dims = lambda rows, columns, key: [batch, *((columns, rows) if key in shape.split(",") else (rows, columns))]
    inputs = {
        "x": random(rng, dims(n["m"], n["k"], "tn"), dtype),
        "w": random(rng, dims(n["k"], n["n"], "nt"), dtype) / KIND[dtype](n["k"] ** 0.5),
        "bias": random(rng, n["n"], dtype),
    }
    pre = lambda x, w, bias: turned("tn", x) @ turned("nt", w) + bias
    of = lambda x, w, bias: tanh_gelu(pre(x, w, bias)) if curved else pre(x, w, bias)
    if forward:
        if "residual" not in shape:
            return inputs, lambda **given: {"out": of(**given)}
        inputs["residual"] = random(rng, [batch, n["m"], n["n"]], dtype)
        return inputs, lambda residual, **given: {"out": of(**given) + residual}
    inputs["dout"] = random(rng, [batch, n["m"], n["n"]], dtype)
    bias = inputs["bias"] if curved else inputs.pop("bias")

    def back(dout, **given):
        given.setdefault("bias", torch.zeros(n["n"], dtype=torch.float64))
        found = gradients(lambda **g: [of(**g)], given, ["x", "w", "bias"], [dout])
        return {f"d{name}": value for name, value in found.items()}

    return inputs, back


def mlp_glu(n, act, dtype, rng):
    m, c, f = n["m"], n["c"], n["f"]
    scale = KIND[dtype]
    inputs = {
        "x": random(rng, [m, c], dtype),
        "wg": random(rng, [c, f], dtype) / scale(c**0.5),
        "wu": random(rng, [c, f], dtype) / scale(c**0.5),
        "w2": random(rng, [f, c], dtype) / scale(f**0.5),
    }
    return inputs, lambda x, wg, wu, w2: {"out": (act(x @ wg) * (x @ wu)) @ w2}


def mlp_gelu(n, forward, kept, dtype, rng):
    m, c, f = n["m"], n["c"], n["f"]
    scale = KIND[dtype]
    inputs = {
        "x": random(rng, [m, c], dtype),
        "w1": random(rng, [c, f], dtype) / scale(c**0.5),
        "b1": random(rng, f, dtype),
        "w2": random(rng, [f, c], dtype) / scale(f**0.5),
    }
    pre = lambda x, w1, b1: x @ w1 + b1
    if forward:
        inputs["b2"] = random(rng, c, dtype)

        def of(x, w1, b1, w2, b2):
            middle = pre(x, w1, b1)
            return ({"pre": middle} if kept else {}) | {"out": tanh_gelu(middle) @ w2 + b2}

        return inputs, of
    inputs["dout"] = random(rng, [m, c], dtype)

    def back(dout, **given):
        given["b2"] = torch.zeros(c, dtype=torch.float64)
        of = lambda x, w1, b1, w2, b2: [tanh_gelu(pre(x, w1, b1)) @ w2 + b2]
        found = gradients(of, given, ["x", "w1", "b1", "w2", "b2"], [dout])
        return {f"d{name}": value for name, value in found.items()}

    return inputs, back


def problem(workload, direction, shape, dtype, rng):
    n, forward = extents(shape), direction == "fwd"
    if workload == "mlp_glu":
        return mlp_glu(n, tanh_gelu if "gelu" in shape else F.silu, dtype, rng)
    if workload == "mlp_gelu":
        return mlp_gelu(n, forward, "kept" in shape, dtype, rng)
    return linear(n, forward, shape, dtype, rng)
