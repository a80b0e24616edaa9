"""PyTorch's calls for a case of Parallax: one for each usual way to write it.

`calls(problem, device)` gives (name, whether cuDNN may try its algorithms first, call) for each, on tensors of its own, of which
the calls of one problem share the inputs. `problem` is a case string without its variant. Shapes are resolved as our workloads do.
"""

from functools import partial

import delta_rule
import dense
import experts
import numpy as np
import state_space
import torch
import torch.nn.functional as F
from parts import below, compiled, like, normal, with_cudnn, words_of
from problems import cache as stored
from problems import quantize as numbers
from problems.common import extents
from problems.images import Problem, back, boxes_of, first, resolved, rivals
from problems.transforms import sylvester

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
aten = torch.ops.aten


def convolution(workload, direction, shape, dtype, device):
    of = Problem(workload, shape)
    n, relu = of.n, "relu" in of.words
    given = {name: normal(dims, dtype, device) for name, dims in of.arrays.items()}
    depthwise, bias = workload.startswith("depthwise"), given.get("bias")
    x, w = first(given["x"], of.last), given["w"]
    if depthwise:
        w = (w.movedim(-1, 0) if of.last else w).unsqueeze(1)
    else:
        w = first(w, of.last)
    dimensions = x.dim() - 2
    # As a model has it: in the order in memory of the images.
    kept = {4: torch.channels_last, 5: torch.channels_last_3d}[x.dim()] if of.last else torch.contiguous_format
    w = w.contiguous(memory_format=kept)
    groups = n["c"] if depthwise else n["g"]
    stride, padding, dilation = ([n[name]] * dimensions for name in "spl")
    forward = F.conv3d if of.deep else F.conv2d

    def eager(x, w, bias):
        out = forward(x, w, bias, stride, padding, dilation, groups)
        return F.relu(out) if relu else out

    if direction == "fwd":
        yield from with_cudnn("eager", partial(eager, x, w, bias))
        if depthwise and bias is None and device == "cuda":
            # PyTorch has kernels of its own for most of these, and this asks cuDNN all the same.
            call = partial(aten.cudnn_convolution, x, w, padding, stride, dilation, groups, True, False, False)
            yield from with_cudnn("cudnn_convolution", call)
        if relu or bias is not None:
            yield "compile", True, compiled(eager, x, w, bias)
        return
    out = eager(x, w, bias)
    dout = normal(back(out, of.last).shape, dtype, device)
    dout = first(dout, of.last)
    sizes = None if bias is None else list(bias.shape)

    def gradients(dout):
        if relu:
            dout = aten.threshold_backward(dout, out, 0)
        none = [0] * dimensions
        wanted = [True, True, bias is not None]
        return aten.convolution_backward(dout, x, w, sizes, stride, padding, dilation, False, none, groups, wanted)

    yield from with_cudnn("eager", partial(gradients, dout))


def separable_conv3d(direction, shape, dtype, device):
    of = Problem("separable_conv3d", shape)
    given = {name: normal(dims, dtype, device) for name, dims in of.arrays.items()}
    act = F.relu if "relu" in of.words else lambda out: out
    yield from with_cudnn("eager", lambda: act(of(**given)))


def pool(direction, shape, dtype, device):
    n, words = resolved("pool", shape)
    last = "nhwc" in words
    dims = (n["n"], n["h"], n["w"], n["c"]) if last else (n["n"], n["c"], n["h"], n["w"])
    x = first(normal(dims, dtype, device), last)
    window = [n["k"], n["kw"]], [n["s"]] * 2, [n["p"]] * 2
    if "adaptive" in words:
        forward = partial(F.adaptive_avg_pool2d, x, (n["oh"], n["ow"]))
    elif "max" in words:
        forward = partial(F.max_pool2d, x, *window)
    else:
        forward = partial(F.avg_pool2d, x, *window)
    if direction == "fwd":
        yield "eager", False, forward
        return
    out = forward()
    dout = like(out)
    if "adaptive" in words:
        yield "eager", False, partial(aten._adaptive_avg_pool2d_backward, dout, x)
    elif "max" in words:
        _, places = aten.max_pool2d_with_indices(x, *window)
        call = partial(aten.max_pool2d_with_indices_backward, dout, x, *window, [1, 1], False, places)
        yield "eager", False, call
    else:
        yield "eager", False, partial(aten.avg_pool2d_backward, dout, x, *window, False, True, None)


