"""Parts of training: dropout, losses, a step of the optimiser."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import KIND, extents, gradients, random

ROWS = ["r37,c129", "r64,c1024"]
CASES = {
    "dropout": (["n4099", "n4096,p0.5"], dict.fromkeys(["fwd", "bwd"], ["naive", "stored", "regenerated"])),
    "adamw": (["n4099,t1", "n4096"], {"fwd": ["separate", "scalar", "vector"]}),
    "cross_entropy": (
        ROWS,
        {"fwd": ["naive", "separate", "online", "row"], "bwd": ["naive", "separate", "fused"]},
    ),
    "linear_cross_entropy": (
        ["n37,d129,v300", "n128,d64,v520"],
        {"fwd": ["naive", "separate", "fused"], "bwd": ["naive", "separate", "fused"]},
    ),
    "loss_sigmoid": (["n37,d129", "n128,d64"], {"fwd": ["naive", "separate", "fused"], "bwd": ["naive", "tiled"]}),
    "loss_smape": (["n4099,k4", "n4096,w2.5"], {"fwd": ["separate", "fused"], "bwd": ["scalar", "vector"]}),
}


def philox(counters, key):
    """The four words of Philox 4x32-10 for each counter below 2^32."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    words = [counters.astype(np.uint64)] + [np.zeros(len(counters), np.uint64)] * 3
    key = [np.uint64(word) for word in key]
    for _ in range(10):
        first, third = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(third >> half) ^ words[1] ^ key[0], third & low, (first >> half) ^ words[3] ^ key[1], first & low]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(words, 1)


def stays(count, share, key):
    """Factor of each element."""
    words = philox(np.arange((count + 3) // 4), key).reshape(-1)[:count]
    return torch.from_numpy((words >= int(share * 2**32)) / (1 - share))


def dropout(n, forward, dtype, rng):
    share = n.get("p", 0.1)
    inputs = {name: random(rng, n["n"], dtype) for name in (["x"] if forward else ["x", "dout"])}
    inputs["seed"] = rng.integers(0, 2**32, 2, dtype=np.uint32)
    factor = stays(n["n"], share, inputs["seed"])
    if forward:
        return inputs, lambda x, seed: {"out": x * factor}
    of = lambda x: [x * factor]
    return inputs, lambda x, seed, dout: {"dx": gradients(of, {"x": x}, ["x"], [dout])["x"]}


def adamw_step(param, grad, m, v, t):
    leaf = torch.nn.Parameter(param.clone())
    leaf.grad = grad.clone()
    optimizer = torch.optim.AdamW([leaf], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    optimizer.state[leaf] = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.step()
    state = optimizer.state[leaf]
    return {"param": leaf.detach(), "m": state["exp_avg"], "v": state["exp_avg_sq"]}


def adamw(n, forward, dtype, rng):
    inputs = {"param": random(rng, n["n"], dtype), "grad": random(rng, n["n"], dtype)}
    inputs |= {"m": 0.1 * random(rng, n["n"], "f32"), "v": 0.01 + 0.01 * random(rng, n["n"], "f32") ** 2}
    return inputs, lambda **given: adamw_step(**given, t=n.get("t", 100))


def cross_entropy(n, forward, dtype, rng):
    inputs = {"logits": random(rng, (n["r"], n["c"]), dtype)}
    inputs["targets"] = rng.integers(0, n["c"], n["r"], dtype=np.uint32)
    if forward:
        each = lambda logits, targets: F.cross_entropy(logits, targets.long(), reduction="none")[:, None]
        return inputs, lambda **given: {"loss": each(**given), "lse": given["logits"].logsumexp(1, keepdim=True)}
    inputs["dloss"] = 100.0 * n["r"] * np.ones(1, np.float32)

    def back(logits, targets, dloss):
        of = lambda logits: [F.cross_entropy(logits, targets.long())]
        return {"dlogits": gradients(of, {"logits": logits}, ["logits"], [dloss])["logits"]}

    return inputs, back


def linear_cross_entropy(n, forward, dtype, rng):
    inputs = {"x": random(rng, (n["n"], n["d"]), dtype)}
    inputs["w"] = (rng.standard_normal((n["v"], n["d"])) / n["d"] ** 0.5).astype(KIND[dtype])
    # Every sixteenth target is the first number that is no class, and ignored.
    inputs["targets"] = rng.integers(0, n["v"], n["n"], dtype=np.uint32)
    inputs["targets"][13::16] = n["v"]
    losses = lambda x, w, targets: F.cross_entropy(x @ w.T, targets.long(), ignore_index=n["v"], reduction="none")
    if forward:
        lse = lambda x, w: (x @ w.T).logsumexp(1, keepdim=True)
        return inputs, lambda x, w, targets: {"loss": losses(x, w, targets)[:, None], "lse": lse(x, w)}
    inputs["dloss"] = (8 + 8 * rng.random(n["n"])).astype(np.float32)

    def back(x, w, targets, dloss):
        found = gradients(lambda x, w: [losses(x, w, targets)], {"x": x, "w": w}, ["x", "w"], [dloss])
        return {"dx": found["x"], "dw": found["w"]}

    return inputs, back


def loss_sigmoid(n, forward, dtype, rng):
    dims, kind = (n["n"], n["d"]), KIND[dtype]
    inputs = {name: (rng.standard_normal(dims) / n["d"] ** 0.5).astype(kind) for name in ["x", "y"]}
    inputs |= {"temperature": np.full(1, 10, np.float32), "bias": np.full(1, -3, np.float32)}

    def loss(x, y, temperature, bias):
        signs = 2 * torch.eye(n["n"], dtype=torch.float64) - 1
        return [-F.logsigmoid(signs * (temperature * x @ y.T + bias)).sum() / n["n"]]

    if forward:
        return inputs, lambda **given: {"loss": loss(**given)[0]}
    inputs["dloss"] = np.full(1, 100, np.float32)

    def back(dloss, **given):
        return {f"d{name}": value for name, value in gradients(loss, given, list(given), [dloss]).items()}

    return inputs, back


def smape(pred, targets, k=2, w=0.5):
    size, along = targets.abs(), pred * targets.sign()
    outside = F.relu(torch.maximum(along - k * size, size / k - along))
    error = 2 * (pred - targets).abs() / (pred.abs() + size + 1e-8)
    return (error + w * outside / (size + 1e-8)).mean()


def loss_smape(n, forward, dtype, rng):
    inputs = {"pred": 3 * random(rng, n["n"], dtype, 1.0), "targets": random(rng, n["n"], dtype, 4.0)}

    loss = lambda pred, targets: [smape(pred, targets, n.get("k", 2), n.get("w", 0.5))]
    if forward:
        return inputs, lambda **given: {"loss": loss(**given)[0]}
    inputs["dloss"] = np.full(1, 100 * n["n"], np.float32)
    return inputs, lambda dloss, **given: {"dpred": gradients(loss, given, ["pred"], [dloss])["pred"]}


PROBLEMS = {one.__name__: one for one in [dropout, adamw, cross_entropy, linear_cross_entropy, loss_sigmoid, loss_smape]}


def problem(workload, direction, shape, dtype, rng):
    return PROBLEMS[workload](extents(shape), direction == "fwd", dtype, rng)
