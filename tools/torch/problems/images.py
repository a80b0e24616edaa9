"""Convolutions of images and volumes, and pooling."""

import numpy as np
import torch
import torch.nn.functional as F

from .common import extents, gradients, random

BY_CUDNN = ["vendor", "vendor_tuned"]
DENSE = {
    "fwd": ["direct", "implicit_gemm", "mma", "wgmma", *BY_CUDNN],
    "bwd": ["direct", "implicit_gemm", "mma", "wgmma", *BY_CUDNN],
}
DEPTHWISE = {"fwd": ["direct", "marching", *BY_CUDNN], "bwd": ["direct", "marching", *BY_CUDNN]}
CASES = {
    "conv2d": (
        [
            "n2,c3,m5,h7,w6,k3,p1,nchw,bias,relu",
            "n1,c6,m4,h13,w17,k3,kw5,s2,p2,g2,nhwc,bias",
            "n2,c16,m24,h19,k3,p2,l2,nchw",
            "n2,c24,m40,h12,k3,p1,nhwc,relu",
        ],
        DENSE,
    ),
    "conv3d": (
        [
            "n1,c3,m5,d3,h4,w7,k3,p1,ncdhw,bias,relu",
            "n2,c4,m6,d4,h5,k2,kd1,s2,p1,g2,ndhwc,bias",
            "n1,c16,m24,d5,h9,k3,p1,ndhwc",
        ],
        DENSE,
    ),
    "depthwise_conv2d": (
        ["n2,c3,h7,w5,k3,p1,nchw", "n1,c33,h17,w29,k3,kw5,s2,p2,nhwc", "n2,c8,h40,k7,p3,nhwc"],
        DEPTHWISE | {"fwd": ["tiled", *DEPTHWISE["fwd"]]},
    ),
    "depthwise_conv3d": (
        ["n2,c3,d5,h7,w6,k3,p1,ncdhw,bias,relu", "n1,c8,d8,h9,w11,k2,kd3,s2,p1,ndhwc,bias", "n1,c4,d9,k3,p1,ncdhw"],
        DEPTHWISE,
    ),
    "separable_conv3d": (
        ["n2,c3,m5,d5,h7,w6,p1,ncdhw,bias,relu", "n1,c16,m24,d6,h9,p1,ndhwc", "n1,c8,d8,k2,kd3,s2,p1,ndhwc,bias"],
        {"fwd": ["direct", "unfused", "fused"]},
    ),
    "conv_block": (
        [
            "n2,c3,m5,h7,w6,k3,p1,nchw",
            "n2,c24,m40,h8,w9,k3,kw1,p1,g2,nhwc",
            "n1,c5,m3,h19,k2,s2,nchw,inference",
            "n2,c8,m12,h12,w9,k3,kw2,p1,nhwc,inference",
        ],
        dict.fromkeys(["fwd", "bwd"], ["unfused", "fused", "unfused_mma", "fused_mma"]),
    ),
    "pool": (
        [
            "n2,c3,h7,w8,k3,p1,nchw,max",
            "n2,c3,h19,w16,s2,nchw,max",
            "n1,c8,h19,w16,k3,s2,p1,nhwc,max",
            "n1,c8,h9,w16,k3,s2,p1,nhwc,average",
            "n2,c3,h9,w16,k3,kw1,nchw,average",
            "n3,c8,h7,w16,oh3,ow8,nchw,adaptive",
            "n2,c16,h10,oh4,ow4,nhwc,adaptive",
        ],
        {"fwd": ["naive", "vector"], "bwd": ["naive", "vector"]},
    ),
    # PyTorch's vision library has it.
    "roi_align": (
        ["n2,c3,h7,w5,r5,p3", "n1,c33,h9,w31,r7,p2,s1", "n1,c4,h24,w40,r6,p5,s3", "n2,c90,h25,w34,r11,p7"],
        {"fwd": ["naive", "bins"]},
    ),
    "deform_conv2d": (
        ["n2,c3,m5,h7,w5,p1", "n1,c5,m2,h9,w12,k2,s2", "n2,c16,m72,h13,w10,p1"],
        {"fwd": ["naive", "tiled", "mma"]},
    ),
    # Thresholds that f32 has: a share at one of them is the same number by a division.
    "nms": (["n300,c5", "n129,t0.25", "n1009,scored,t0.75"], {"fwd": ["naive", "bitmask"]}),
    # PyTorch finds the nearest pixel in f32: ratios of extents that it rounds have other pixels.
    "resize": (
        [
            "n2,c3,h7,w6,oh14,ow12,nchw,bilinear",
            "n1,c8,h9,w16,oh5,ow24,nhwc,bilinear",
            "n2,c3,h19,w16,oh8,ow9,nchw,bilinear",
            "n2,c3,h7,w8,oh14,ow16,nchw,nearest",
            "n1,c8,h12,w16,oh6,ow4,nhwc,nearest",
        ],
        {"fwd": ["naive", "vector"], "bwd": ["naive", "vector"]},
    ),
}