def resize(direction, shape, dtype, device):
    n, words = resolved("resize", shape)
    last, kind = "nhwc" in words, "nearest" if "nearest" in words else "bilinear"
    dims = (n["n"], n["h"], n["w"], n["c"]) if last else (n["n"], n["c"], n["h"], n["w"])
    x, size = first(normal(dims, dtype, device), last), [n["oh"], n.get("ow", n["oh"])]
    forward = partial(F.interpolate, x, size=size, mode=kind)
    if direction == "fwd":
        yield "eager", False, forward
        return
    dout = like(forward())
    if kind == "nearest":
        yield "eager", False, partial(aten.upsample_nearest2d_backward, dout, size, list(x.shape))
    else:
        yield "eager", False, partial(aten.upsample_bilinear2d_backward, dout, size, list(x.shape), False)


def roi_align(direction, shape, dtype, device):
    from torchvision.ops import roi_align as by_torchvision

    given = extents(shape)
    n = {"w": given["h"], "s": 2} | given
    boxes = torch.from_numpy(boxes_of(n, np.random.default_rng(1)))
    index = below(n["n"], n["r"], "cpu", torch.int64)
    rois = torch.cat([index[:, None], boxes], 1).to(device).to(dtype)
    x = normal((n["n"], n["c"], n["h"], n["w"]), dtype, device)
    # torchvision wants boxes in the type of the images; ours are f32.
    yield "torchvision", False, partial(by_torchvision, x, rois, n["p"], 1.0, n["s"], True)


