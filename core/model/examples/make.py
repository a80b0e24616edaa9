"""Writes the ONNX examples of this folder. Needs the package `onnx`.

The graphs are complete and can be executed. Their weights are constants of one number, made by `ConstantOfShape`, so that the files are
small. `python make.py [FOLDER]` writes `mobilenet_v2.onnx`, `unet3d.onnx` and `encoder.onnx`.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes and initializers of a graph while it is built."""

    def __init__(self):
        self.nodes, self.initializers, self.count = [], [], 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def add(self, operator, inputs, layer="", outputs=1, **attributes):
        names = [self.name(operator.lower()) for _ in range(outputs)]
        node_name = f"{layer}/{operator}_{self.count}"
        self.nodes.append(helper.make_node(operator, inputs, names, name=node_name, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, values, dtype=np.int64):
        name = self.name("constant")
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype=dtype), name))
        return name

    def weight(self, *shape):
        value = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.01])
        return self.add("ConstantOfShape", [self.constant(list(shape))], "weights", value=value)

    def save(self, path, name, inputs, outputs):
        def tensor(pair):
            return helper.make_tensor_value_info(pair[0], pair[2] if len(pair) > 2 else TensorProto.FLOAT, pair[1])

        graph = helper.make_graph(self.nodes, name, [tensor(i) for i in inputs], [tensor(o) for o in outputs], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="parallax")
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def mobilenet_v2(path):
    """MobileNetV2 of Sandler et al. (2018): inverted residuals with normalisation and ReLU6."""
    g = Graph()

    def block(x, channels, filters, kernel, stride, groups, layer, active=True):
        pad = kernel // 2
        x = g.add(
            "Conv", [x, g.weight(filters, channels // groups, kernel, kernel)], layer,
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups,
        )
        x = g.add("BatchNormalization", [x] + [g.weight(filters) for _ in range(4)], layer)
        return g.add("Clip", [x, g.constant(0.0, np.float32), g.constant(6.0, np.float32)], layer) if active else x

    x, channels = block("image", 3, 32, 3, 2, 1, "/stem"), 32
    number = 0
    for expansion, filters, repeats, stride in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ]:
        for i in range(repeats):
            layer, inner, start = f"/blocks/{number}", channels * expansion, x
            step = stride if i == 0 else 1
            if expansion > 1:
                x = block(x, channels, inner, 1, 1, 1, layer)
            x = block(x, inner, inner, 3, step, inner, layer)
            x = block(x, inner, filters, 1, 1, 1, layer, active=False)
            if step == 1 and channels == filters:
                x = g.add("Add", [start, x], layer)
            channels, number = filters, number + 1
    x = block(x, channels, 1280, 1, 1, 1, "/head")
    x = g.add("GlobalAveragePool", [x], "/head")
    x = g.add("Flatten", [x], "/head")
    g.add("Gemm", [x, g.weight(1000, 1280), g.weight(1000)], "/head", transB=1)
    g.nodes[-1].output[0] = "classes"
    g.save(path, "mobilenet_v2", [("image", ["batch", 3, 224, 224])], [("classes", ["batch", 1000])])


def unet3d(path):
    """U-Net over volumes, after Çiçek et al. (2016): four resolutions, two convolutions at each."""
    g = Graph()

    def two(x, channels, filters, layer):
        for i in range(2):
            weights = [g.weight(filters, channels if i == 0 else filters, 3, 3, 3), g.weight(filters)]
            x = g.add("Conv", [x] + weights, layer, kernel_shape=[3] * 3, pads=[1] * 6)
            x = g.add("Relu", [x], layer)
        return x

    widths, x, channels, kept = [16, 32, 64, 128], "volume", 1, []
    for i, filters in enumerate(widths):
        x, channels = two(x, channels, filters, f"/down/{i}"), filters
        if filters != widths[-1]:
            kept.append(x)
            x = g.add("MaxPool", [x], f"/down/{i}", kernel_shape=[2] * 3, strides=[2] * 3)
    for i, filters in enumerate(reversed(widths[:-1])):
        layer = f"/up/{i}"
        x = g.add(
            "ConvTranspose", [x, g.weight(channels, filters, 2, 2, 2), g.weight(filters)], layer,
            kernel_shape=[2] * 3, strides=[2] * 3,
        )
        x = g.add("Concat", [kept.pop(), x], layer, axis=1)
        x, channels = two(x, 2 * filters, filters, layer), filters
    g.add("Conv", [x, g.weight(4, channels, 1, 1, 1), g.weight(4)], "/head", kernel_shape=[1] * 3)
    g.nodes[-1].output[0] = "labels"
    g.save(path, "unet3d", [("volume", ["batch", 1, 64, 64, 64])], [("labels", ["batch", 4, 64, 64, 64])])


def encoder(path):
    """Two layers of a transformer, written out as exporters do: shapes by arithmetic, attention and GELU in parts."""
    g, width, heads, inner, words = Graph(), 128, 4, 512, 1000
    x = g.add("Gather", [g.weight(words, width), "tokens"], "/embedding")
    shape = g.add("Shape", ["tokens"], "")
    one = lambda i: g.add("Unsqueeze", [g.add("Gather", [shape, g.constant(i)], axis=0), g.constant([0])], "")
    batch, seq = one(0), one(1)
    split = g.add("Concat", [batch, seq, g.constant([heads]), g.constant([width // heads])], "", axis=0)
    joined = g.add("Concat", [batch, seq, g.constant([width])], "", axis=0)

    def linear(x, n, k, layer):
        return g.add("Add", [g.weight(n), g.add("MatMul", [x, g.weight(k, n)], layer)], layer)

    def norm(x, layer):
        return g.add("LayerNormalization", [x, g.weight(width), g.weight(width)], layer, axis=-1)

    for i in range(2):
        layer = f"/layers/{i}/attention"
        q, k, v = (g.add("Reshape", [linear(x, width, width, layer), split], layer) for _ in range(3))
        q, v = (g.add("Transpose", [t], layer, perm=[0, 2, 1, 3]) for t in (q, v))
        k = g.add("Transpose", [k], layer, perm=[0, 2, 3, 1])
        scores = g.add("Div", [g.add("MatMul", [q, k], layer), g.constant((width / heads) ** 0.5, np.float32)], layer)
        out = g.add("MatMul", [g.add("Softmax", [scores], layer, axis=-1), v], layer)
        out = g.add("Reshape", [g.add("Transpose", [out], layer, perm=[0, 2, 1, 3]), joined], layer)
        x = norm(g.add("Add", [x, linear(out, width, width, layer)], layer), layer)
        layer = f"/layers/{i}/mlp"
        y = linear(x, inner, width, layer)
        erf = g.add("Erf", [g.add("Div", [y, g.constant(2**0.5, np.float32)], layer)], layer)
        y = g.add("Mul", [y, g.add("Add", [erf, g.constant(1.0, np.float32)], layer)], layer)
        y = g.add("Mul", [y, g.constant(0.5, np.float32)], layer)
        x = norm(g.add("Add", [x, linear(y, width, inner, layer)], layer), layer)
    g.nodes[-1].output[0] = "states"
    g.save(path, "encoder", [("tokens", ["batch", "seq"], TensorProto.INT64)], [("states", ["batch", "seq", width])])


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for make in (mobilenet_v2, unet3d, encoder):
        make(str(folder / f"{make.__name__}.onnx"))