def resolved(workload, shape):
    """Extents with the defaults of a shape, and its words."""
    n, words = extents(shape), {part for part in shape.split(",") if part.isalpha()}
    n = {"s": 1, "p": 0, "l": 1, "g": 1, "m": n["c"]} | n
    n = {"k": {"separable_conv3d": 3, "pool": 2}.get(workload), "h": n.get("d")} | n
    return {"w": n["h"], "kw": n["k"], "kd": n["k"]} | n, words


def first(tensor, last):
    """With channels where PyTorch has them."""
    return tensor.movedim(-1, 1) if last else tensor


def back(tensor, last):
    """With channels where they were."""
    return tensor.movedim(1, -1) if last else tensor


def around(n, channels, positions, last):
    """Extents of images with this number of channels."""
    return (n["n"], *positions, channels) if last else (n["n"], channels, *positions)


class Problem:
    """One convolution: the extents of its arrays, and its result."""

    def __init__(self, workload, shape):
        self.n, self.words = resolved(workload, shape)
        self.last = not self.words.isdisjoint({"nhwc", "ndhwc"})
        self.deep = workload.endswith("3d")
        self.workload = workload
        n, taps = self.n, ("kd", "k", "kw") if self.deep else ("k", "kw")
        taps = tuple(n[name] for name in taps)
        positions = tuple(n[name] for name in (("d", "h", "w") if self.deep else ("h", "w")))
        self.arrays = {"x": around(n, n["c"], positions, self.last)}
        if workload.startswith("conv"):
            inner = n["c"] // n["g"]
            self.arrays["w"] = (n["m"], *taps, inner) if self.last else (n["m"], inner, *taps)
        else:
            self.arrays["w"] = (*taps, n["c"]) if self.last else (n["c"], *taps)
        if workload == "separable_conv3d":
            self.arrays["pointwise"] = (n["m"], n["c"])
        if "bias" in self.words:
            self.arrays["bias"] = (n["c"] if workload.startswith("depthwise") else n["m"],)

    def __call__(self, x, w, pointwise=None, bias=None):
        """Before ReLU."""
        n, call = self.n, F.conv3d if self.deep else F.conv2d
        how = {"stride": n["s"], "padding": n["p"], "dilation": n["l"]}
        if self.workload.startswith("conv"):
            out = call(first(x, self.last), first(w, self.last), bias, groups=n["g"], **how)
            return back(out, self.last)
        filters = (w.movedim(-1, 0) if self.last else w).unsqueeze(1)
        between = pointwise is not None
        out = call(first(x, self.last), filters, None if between else bias, groups=n["c"], **how)
        if between:
            out = call(out, pointwise[:, :, None, None, None], bias)
        return back(out, self.last)


def convolution(workload, forward, shape, dtype, rng):
    of = Problem(workload, shape)
    relu = "relu" in of.words
    inputs = {name: random(rng, dims, dtype) for name, dims in of.arrays.items()}
    if forward:
        return inputs, lambda **given: {"out": F.relu(of(**given)) if relu else of(**given)}
    learned = list(inputs)
    dims = of(**{name: torch.zeros(dims) for name, dims in of.arrays.items()}).shape
    inputs["dout"] = random(rng, dims, dtype)
    # The bias itself is no input of the backward pass: its gradient does not depend on it.
    inputs.pop("bias", None)
    if relu:
        inputs["out"] = random(rng, dims, dtype)

    def gradient(dout, out=None, **given):
        if relu:
            dout = dout * (out > 0)
        given |= {name: torch.zeros(of.arrays[name], dtype=torch.float64) for name in learned if name not in given}
        found = gradients(lambda **leaves: [of(**leaves)], given, learned, [dout])
        return {f"d{name}": value for name, value in found.items()}

    return inputs, gradient