def deform_conv2d(direction, shape, dtype, device):
    from torchvision.ops import deform_conv2d as by_torchvision

    given = extents(shape)
    n = {"m": given["c"], "w": given["h"], "k": 3, "s": 1, "p": 0} | given
    oh, ow = ((n[extent] + 2 * n["p"] - n["k"]) // n["s"] + 1 for extent in "hw")
    taps = n["k"] ** 2
    # torchvision has channels first, and wants offsets in the type of the images; ours are f32.
    x = normal((n["n"], n["c"], n["h"], n["w"]), dtype, device)
    offset = normal((n["n"], 2 * taps, oh, ow), dtype, device)
    mask = normal((n["n"], taps, oh, ow), dtype, device).sigmoid()
    w, bias = normal((n["m"], n["c"], n["k"], n["k"]), dtype, device), normal((n["m"],), dtype, device)
    yield "torchvision", False, partial(by_torchvision, x, offset, w, bias, n["s"], n["p"], mask=mask)


def nms(direction, shape, dtype, device):
    from torchvision.ops import batched_nms
    from torchvision.ops import nms as by_torchvision

    n = {"c": 1, "t": 0.5} | extents(shape)
    boxes = torch.from_numpy(rivals(n, np.random.default_rng(1))).to(device)
    # torchvision always sorts by score first.
    scores = (torch.randperm(n["n"]) / n["n"]).to(device)
    if n["c"] > 1:
        yield "torchvision", False, partial(batched_nms, boxes, scores, below(n["c"], n["n"], device, torch.int64), n["t"])
    else:
        yield "torchvision", False, partial(by_torchvision, boxes, scores, n["t"])


def rope_append(direction, shape, dtype, device):
    n, kind = stored.resolved(shape)
    b, s, h, kv, d = (n[name] for name in ("b", "s", "h", "kv", "d"))
    entries = -(-n["t"] // n["p"])
    qkv = normal((b, s, h + 2 * kv, d), dtype, device)
    angles = torch.from_numpy(stored.table_of(n)).to(device)
    table = torch.randperm(b * entries).reshape(b, entries).to(device)
    lengths = torch.randint(s, n["t"] + 1, (b,)).to(device)
    cache = torch.zeros((2, b * entries, n["p"], kv, d), device=device, dtype=torch.uint8 if kind else dtype)
    scales = torch.zeros((2, b * entries, n["p"], kv), device=device)

    def step(qkv, angles, table, lengths, cache, scales):
        position = lengths[:, None] + torch.arange(s, device=device) - s
        page, place = table.gather(1, position // n["p"]), position % n["p"]
        cosine, sine = angles[position][:, :, None].chunk(2, -1)
        q, k, v = qkv.float().split([h, kv, kv], 2)
        fresh = torch.stack([stored.rotated(k, cosine, sine), v])
        if kind:
            codes, scale = numbers.quantized(fresh, d, kind)
            cache[:, page, place] = codes
            scales[:, page, place] = scale.squeeze(-1)
        else:
            cache[:, page, place] = fresh.to(dtype)
        return stored.rotated(q, cosine, sine).to(dtype)

    yield "eager", False, partial(step, qkv, angles, table, lengths, cache, scales)
    yield "compile", False, compiled(step, qkv, angles, table, lengths, cache, scales)


def embedding(direction, shape, dtype, device):
    n = extents(shape)
    index = below(n["v"], n["n"], device)
    if direction == "fwd":
        table = normal((n["v"], n["d"]), dtype, device)
        yield "eager", False, partial(F.embedding, index, table)
        yield "compile", False, compiled(F.embedding, index, table)
    else:
        dout = normal((n["n"], n["d"]), dtype, device)
        yield "eager", False, partial(aten.embedding_dense_backward, dout, index, n["v"], -1, False)


def embedding_bag(direction, shape, dtype, device):
    n, words = extents(shape), words_of(shape)
    items, mode = n["b"] * n["l"], next(iter(words & {"sum", "mean", "max"}))
    index = below(n["v"], items, device)
    offsets = torch.arange(0, items + 1, n["l"], device=device, dtype=torch.int32)
    table = normal((n["v"], n["d"]), dtype, device)
    # PyTorch wants factors in the type of the table; ours are f32.
    weight = normal(items, dtype, device) if "weighted" in words else None
    how = {"mode": mode, "include_last_offset": True}
    if direction == "fwd":
        yield "eager", False, lambda: F.embedding_bag(index, table, offsets, per_sample_weights=weight, **how)
        return
    leaves = [leaf.requires_grad_() for leaf in (table, weight) if leaf is not None]
    out = F.embedding_bag(index, table, offsets, per_sample_weights=weight, **how)
    dout = like(out)
    yield "eager", False, lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)


def hash_embedding(direction, shape, dtype, device):
    n, low = extents(shape), 0xFFFFFFFF
    ids = below(2**32, n["r"], device, torch.int64)
    groups = below(n["g"], n["r"], device, torch.int64)
    if "sorted" in words_of(shape):
        groups = groups.sort().values
    weights = normal(n["r"], torch.float32, device)

    def place(ids, groups, weights):
        """By MurmurHash3's finaliser; products of 64 bits wrap, and their lower half is right all the same."""
        h = ids ^ (ids >> 16)
        h = (h * 0x85EBCA6B) & low
        h = h ^ (h >> 13)
        h = (h * 0xC2B2AE35) & low
        h = h ^ (h >> 16)
        return groups * n["d"] + (h & 0x7FFFFFFF) % n["d"], torch.where(h >> 31 == 1, -weights, weights)

    def summed(places, signed):
        return torch.zeros(n["g"] * n["d"], device=device).scatter_add(0, places, signed)

    def whole(ids, groups, weights):
        return summed(*place(ids, groups, weights))

    yield "scatter_add of hashed columns", False, partial(summed, *place(ids, groups, weights))
    yield "eager", False, partial(whole, ids, groups, weights)
    yield "compile", False, compiled(whole, ids, groups, weights)


def transpose(direction, shape, dtype, device):
    n = extents(shape)
    x = normal((n.get("b", 1), n["r"], n.get("c", n["r"])), dtype, device)
    turned = lambda x: x.transpose(1, 2).contiguous()
    yield "eager", False, partial(turned, x)
    yield "compile", False, compiled(turned, x)


def reduce(direction, shape, dtype, device):
    x = normal(extents(shape)["n"], dtype, device)
    total = lambda x: x.sum(dtype=torch.float32)
    largest = lambda x: x.max().float()
    call = total if "sum" in words_of(shape) else largest
    yield "eager", False, partial(call, x)
    yield "compile", False, compiled(call, x)


def scan(direction, shape, dtype, device):
    x = normal(extents(shape)["n"], dtype, device)
    sums = (lambda x: x.cumsum(0)) if "inclusive" in words_of(shape) else (lambda x: x.cumsum(0) - x)
    yield "eager", False, partial(sums, x)
    yield "compile", False, compiled(sums, x)


def sort_by_key(direction, shape, dtype, device):
    n = extents(shape)
    # Of the same number of bytes; PyTorch sorts no integers without a sign.
    keys = below(2 ** min(n.get("bits", 32), 31) - 1, n["n"], device)
    values = below(2**31 - 1, n["n"], device)

    def by_key(keys, values):
        rising, order = torch.sort(keys, stable=True)
        return rising, values[order]

    yield "eager", False, partial(by_key, keys, values)


def top_k(direction, shape, dtype, device):
    n = extents(shape)
    x = normal((n["r"], n["n"]), dtype, device)
    largest = lambda x: torch.topk(x, n["k"], dim=1)
    yield "eager", False, partial(largest, x)
    yield "compile", False, compiled(largest, x)
    if n["k"] == 1:
        argmax = lambda x: x.max(dim=1)
        yield "max", False, partial(argmax, x)
        yield "max, compile", False, compiled(argmax, x)


def sample(direction, shape, dtype, device):
    n = extents(shape)
    x, u = normal((n["r"], n["n"]), dtype, device), torch.rand(n["r"], 1).to(device)
    temperature, share, least = n.get("t", 1.0), n.get("p", 1.0), n.get("m", 0.0)

    def drawn(x, u):
        values, order = torch.topk(x, n["k"], dim=1)
        weights = (values.float() / temperature).softmax(1)
        keep = weights >= least * weights[:, :1]
        if share < 1:
            keep &= weights.cumsum(1) - weights < share
        kept = weights * keep
        sums = kept.cumsum(1)
        place = torch.searchsorted(sums, u * sums[:, -1:], right=True).clamp(max=n["k"] - 1)
        return order.gather(1, place), kept.gather(1, place) / sums[:, -1:]

    yield "eager", False, partial(drawn, x, u)
    yield "compile", False, compiled(drawn, x, u)


def standard_scaler(direction, shape, dtype, device):
    n = extents(shape)
    x = normal((n["n"], n["f"]), dtype, device)

    def scaled(x):
        variance, mean = torch.var_mean(x.float(), 0, correction=0)
        return mean, variance, ((x - mean) * (variance + 1e-5).rsqrt()).to(x.dtype)

    yield "eager", False, partial(scaled, x)
    yield "compile", False, compiled(scaled, x)


def hadamard(direction, shape, dtype, device):
    n = extents(shape)
    x, scale = normal((n["r"], n["n"]), dtype, device), n["n"] ** -0.5
    # H of n elements is the Kronecker product of those of two factors.
    high = 1 << (n["n"].bit_length() - 1) // 2
    low = n["n"] // high
    first, second = (sylvester(size).to(device).to(dtype) for size in (high, low))
    yield "two products", False, partial(lambda x: (first @ (x.view(-1, high, low) @ second) * scale).view_as(x), x)
    if n["n"] <= 4096:
        whole = (sylvester(n["n"]) * scale).to(device).to(dtype)
        yield "product", False, partial(torch.matmul, x, whole)

    def butterfly(x):
        y, apart = x.float(), 1
        while apart < x.shape[1]:
            a, b = y.view(len(x), -1, 2, apart).unbind(2)
            y, apart = torch.stack([a + b, a - b], 2), 2 * apart
        return (y.reshape(x.shape) * scale).to(x.dtype)

    yield "compile", False, compiled(butterfly, x)


def fft(direction, shape, dtype, device):
    n = extents(shape)
    if "r2c" in shape:
        yield "eager", False, partial(torch.fft.rfft, normal((n["b"], n["n"]), dtype, device))
        return
    dims = (n["b"], n["m"], n["n"]) if "m" in n else (n["b"], n["n"])
    x = torch.view_as_complex(normal((*dims, 2), dtype, device))
    forward, inverse = (torch.fft.fft2, torch.fft.ifft2) if "m" in n else (torch.fft.fft, torch.fft.ifft)
    # No scale: the inverse has it at the other side.
    call = partial(inverse, x, norm="forward") if "inverse" in shape else partial(forward, x)
    yield "eager", False, call


def batch_norm(direction, shape, dtype, device):
    """A block of training: batch norm with the statistics of the batch, and ReLU. Not a workload of ours yet."""
    n, words = extents(shape), words_of(shape)
    last, positions = "nhwc" in words, (n["h"], n.get("w", n["h"]))
    dims = (n["n"], *positions, n["c"]) if last else (n["n"], n["c"], *positions)
    x = first(normal(dims, dtype, device), last)
    gamma, beta = torch.ones(n["c"], device=device), torch.zeros(n["c"], device=device)
    block = lambda x, gamma, beta: F.relu(F.batch_norm(x, None, None, gamma, beta, True))
    if direction == "fwd":
        yield "eager", False, partial(block, x, gamma, beta)
        yield "compile", False, compiled(block, x, gamma, beta)
        return
    leaves = [leaf.requires_grad_() for leaf in (x, gamma, beta)]
    for name, function in ("eager", block), ("compile", torch.compile(block, dynamic=False)):
        out = function(*leaves)
        yield name, False, partial(torch.autograd.grad, out, leaves, like(out), retain_graph=True)


def quantize(direction, shape, dtype, device):
    rows, columns, group, kind = numbers.parts(shape)
    x = normal((rows, columns), dtype, device)
    # Codes come from f32: exponents of 16-bit floats are too few for the scales.
    call = lambda x: numbers.quantized(x.float(), group, kind)
    yield "eager", False, partial(call, x)
    yield "compile", False, compiled(call, x)


CONVOLUTIONS = ["conv2d", "conv3d", "depthwise_conv2d", "depthwise_conv3d"]
OTHERS = [separable_conv3d, pool, resize, roi_align, deform_conv2d, embedding, embedding_bag, hash_embedding, transpose, reduce, scan, sort_by_key]
OTHERS += [top_k, hadamard, fft, nms, rope_append]
WORKLOADS = {name: partial(convolution, name) for name in CONVOLUTIONS}
WORKLOADS |= {one.__name__: one for one in [*OTHERS, standard_scaler, batch_norm, quantize, sample]}
WORKLOADS |= dense.WORKLOADS | state_space.WORKLOADS | delta_rule.WORKLOADS | experts.WORKLOADS


def calls(problem, device):
    """Every way, as (name, whether cuDNN may try its algorithms first, call)."""
    workload, direction, shape, dtype = problem.split("/")
    if "zipf" in words_of(shape):
        raise ValueError(f"{problem}: only indices that are all as likely are drawn here")
    return WORKLOADS[workload](direction, shape, TYPES[dtype], device)
