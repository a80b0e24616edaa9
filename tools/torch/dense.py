"""PyTorch's calls for GEMMs, attention, losses, rows and layers of encoders.

Each function gives (name, whether cuDNN may try its algorithms first, call), as `calls.py` does. The arithmetic of a call is the
workload's: a gradient of `linear` with GELU computes GELU's argument again, and one of attention begins with the output.
"""

import itertools
import math
from functools import partial

import torch
import torch.nn.functional as F
from parts import below, eager_and_compiled, like, normal, words_of
from problems.common import extents
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

aten = torch.ops.aten
gelu = partial(F.gelu, approximate="tanh")
gelu_gradient = partial(aten.gelu_backward, approximate="tanh")


def gradients(function, leaves, name="eager"):
    """The gradient of a function's result by autograd, which keeps the tensors of the forward pass."""
    leaves = [leaf.requires_grad_() for leaf in leaves]
    out = function(*leaves)
    dout = like(out)
    yield name, False, partial(torch.autograd.grad, out, leaves, dout, retain_graph=True)


def operands(shape, dtype, device):
    """Left and right operand of a GEMM, as views of its rows and columns."""
    n, words = extents(shape), words_of(shape)
    batch = [n["b"]] if "b" in n else []
    x = normal([*batch, *((n["k"], n["m"]) if "tn" in words else (n["m"], n["k"]))], dtype, device)
    w = normal([*batch, *((n["n"], n["k"]) if "nt" in words else (n["k"], n["n"]))], dtype, device, n["k"] ** -0.5)
    return (x.mT if "tn" in words else x), (w.mT if "nt" in words else w)


def matmul(direction, shape, dtype, device):
    yield "eager", False, partial(torch.matmul, *operands(shape, dtype, device))


def matmul_i8(direction, shape, dtype, device):
    n = extents(shape)
    draw = lambda rows, columns: torch.randint(-128, 128, (rows, columns), dtype=torch.int8).to(device)
    yield "_int_mm", False, partial(torch._int_mm, draw(n["m"], n["k"]), draw(n["n"], n["k"]).t())


def matmul_f8(direction, shape, dtype, device):
    """PyTorch's product of 8-bit floats with one scale for each tensor or row; the latter has results of bf16 alone."""
    n, words = extents(shape), words_of(shape)
    if "block" in words or ("row" in words and dtype != torch.bfloat16):
        return
    codes = lambda rows, kind=torch.float8_e4m3fn: normal((rows, n["k"]), torch.float32, device, 64.0).to(kind)
    scales = lambda *dims: 1 / 128 + torch.rand(dims, dtype=torch.float32).to(device) / 128
    of_a, of_b = (scales(n["m"], 1), scales(1, n["n"])) if "row" in words else (scales(), scales())
    a = codes(n["m"], torch.float8_e5m2) if "e5m2" in words else codes(n["m"])
    b = codes(n["n"]).t()
    for name, fast in ("_scaled_mm", False), ("_scaled_mm, fast accumulation", True):
        yield name, False, partial(torch._scaled_mm, a, b, of_a, of_b, out_dtype=dtype, use_fast_accum=fast)