def block(forward, shape, dtype, rng):
    """Convolution, bias, batch normalisation, ReLU."""
    of = Problem("conv_block", shape)
    given, last, m = "inference" in of.words, of.last, of.n["m"]

    def normalised(v, gamma, beta, mean, variance):
        """With given statistics, or those of the values."""
        means = (mean.clone(), variance.clone()) if given else (None, None)
        return back(F.batch_norm(first(v, last), *means, gamma, beta, not given, 0.0, 1e-5), last)

    def channels(around=0.0, kind=dtype):
        return random(rng, (m,), kind, around)

    inputs = {name: random(rng, dims, dtype) for name, dims in of.arrays.items()}
    inputs["w"] = (inputs["w"] / np.sqrt(inputs["w"].size / m)).astype(inputs["w"].dtype)
    numbers = {"gamma": channels(2.0), "beta": channels()}
    statistics = {"mean": channels(kind="f32"), "variance": np.abs(channels(kind="f32")) + np.float32(0.5)}
    if forward:

        def result(x, w, bias, gamma, beta, **told):
            v = of(x, w, bias=bias)
            axes = [0, 1, 2] if last else [0, 2, 3]
            found = told or {"mean": v.mean(axes), "variance": v.var(axes, unbiased=False)}
            return {"out": F.relu(normalised(v, gamma, beta, **found))} | ({} if given else found)

        return inputs | {"bias": channels()} | numbers | (statistics if given else {}), result

    v = of(*(torch.from_numpy(inputs[name].astype(np.float64)) for name in ("x", "w"))).numpy().astype(inputs["x"].dtype)
    if not given:
        axes, wide = (0, 1, 2) if last else (0, 2, 3), v.astype(np.float64)
        statistics = {"mean": wide.mean(axes).astype(np.float32), "variance": wide.var(axes).astype(np.float32)}
    # Of the result only where it is above zero matters.
    more = {"biased": v, "out": random(rng, v.shape, dtype), "dout": random(rng, v.shape, dtype)}

    def gradient(x, w, gamma, biased, out, dout, mean, variance):
        leaves = {"v": biased, "gamma": gamma, "beta": torch.zeros_like(gamma)}
        call = lambda v, gamma, beta: [normalised(v, gamma, beta, mean, variance)]
        found = gradients(call, leaves, list(leaves), [dout * (out > 0)])
        of_products = gradients(lambda x, w: [of(x, w)], {"x": x, "w": w}, ["x", "w"], [found["v"]])
        bias = {"dbias": found["v"].sum([0, 1, 2] if last else [0, 2, 3])} if given else {}
        return {f"d{name}": value for name, value in (of_products | found).items() if name != "v"} | bias

    return inputs | {"gamma": numbers["gamma"]} | statistics | more, gradient


def pool(forward, shape, dtype, rng):
    n, words = resolved("pool", shape)
    last, largest = "nhwc" in words, "max" in words

    def pooled(x):
        x = first(x, last)
        if "adaptive" in words:
            out = F.adaptive_avg_pool2d(x, (n["oh"], n["ow"]))
        else:
            call = F.max_pool2d if largest else F.avg_pool2d
            out = call(x, (n["k"], n["kw"]), stride=n["s"], padding=n["p"])
        return back(out, last)

    dims = around(n, n["c"], (n["h"], n["w"]), last)
    x = random(rng, dims, dtype)
    if forward:
        return {"x": x}, lambda x: {"out": pooled(x)}
    dout = random(rng, pooled(torch.zeros(dims)).shape, dtype)

    def gradient(dout, x=None):
        # An average's gradient does not depend on the image.
        x = torch.zeros(dims, dtype=torch.float64) if x is None else x
        return {"dx": gradients(lambda x: [pooled(x)], {"x": x}, ["x"], [dout])["x"]}

    return ({"x": x} if largest else {}) | {"dout": dout}, gradient


def resize(forward, shape, dtype, rng):
    n, words = resolved("resize", shape)
    last = "nhwc" in words
    size, kind = (n["oh"], n.get("ow", n["oh"])), "nearest" if "nearest" in words else "bilinear"
    dims = around(n, n["c"], (n["h"], n["w"]), last)

    def resized(x):
        return back(F.interpolate(first(x, last), size=size, mode=kind), last)

    if forward:
        return {"x": random(rng, dims, dtype)}, lambda x: {"out": resized(x)}
    dout = random(rng, around(n, n["c"], size, last), dtype)
    x = torch.zeros(dims, dtype=torch.float64)
    return {"dout": dout}, lambda dout: {"dx": gradients(lambda x: [resized(x)], {"x": x}, ["x"], [dout])["x"]}


