#!/usr/bin/env python3
"""Writes the ONNX models of `cases.json` for ONNX Runtime Web: one graph of standard operators (or its own fused ones) for each case.

    pip install onnx
    python models.py models

Weights are inputs of the graph, so that the page makes them as it makes all data.
"""

import json
import sys
from pathlib import Path

from onnx import TensorProto, helper, save

HERE = Path(__file__).parent


def parsed(case):
    """A case string: workload, extents by letter, words without a number, element type."""
    workload, _, shape, dtype = case.split("/")
    extents, words = {}, []
    for part in shape.split(","):
        letter = part.rstrip("0123456789")
        if letter == part:
            words.append(part)
        else:
            extents[letter] = int(part[len(letter) :])
    return workload, extents, words, dtype


def graph(case):
    """Nodes and named dimensions of inputs, and of the output; `None` where the runtime has no such operator."""
    workload, e, words, _ = parsed(case)
    ms = "com.microsoft"
    if workload == "matmul":
        node = helper.make_node("MatMul", ["a", "b"], ["y"])
        return [node], {"a": [e["m"], e["k"]], "b": [e["k"], e["n"]]}, [e["m"], e["n"]]
    if workload == "attention":
        row = [e["b"], e["s"], e["h"] * e["d"]]
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain=ms, num_heads=e["h"])
        return [node], {"q": row, "k": row, "v": row}, row
    if workload in ("conv2d", "depthwise_conv2d") and "nchw" in words:
        c = e["c"]
        groups, out, per = (c, c, 1) if workload == "depthwise_conv2d" else (1, e.get("m", c), c)
        dims = {"x": [e["n"], c, e["h"], e["h"]], "w": [out, per, e["k"], e["k"]]}
        node = helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=[e["p"]] * 4, kernel_shape=[e["k"]] * 2)
        return [node], dims, [e["n"], out, e["h"], e["h"]]
    if workload == "layernorm":
        row = [e["r"], e["c"]]
        node = helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["y"], axis=-1, epsilon=1e-5)
        return [node], {"x": row, "gamma": [e["c"]], "beta": [e["c"]]}, row
    if workload == "add_layernorm":
        row = [1, e["r"], e["c"]]
        names = ["x", "residual", "gamma", "beta"]
        node = helper.make_node("SkipLayerNormalization", names, ["y"], domain=ms, epsilon=1e-5)
        return [node], {"x": row, "residual": row, "gamma": [e["c"]], "beta": [e["c"]]}, row
    if workload == "softmax":
        row = [e["r"], e["c"]]
        return [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": row}, row
    if workload == "embedding":
        node = helper.make_node("Gather", ["table", "indices"], ["y"], axis=0)
        return [node], {"table": [e["v"], e["d"]], "indices": [e["n"]]}, [e["n"], e["d"]]
    if workload == "mlp_gelu":
        m, c, f = e["m"], e["c"], e["f"]
        nodes = [
            helper.make_node("MatMul", ["x", "w1"], ["h"]),
            helper.make_node("FastGelu", ["h", "b1"], ["g"], domain=ms),
            helper.make_node("MatMul", ["g", "w2"], ["o"]),
            helper.make_node("Add", ["o", "b2"], ["y"]),
        ]
        return nodes, {"x": [m, c], "w1": [c, f], "b1": [f], "w2": [f, c], "b2": [c]}, [m, c]
    return None


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(json.loads((HERE / "cases.json").read_text())):
        found = graph(case)
        if found is None:
            continue
        nodes, inputs, output = found
        real = TensorProto.FLOAT16 if case.endswith("/f16") else TensorProto.FLOAT
        kind = lambda name: TensorProto.INT32 if name == "indices" else real
        taken = [helper.make_tensor_value_info(name, kind(name), dims) for name, dims in inputs.items()]
        given = [helper.make_tensor_value_info("y", real, output)]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(helper.make_graph(nodes, "case", taken, given), opset_imports=opsets, ir_version=8)
        save(model, folder / f"{number}.onnx")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE / "models")