def matmul_q4(direction, shape, dtype, device):
    """PyTorch's product of bf16 with weights of 4 bits, whose scales and zero points are of bf16."""
    n = extents(shape)
    group = n.get("g", 128)
    if dtype != torch.bfloat16 or group not in (32, 64, 128, 256):
        return
    packed = torch.randint(0, 256, (n["n"], n["k"] // 2), dtype=torch.uint8).to(device)
    weights = aten._convert_weight_to_int4pack(packed, 8)
    scales = normal((n["k"] // group, n["n"], 2), dtype, device)
    yield "_weight_int4pack_mm", False, partial(aten._weight_int4pack_mm, normal((n["m"], n["k"]), dtype, device), weights, group, scales)


def matmul_q8(direction, shape, dtype, device):
    """Weights of 8 bits: PyTorch's product where each channel has one scale, and the plain expression, compiled."""
    n = extents(shape)
    group = min(n.get("g", 128), n["k"])
    if n["k"] % group:
        return
    x = normal((n["m"], n["k"]), dtype, device)
    weights = torch.randint(-128, 128, (n["n"], n["k"]), dtype=torch.int8).to(device)
    scales = normal((n["n"], n["k"] // group), dtype, device, 1 / 128)
    if group == n["k"]:
        yield "_weight_int8pack_mm", False, partial(aten._weight_int8pack_mm, x, weights, scales[:, 0].contiguous())
    scaled = lambda x, w, s: F.linear(x, (w.unflatten(1, (-1, group)).to(dtype) * s[:, :, None]).flatten(1))
    yield from eager_and_compiled(scaled, x, weights, scales)


def linear(direction, shape, dtype, device):
    words, (x, w) = words_of(shape), operands(shape, dtype, device)
    curved, flat = bool(words & {"gelu", "residual"}), x.dim() == 2
    bias = normal(w.shape[-1], dtype, device)
    # One addition after the product and one epilogue of cuBLASLt are the two ways of `torch.nn.Linear`.
    pre = (lambda: torch.addmm(bias, x, w)) if flat else (lambda: x @ w + bias)
    if direction == "fwd":
        residual = normal((*x.shape[:-1], w.shape[-1]), dtype, device) if "residual" in words else None
        after = lambda out: out if residual is None else out + residual
        yield "eager", False, lambda: after(gelu(pre()) if curved else pre())
        if curved and flat:
            yield "_addmm_activation", False, lambda: after(aten._addmm_activation(bias, x, w, use_gelu=True))
        return
    dout = normal((*x.shape[:-1], w.shape[-1]), dtype, device)

    def back():
        inner = gelu_gradient(dout, pre()) if curved else dout
        return inner @ w.mT, x.mT @ inner, inner.sum(tuple(range(inner.dim() - 1)))

    yield "eager", False, back


def mlp_gelu(direction, shape, dtype, device):
    n = extents(shape)
    x = normal((n["m"], n["c"]), dtype, device)
    w1 = normal((n["c"], n["f"]), dtype, device, n["c"] ** -0.5)
    w2 = normal((n["f"], n["c"]), dtype, device, n["f"] ** -0.5)
    b1, b2 = normal(n["f"], dtype, device), normal(n["c"], dtype, device)
    if direction == "fwd":
        yield "eager", False, lambda: torch.addmm(b2, gelu(torch.addmm(b1, x, w1)), w2)
        fused = lambda: torch.addmm(b2, aten._addmm_activation(b1, x, w1, use_gelu=True), w2)
        yield "_addmm_activation", False, fused
        return
    dout = normal((n["m"], n["c"]), dtype, device)

    def back():
        pre = torch.addmm(b1, x, w1)
        inner = gelu_gradient(dout @ w2.t(), pre)
        return gelu(pre).t() @ dout, dout.sum(0), inner @ w1.t(), x.t() @ inner, inner.sum(0)

    yield "eager", False, back


def mlp_glu(direction, shape, dtype, device):
    n = extents(shape)
    x = normal((n["m"], n["c"]), dtype, device)
    wg, wu = (normal((n["c"], n["f"]), dtype, device, n["c"] ** -0.5) for _ in range(2))
    w2 = normal((n["f"], n["c"]), dtype, device, n["f"] ** -0.5)
    act = gelu if "gelu" in words_of(shape) else F.silu
    yield from eager_and_compiled(lambda x: (act(x @ wg) * (x @ wu)) @ w2, x)


def flash_attention_4():
    """FlashAttention 4 where its package is installed, on tensors whose heads follow the sequence."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None

    def call(q, k, v, causal, window):
        # Keys before and after a query's own.
        sizes = (window - 1, 0) if window else (None, None)
        out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal, window_size=sizes)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return call


def changed_attention(n, words, dtype, device):
    """FlexAttention on windows, soft caps, slopes over distances and sinks, compiled, with its blocks of visible pairs made
    beforehand. A sink's share is removed by the log-sum-exp, as in models of gpt-oss."""
    s, window, cap = n["s"], n.get("w", 0), n.get("cap", 0)
    visible = lambda batch, head, query, key: (key <= query) & (key > query - (window or s))
    blocks = create_block_mask(visible, None, None, s, s, device=device) if "causal" in words else None
    slopes = torch.exp2(-8.0 * torch.arange(1, n["h"] + 1, device=device) / n["h"]) if "alibi" in words else None
    sinks = normal((n["h"],), dtype, device) if "sinks" in words else None

    def change(score, batch, head, query, key):
        if cap:
            score = cap * torch.tanh(score / cap)
        return score if slopes is None else score - slopes[head] * (query - key).abs()

    score_mod = change if cap or slopes is not None else None

    def call(q, k, v):
        grouped = q.shape[1] != k.shape[1]
        if sinks is None:
            return flex_attention(q, k, v, score_mod=score_mod, block_mask=blocks, enable_gqa=grouped)
        out, lse = flex_attention(q, k, v, score_mod=score_mod, block_mask=blocks, enable_gqa=grouped, return_lse=True)
        return out * torch.sigmoid(lse - sinks[:, None])[..., None].to(out.dtype)

    return torch.compile(call)


def packed_bounds(n, sequences):
    """Bounds of sequences within `n` tokens, as the suite has them: lengths are odd multiples of the shortest, in a mixed order."""
    step = next(step for step in itertools.count(max(1, 3 * sequences // 8)) if math.gcd(step, sequences) == 1)
    odd = [2 * (sequences - i * step % sequences) - 1 for i in range(sequences)]
    return [sum(odd[:i]) * n // sequences**2 for i in range(sequences + 1)]


def packed_attention(direction, n, words, dtype, device):
    """FlexAttention with a mask of documents, and PyTorch's own call for packed sequences where it has one."""
    s, window, heads, causal = n["s"], n.get("w", 0), n.get("kv", n["h"]), "causal" in words
    bounds = packed_bounds(s, n["n"])
    document = torch.searchsorted(torch.tensor(bounds, device=device), torch.arange(s, device=device), right=True)

    def visible(batch, head, query, key):
        near = (key <= query) & (key > query - (window or s)) if causal else key >= 0
        return near & (document[query] == document[key])

    blocks = create_block_mask(visible, None, None, s, s, device=device)
    flex = torch.compile(partial(flex_attention, block_mask=blocks, enable_gqa=heads != n["h"]))
    drawn = lambda heads: normal((1, s, heads, n["d"]), dtype, device).transpose(1, 2)
    inputs = [drawn(n["h"]), drawn(heads), drawn(heads)]
    calls = {"FlexAttention": flex}
    try:
        from torch.nn.attention.varlen import varlen_attn

        starts = torch.tensor(bounds, dtype=torch.int32, device=device)
        longest = max(after - before for before, after in itertools.pairwise(bounds))
        sizes = ((window - 1 if window else -1), 0) if causal else (-1, -1)
        calls["varlen_attn"] = lambda q, k, v: varlen_attn(
            *(x[0].transpose(0, 1) for x in (q, k, v)), starts, starts, longest, longest, window_size=sizes,
            enable_gqa=heads != n["h"]
        ).transpose(0, 1)[None]
    except ImportError:
        pass
    for name, call in calls.items():
        if direction == "fwd":
            yield name, False, partial(call, *inputs)
        else:
            try:
                yield from gradients(call, [x.detach() for x in inputs], name)
            except (AssertionError, RuntimeError, TypeError) as error:
                yield name, False, partial(failing, error)


def attention(direction, shape, dtype, device):
    n, words = extents(shape), words_of(shape)
    if n.get("n"):
        yield from packed_attention(direction, n, words, dtype, device)
        return
    if words & {"padded", "biased"} or n.get("t", n["s"]) != n["s"]:
        raise ValueError(f"{shape}: masks other than the causal one of equal lengths are not asked for here")
    causal, heads, window = "causal" in words, n.get("kv", n["h"]), n.get("w", 0)
    changed = words & {"sinks", "alibi"} or n.get("cap", 0)

    def by_library(backend, q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != n["h"])

    kinds = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention 2": SDPBackend.FLASH_ATTENTION}
    libraries = {name: partial(by_library, backend) for name, backend in kinds.items()}
    if window or changed:
        libraries = {"FlexAttention": changed_attention(n, words, dtype, device)}
    elif device == "cpu":
        libraries = {"eager": partial(by_library, list(kinds.values()) + [SDPBackend.MATH])}
    if device != "cpu" and not changed and (flash := flash_attention_4()):
        libraries["FlashAttention 4"] = lambda q, k, v: flash(q, k, v, causal, window)
    # In memory as `torch.nn.functional` has them after a projection: heads side by side.
    drawn = lambda heads: normal((n["b"], n["s"], heads, n["d"]), dtype, device).transpose(1, 2)
    q, k, v = drawn(n["h"]), drawn(heads), drawn(heads)
    for name, library in libraries.items():
        if direction == "fwd":
            yield name, False, partial(library, q, k, v)
        else:
            try:
                yield from gradients(library, [x.detach() for x in (q, k, v)], name)
            except (AssertionError, RuntimeError) as error:
                yield name, False, partial(failing, error)


def failing(error):
    raise error


def attention_decode(direction, shape, dtype, device):
    n = extents(shape)
    heads = n.get("kv", n["h"])
    q = normal((n["b"], n["h"], 1, n["d"]), dtype, device)
    k, v = (normal((n["b"], heads, n["t"], n["d"]), dtype, device) for _ in range(2))
    # Keys and values lie side by side, not in pages.
    yield "eager", False, partial(F.scaled_dot_product_attention, q, k, v, enable_gqa=heads != n["h"])


def softmax(direction, shape, dtype, device):
    n = extents(shape)
    x = normal((n["r"], n["c"]), dtype, device)
    if direction == "fwd":
        yield from eager_and_compiled(lambda x: x.softmax(1), x)
        return
    back = lambda dout, out: aten._softmax_backward_data(dout, out, 1, dtype)
    yield from eager_and_compiled(back, normal(x.shape, dtype, device), x.softmax(1))


def activation(direction, shape, dtype, device):
    n = extents(shape)
    of = partial(F.gelu, approximate="tanh" if "tanh" in words_of(shape) else "none")
    x = normal(n["n"], dtype, device)
    if direction == "fwd":
        yield from eager_and_compiled(of, x)
    else:
        yield from gradients(of, [x])


def elementwise(direction, shape, dtype, device):
    n, words = extents(shape), words_of(shape)
    x = normal((n["r"], n["c"]), dtype, device)
    one = {"relu": F.relu, "silu": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardswish": F.hardswish}
    two = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
    for name in words & one.keys():
        yield from eager_and_compiled(one[name], x)
    other = (1, n["c"]) if "row" in words else (n["r"], 1) if "column" in words else x.shape
    for name in words & two.keys():
        yield from eager_and_compiled(two[name], x, normal(other, dtype, device))


def norm(direction, x, leaves, forward):
    """A norm of rows and its gradients, which `torch.compile` derives from the forward pass."""
    if direction == "fwd":
        yield from eager_and_compiled(forward, x, *leaves)
        return
    yield from gradients(forward, [x, *leaves])
    yield from gradients(torch.compile(forward, dynamic=False), [x, *leaves], "compile")


def layernorm(direction, shape, dtype, device):
    n = extents(shape)
    x, gamma, beta = (normal(dims, dtype, device) for dims in ((n["r"], n["c"]), n["c"], n["c"]))
    yield from norm(direction, x, [gamma, beta], lambda x, gamma, beta: F.layer_norm(x, x.shape[1:], gamma, beta, 1e-5))


def rmsnorm(direction, shape, dtype, device):
    n = extents(shape)
    x, gamma = normal((n["r"], n["c"]), dtype, device), normal(n["c"], dtype, device)
    yield from norm(direction, x, [gamma], lambda x, gamma: F.rms_norm(x, x.shape[1:], gamma, 1e-6))


def cross_entropy(direction, shape, dtype, device):
    n = extents(shape)
    logits = normal((n["r"], n["c"]), dtype, device)
    targets = below(n["c"], n["r"], device, torch.int64)
    if direction == "fwd":
        yield from eager_and_compiled(lambda x, at: F.cross_entropy(x.float(), at, reduction="none"), logits, targets)
        return

    def back(logits, lse, targets):
        shares = (logits.float() - lse[:, None]).exp()
        there = torch.arange(n["c"], device=device) == targets[:, None]
        return ((shares - there.float()) / n["r"]).to(dtype)

    yield from eager_and_compiled(back, logits, logits.float().logsumexp(1), targets)


def linear_cross_entropy(direction, shape, dtype, device):
    """Losses of rows from logits in memory, in the element type; the backward direction reads them. This project recomputes logits, in f32."""
    n = extents(shape)
    x, w = normal((n["n"], n["d"]), dtype, device), normal((n["v"], n["d"]), dtype, device, n["d"] ** -0.5)
    targets = below(n["v"], n["n"], device, torch.int64)
    targets[13::16] = -100
    losses = lambda x, w: F.cross_entropy(F.linear(x, w), targets, reduction="none")
    if direction == "fwd":
        yield from eager_and_compiled(losses, x, w)
        return
    yield from gradients(losses, [x, w])
    yield from gradients(torch.compile(losses, dynamic=False), [x, w], "compile")


def loss_sigmoid(direction, shape, dtype, device):
    n = extents(shape)
    x, y = (normal((n["n"], n["d"]), dtype, device, n["d"] ** -0.5) for _ in range(2))
    temperature, bias = (torch.tensor(value, device=device) for value in (10.0, -3.0))
    signs = 2 * torch.eye(n["n"], device=device) - 1

    def loss(x, y, temperature, bias):
        return -F.logsigmoid(signs * (temperature * (x @ y.t()).float() + bias)).sum() / n["n"]

    if direction == "fwd":
        yield from eager_and_compiled(loss, x, y, temperature, bias)
        return
    yield from gradients(loss, [x, y, temperature, bias])
    yield from gradients(torch.compile(loss, dynamic=False), [x, y, temperature, bias], "compile")


def layer_parameters(n, dtype, device):
    """Learned parameters of a layer of an encoder, named as in `problems/encoder.py`."""
    width, middle = n["h"] * n["d"], n["f"]
    made = lambda *dims: normal(dims, dtype, device, dims[0] ** -0.5 if len(dims) > 1 else 1.0)
    given = {f"w{part}": made(width, width) for part in "qkvo"} | {f"b{part}": made(width) for part in "qkvo"}
    given |= {f"{kind}{which}": made(width) for kind in ("gamma", "beta") for which in "12"}
    return given | {"w1": made(width, middle), "b1": made(middle), "w2": made(middle, width), "b2": made(width)}


def joined(given, width):
    """The layer's parameters with one weight for queries, keys and values, as models have it."""
    side = {kind: torch.cat([given.pop(f"{kind}{part}") for part in "qkv"], -1) for kind in "wb"}
    return given | {"wqkv": side["w"], "bqkv": side["b"]}


def encoder_of(n, layers):
    """A pass through the layers: x and the parameters of each layer, in the order of their names."""
    heads = lambda rows: rows.unflatten(-1, (n["h"], n["d"])).transpose(1, 2)

    def layer(x, given):
        normed = lambda rows, which: F.layer_norm(
            rows, rows.shape[-1:], given[f"gamma{which}"], given[f"beta{which}"], 1e-5
        )
        product = lambda rows, name: F.linear(rows, given[f"w{name}"].t(), given[f"b{name}"])
        q, k, v = (heads(part) for part in product(normed(x, 1), "qkv").chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        total = x + product(mixed, "o")
        return total + product(gelu(product(normed(total, 2), "1")), "2")

    def of(x, *values):
        each = len(values) // len(layers)
        for at, names in enumerate(layers):
            x = layer(x, dict(zip(names, values[at * each : (at + 1) * each])))
        return x

    return of


def encoder(direction, shape, dtype, device):
    n = {"l": 1, "b": 1, "s": 256, "h": 16, "d": 72, "f": 4304} | extents(shape)
    if n.get("p", 0):
        raise ValueError(f"{shape}: dropout is not asked for here")
    x = normal((n["b"], n["s"], n["h"] * n["d"]), dtype, device)
    layers = [joined(layer_parameters(n, dtype, device), n["h"] * n["d"]) for _ in range(n["l"])]
    of, values = encoder_of(n, [list(layer) for layer in layers]), [value for layer in layers for value in layer.values()]
    if direction == "fwd":
        yield "eager", False, partial(of, x, *values)
        yield "compile", False, partial(torch.compile(of, dynamic=False), x, *values)
        return
    if direction == "bwd":
        yield from gradients(of, [x, *values])
        yield from gradients(torch.compile(of, dynamic=False), [x, *values], "compile")
        return
    leaves = [leaf.requires_grad_() for leaf in (x, *values)]
    dout = normal(x.shape, dtype, device)
    for name, function in ("eager", of), ("compile", torch.compile(of, dynamic=False)):
        yield name, False, lambda function=function: torch.autograd.grad(function(*leaves), leaves, dout)


ROWS = [softmax, layernorm, rmsnorm, cross_entropy]
WORKLOADS = {one.__name__: one for one in [matmul, matmul_f8, matmul_i8, matmul_q4, matmul_q8, linear, mlp_gelu, mlp_glu, attention, attention_decode, *ROWS]}
WORKLOADS |= {"gelu": activation, "elementwise": elementwise, "loss_sigmoid": loss_sigmoid, "linear_cross_entropy": linear_cross_entropy, "encoder_layer": encoder, "encoder": encoder}
ATTENTION = [
    *(f"b8,h16,s4096,{d}{causal}" for d in ("d128", "d64") for causal in ("", ",causal")),
    "b8,h16,kv4,s4096,d128,causal",
    "b8,h16,s4096,d128,w1024,causal",
    "b1,h64,kv8,s16384,d64,w128,causal",
    "b2,h16,s16384,d128,causal",
    "b256,h16,s256,d72",
    "b1,h8,s512,d64",
]


def named():
    """Cases of these workloads that are measured where none are given."""
    for size in (1024, 4096, 8192):
        yield f"matmul/fwd/m{size},n{size},k{size}/bf16"
    yield "matmul/fwd/m4096,n4096,k4096/f32"
    yield from (f"matmul/fwd/m{rows},n14336,k4096/bf16" for rows in (1, 8, 16, 64))
    yield from (f"matmul_f8/fwd/m{size},n{size},k{size},{scales}/bf16" for size in (4096, 8192) for scales in ("tensor", "row"))
    yield "matmul_i8/fwd/m4096,n4096,k4096/f32"
    for name in ("matmul_q4", "matmul_q8"):
        yield from (f"{name}/fwd/m{rows},n14336,k4096/bf16" for rows in (1, 4, 8, 16, 64))
    yield from (f"matmul_q8/fwd/m{rows},n14336,k4096,g4096/bf16" for rows in (1, 16))
    yield from (f"linear/fwd/{shape}/bf16" for shape in ("m65536,n4304,k1152,gelu", "m65536,n1152,k4304,residual"))
    yield from (f"linear/fwd/m{rows},n14336,k4096,nt/bf16" for rows in (1, 8, 16, 64))
    yield from (f"linear/fwd/{shape}/bf16" for shape in ("m1,n4096,k4096,nt", "m64,n4096,k14336,nt"))
    yield from (f"linear/{way}/m8192,n8192,k8192,gelu/bf16" for way in ("fwd", "bwd"))
    yield from (f"mlp_gelu/{way}/m4096,c1152,f4304/bf16" for way in ("fwd", "bwd"))
    yield from (f"mlp_glu/fwd/{shape}/bf16" for shape in ("m16,c4096,f14336", "m4096,c4096,f14336", "m4096,c4096,f14336,gelu"))
    yield from (f"attention/{way}/{shape}/bf16" for way in ("fwd", "bwd") for shape in ATTENTION)
    yield from (f"attention_decode/fwd/{shape}/bf16" for shape in ("b32,h32,kv8,t4096,d128", "b1,h32,kv8,t32768,d128"))
    yield from (f"loss_sigmoid/{way}/n4096,d512/bf16" for way in ("fwd", "bwd"))
    yield from (f"softmax/{way}/r8192,c8192/bf16" for way in ("fwd", "bwd"))
    yield from (f"{name}/{way}/r16384,c4096/bf16" for name in ("layernorm", "rmsnorm") for way in ("fwd", "bwd"))
    yield from (f"cross_entropy/{way}/r8192,c32000/bf16" for way in ("fwd", "bwd"))
    yield from (f"linear_cross_entropy/{way}/n2048,d2048,v32000/bf16" for way in ("fwd", "bwd"))
    yield "linear_cross_entropy/fwd/n4096,d4096,v128256/bf16"
    yield "linear_cross_entropy/bwd/n4096,d4096,v32000/bf16"
    yield from (f"encoder_layer/{way}/{batch}/bf16" for way in ("fwd", "bwd") for batch in ("b8", "b1024"))
