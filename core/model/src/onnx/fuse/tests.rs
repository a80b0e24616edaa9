//! Patterns of exporters, node by node.

use super::*;
use crate::onnx::proto::data_type;

/// A node: operator, inputs, output.
type Line = (&'static str, &'static [&'static str], &'static str);

/// Extents of a value, and its contents if it is a constant.
type Known = (&'static str, &'static [u64], Option<&'static [f64]>);

/// Returns the fusion of each node by its output, in the order of nodes; nodes without one are absent.
fn fusions(known: &[Known], lines: &[Line], outputs: &[&str]) -> Vec<(&'static str, Fusion)> {
    let node = |(operator, inputs, output): &Line| NodeProto {
        op_type: Some((*operator).to_owned()),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![(*output).to_owned()],
        ..NodeProto::default()
    };
    let output =
        |name: &&str| crate::onnx::proto::ValueInfoProto { name: Some((*name).to_owned()), ..Default::default() };
    let graph = GraphProto {
        node: lines.iter().map(node).collect(),
        output: outputs.iter().map(output).collect(),
        ..GraphProto::default()
    };
    let value = |(name, shape, contents): &Known| {
        let value = Value::of(data_type::FLOAT, shape.to_vec());
        (*name, value.with_contents(contents.map(<[f64]>::to_vec)))
    };
    let values: HashMap<&str, Value> = known.iter().map(value).collect();
    let found = Fusions::of(&graph, &values);
    lines.iter().enumerate().filter_map(|(i, line)| Some((line.2, found.get(i)?.clone()))).collect()
}

/// Returns the outputs of nodes that another one computes.
fn parts(found: &[(&'static str, Fusion)]) -> Vec<&'static str> {
    found.iter().filter(|(_, fusion)| matches!(fusion, Fusion::Part(_))).map(|(name, _)| *name).collect()
}

/// Returns the fusions with work of their own.
fn whole(found: Vec<(&'static str, Fusion)>) -> Vec<(&'static str, Fusion)> {
    found.into_iter().filter(|(_, fusion)| !matches!(fusion, Fusion::Part(_))).collect()
}

const ROW: &[u64] = &[2, 8, 64];
const ONE: &[u64] = &[];

#[test]
fn gelu_by_tanh_is_one_operation_in_each_of_its_forms() {
    let known: &[Known] = &[
        ("x", ROW, None),
        ("three", ONE, Some(&[3.0])),
        ("c", ONE, Some(&[0.044715])),
        ("s", ONE, Some(&[0.79788])),
        ("one", ONE, Some(&[1.0])),
        ("half", ONE, Some(&[0.5])),
    ];
    let inner: [Line; 5] = [
        ("Pow", &["x", "three"], "cube"),
        ("Mul", &["cube", "c"], "small"),
        ("Add", &["x", "small"], "sum"),
        ("Mul", &["sum", "s"], "scaled"),
        ("Tanh", &["scaled"], "tanh"),
    ];
    let by_products: [Line; 6] = [
        ("Mul", &["x", "x"], "second"),
        ("Mul", &["second", "x"], "cube"),
        ("Mul", &["c", "cube"], "small"),
        ("Add", &["x", "small"], "sum"),
        ("Mul", &["s", "sum"], "scaled"),
        ("Tanh", &["scaled"], "tanh"),
    ];
    let half_before: [Line; 3] =
        [("Mul", &["x", "half"], "halved"), ("Add", &["tanh", "one"], "plus"), ("Mul", &["halved", "plus"], "y")];
    let half_after: [Line; 3] =
        [("Add", &["one", "tanh"], "plus"), ("Mul", &["x", "plus"], "double"), ("Mul", &["double", "half"], "y")];
    for before in [&inner[..], &by_products] {
        for after in [half_before, half_after] {
            let lines = [before, &after].concat();
            let found = fusions(known, &lines, &["y"]);
            assert_eq!(parts(&found).len(), lines.len() - 1, "{lines:?}: {found:?}");
            assert_eq!(whole(found), [("tanh", Fusion::Gelu("tanh"))], "{lines:?}");
        }
    }
    // A gate multiplies with the hyperbolic tangent itself, and a polynomial without a cube is no GELU.
    let gate: &[Line] = &[("Tanh", &["x"], "tanh"), ("Mul", &["x", "tanh"], "y")];
    let linear: [Line; 2] = [("Mul", &["x", "s"], "scaled"), ("Tanh", &["scaled"], "tanh")];
    for lines in [gate.to_vec(), [&linear[..], &half_after].concat()] {
        assert_eq!(fusions(known, &lines, &["y"]), [], "{lines:?}");
    }
}

#[test]
fn normalisations_of_rows_are_one_operation() {
    let known: &[Known] = &[
        ("x", ROW, None),
        ("d", ROW, None),
        ("p", ROW, None),
        ("axes", &[1], Some(&[-1.0])),
        ("first", &[1], Some(&[0.0])),
        ("two", ONE, Some(&[2.0])),
        ("one", ONE, Some(&[1.0])),
        ("eps", ONE, Some(&[1e-5])),
        ("gamma", &[1], Some(&[1.0])),
        ("beta", &[1], Some(&[0.0])),
    ];
    let mean: [Line; 2] = [("ReduceMean", &["x", "axes"], "m"), ("Sub", &["x", "m"], "d")];
    let of = |x: &'static [&'static str; 2], twice: &'static [&'static str; 2]| -> [[Line; 4]; 2] {
        let rest: [Line; 3] =
            [("ReduceMean", &["p", "axes"], "v"), ("Add", &["v", "eps"], "e"), ("Sqrt", &["e"], "root")];
        [("Pow", &x[..]), ("Mul", &twice[..])].map(|(power, inputs)| [(power, inputs, "p"), rest[0], rest[1], rest[2]])
    };
    let scaled: [Line; 2] = [("Mul", &["n", "gamma"], "g"), ("Add", &["g", "beta"], "y")];
    for power in of(&["d", "two"], &["d", "d"]) {
        let lines = [&mean[..], &power, &[("Div", &["d", "root"], "n")], &scaled].concat();
        let found = fusions(known, &lines, &["y"]);
        assert_eq!(parts(&found), ["m", "d", "p", "v", "e", "root", "n", "g"], "{lines:?}");
        assert_eq!(whole(found), [("y", Fusion::Rows("layernorm"))]);
    }
    let divisions: [&[Line]; 3] = [
        &[("Div", &["x", "root"], "n")],
        &[("Reciprocal", &["root"], "r"), ("Mul", &["x", "r"], "n")],
        &[("Div", &["one", "root"], "r"), ("Mul", &["x", "r"], "n")],
    ];
    for (power, division) in of(&["x", "two"], &["x", "x"]).iter().flat_map(|p| divisions.map(|d| (p, d))) {
        let lines = [&power[..], division, &[("Mul", &["gamma", "n"], "y")]].concat();
        let found = fusions(known, &lines, &["y"]);
        assert_eq!(parts(&found).len(), lines.len() - 1, "{lines:?}: {found:?}");
        assert_eq!(whole(found), [("y", Fusion::Rows("rmsnorm"))], "{lines:?}");
    }
    // A mean over another axis, and a root that others read, are left alone.
    let mut other = [&of(&["x", "two"], &["x", "x"])[0][..], divisions[0]].concat();
    assert_eq!(fusions(known, &other, &["n", "root"]), []);
    other[1] = ("ReduceMean", &["p", "first"], "v");
    assert_eq!(fusions(known, &other, &["n"]), []);
}

#[test]
fn heads_of_keys_that_are_repeated_are_read_once() {
    let known: &[Known] = &[
        ("q", &[2, 8, 16, 64], None),
        ("k", &[2, 2, 1, 32, 64], None),
        ("ke", &[2, 2, 4, 32, 64], None),
        ("kr", &[2, 8, 32, 64], None),
        ("kt", &[2, 8, 64, 32], None),
        ("v", &[2, 2, 1, 32, 64], None),
        ("ve", &[2, 2, 4, 32, 64], None),
        ("vr", &[2, 8, 32, 64], None),
        ("s", &[2, 8, 16, 32], None),
        ("w", &[2, 8, 16, 32], None),
        ("scale", ONE, Some(&[0.125])),
    ];
    let lines: [Line; 9] = [
        ("Expand", &["k", "shape"], "ke"),
        ("Reshape", &["ke", "flat"], "kr"),
        ("Transpose", &["kr"], "kt"),
        ("Expand", &["v", "shape"], "ve"),
        ("Reshape", &["ve", "flat"], "vr"),
        ("MatMul", &["q", "kt"], "s"),
        ("Mul", &["s", "scale"], "scaled"),
        ("Softmax", &["scaled"], "w"),
        ("MatMul", &["w", "vr"], "y"),
    ];
    let attention = |kv| Fusion::Attention(Attention { b: 2, h: 8, kv, s: 16, t: 32, d: 64, w: 0, causal: false });
    let found = fusions(known, &lines, &["y"]);
    assert_eq!(parts(&found), ["ke", "kr", "kt", "ve", "vr", "s", "scaled", "w"]);
    assert_eq!(whole(found), [("y", attention(2))]);
    // Values that come without repetition: each head has its own keys.
    let found = fusions(known, &[&lines[..3], &lines[5..]].concat(), &["y"]);
    assert_eq!(whole(found), [("y", attention(8))]);
}