def boxes_of(n, rng):
    """Corners in eighths of a pixel, even ones first and odd ones last: rounding moves no sample to another pixel."""
    extents = 8 * np.array([n["w"], n["h"]])
    size = (rng.random((n["r"], 2)) * extents).astype(int)
    start = (rng.random((n["r"], 2)) * extents).astype(int) - size // 2
    return (np.concatenate([start // 2 * 2, (start + size) // 2 * 2 + 3], 1) / 8).astype(np.float32)


def roi_align(shape, dtype, rng):
    from torchvision.ops import roi_align as by_torchvision

    given = extents(shape)
    n = {"w": given["h"], "s": 2} | given
    inputs = {
        "x": random(rng, (n["n"], n["c"], n["h"], n["w"]), dtype),
        "boxes": boxes_of(n, rng),
        "index": rng.integers(0, n["n"], n["r"], dtype=np.uint32),
    }

    def of(x, boxes, index):
        return {"out": by_torchvision(x, torch.cat([index[:, None], boxes], 1), n["p"], 1.0, n["s"], True)}

    return inputs, of


def deform_conv2d(shape, dtype, rng):
    from torchvision.ops import deform_conv2d as by_torchvision

    given = extents(shape)
    n = {"m": given["c"], "w": given["h"], "k": 3, "s": 1, "p": 0} | given
    oh, ow = ((n[extent] + 2 * n["p"] - n["k"]) // n["s"] + 1 for extent in "hw")
    inputs = {
        "x": random(rng, (n["n"], n["h"], n["w"], n["c"]), dtype),
        "offset": 2 * rng.standard_normal((n["n"], oh, ow, n["k"], n["k"], 2)).astype(np.float32),
        "mask": random(rng, (n["n"], oh, ow, n["k"], n["k"]), dtype),
        "w": random(rng, (n["m"], n["k"], n["k"], n["c"]), dtype),
        "bias": random(rng, (n["m"],), dtype),
    }

    def of(x, offset, mask, w, bias):
        # Channels first, and the numbers of all taps as channels.
        x, offset, mask = x.movedim(-1, 1), offset.flatten(3).movedim(-1, 1), mask.flatten(3).movedim(-1, 1)
        out = by_torchvision(x, offset, w.movedim(-1, 1), bias, n["s"], n["p"], mask=mask)
        return {"out": out.movedim(1, -1)}

    return inputs, of


def rivals(n, rng):
    """Boxes around an eighth as many objects: corners in quarters of a pixel, so that areas are exact in f32."""
    objects = -(-n["n"] // 8)
    size = rng.integers(64, 1024, (objects, 2))
    start = rng.integers(0, 4096, (objects, 2))
    corners = np.concatenate([start, start + size], 1)[rng.integers(0, objects, n["n"])]
    eighth = np.tile((corners[:, 2:] - corners[:, :2]) // 8, 2)
    return ((corners + rng.integers(-eighth, eighth + 1)) / 4).astype(np.float32)


def nms(shape, dtype, rng):
    from torchvision.ops import nms as by_torchvision

    n = {"c": 1, "t": 0.5} | extents(shape)
    inputs = {"boxes": rivals(n, rng)}
    if n["c"] > 1:
        inputs["classes"] = rng.integers(0, n["c"], n["n"]).astype(np.uint32)
    if "scored" in shape:
        inputs["scores"] = (rng.permutation(n["n"]) / n["n"]).astype(np.float32)

    def of(boxes, classes=None, scores=None):
        # Classes lie so far apart that boxes of different ones do not overlap.
        apart = boxes if classes is None else boxes + 4096 * classes[:, None]
        kept = by_torchvision(apart, -torch.arange(len(boxes)).double() if scores is None else scores, n["t"])
        return {"keep": torch.zeros(len(boxes), dtype=torch.float64).index_fill(0, kept, 1.0)}

    return inputs, of


def problem(workload, direction, shape, dtype, rng):
    forward = direction == "fwd"
    others = {"pool": pool, "resize": resize, "conv_block": block}
    if workload in ("deform_conv2d", "nms", "roi_align"):
        return {"deform_conv2d": deform_conv2d, "nms": nms, "roi_align": roi_align}[workload](shape, dtype, rng)
    if workload in others:
        return others[workload](forward, shape, dtype, rng)
    return convolution(workload, forward, shape, dtype, rng)
