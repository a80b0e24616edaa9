//! Transformer encoder: `l` layers of `encoder_layer` in sequence, each with its own weights.
//!
//! `x` and `out` are `[b, s, h·d]`. The parameters of layer `i` have the layer's names with suffix `_i`, from `gamma1_0` to
//! `b2_26`. Defaults of a shape are those of SigLIP 2's So400m vision tower: 27 layers, 256 patches, 16 heads of 72, 4304 in the
//! middle of the MLP. The norm after the last layer is the workload `layernorm`, and not included.
//!
//! Every variant is the layer's, with numbered buffers. Profiles sum components over all layers, and stages carry their layer's
//! number. Intermediates within and between layers are scratch. No memory is held for longer than a layer needs it, so scratch is
//! about as large as a single layer's.
//!
//! Both directions are one program, which keeps the inputs of layers and recomputes the rest on the way back. With `kept`, it keeps
//! the values that the backward pass reads, which takes more memory: see `both`.
//!
//! Operations: those of the layer, times the number of layers.

use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, HostBuffer, Inputs, MOST_NUMBERED, OfNan, OpSpec, Problem, Program, Reference, Role, Rows, Shape,
    Stage, StressInput, Tolerance, Variant, Workload, numbered,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::attention_block::items::Items;
use super::attention_block::{items, row_beside, width};
use super::encoder_layer::{BQ, LEARNED, WQ, layer_of, parameters};
use crate::SubOp;

mod both;
mod tolerance;

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "a transformer's encoder: layers with weights of their own, one behind the other",
        axes: const {
            &[
                Axis::optional("l", "layers", 1, 27),
                Axis::extent("b", "batch"),
                Axis::optional("s", "tokens", 1, 256),
                Axis::optional("h", "heads", 1, 16),
                Axis::optional("d", "head dim", 1, 72),
                Axis::optional("f", "hidden width, of the MLP", 1, 4304),
                Axis::word(
                    "activations",
                    "whether values of the forward pass stay in memory for the backward pass",
                    &["", "kept"],
                ),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match shape["l"] {
            0..=MOST_LAYERS => super::encoder_layer::indexed(shape),
            layers => Err(format!("at most {MOST_LAYERS} layers have names for their buffers, not {layers}")),
        },
        forms: vec![form(), both::form()],
    }
}

/// Largest number of layers: both passes number them.
const MOST_LAYERS: u64 = MOST_NUMBERED / 2;

/// Shapes that cross the edges of tiles, heads and rows of every part. One has more items than distinct ones.
const AWKWARD: &[&str] = &["l1,b1,s1,h1,d1,f1", "l2,b3,s5,h2,d3,f7", "l3,b3,s34,h2,d36,f136", "l2,b2,s65,h1,f132"];

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, output, 1.0),
        Reference::new(row_cost, rows),
        OfNan::MIXED,
    )
    .headline("l4,b1,s64,h8,d64,f1024")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(setup)
    .host(host)
    .variants(vec![
        Variant::kernel("unfused", "every step of a layer a stage, scores in device memory", |p, caps| {
            program(p, caps, "unfused")
        })
        .available(|p, _| alone(p)),
        Variant::kernel(
            "fused",
            "layers with queries, keys and values by one product, no score matrix, sums normalised as they are made, \
             biases and GELU done to sums in registers",
            |p, caps| program(p, caps, "fused"),
        )
        .available(|p, caps| available(p, caps, "fused")),
        Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| program(p, caps, "mma"))
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| available(p, caps, "mma")),
        Variant::kernel(
            "wgmma",
            "the same on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| program(p, caps, "wgmma"),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| available(p, caps, "wgmma")),
        Variant::kernel(
            "vendor",
            "the same with products and attention by the vendor's libraries, cuBLASLt and cuDNN",
            |p, caps| program(p, caps, "vendor"),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| available(p, caps, "vendor")),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["wgmma", "mma", "fused", "unfused"])
    .stress(stress_inputs())
}

/// Checks that a forward pass is not asked to keep values for a backward pass.
fn alone(p: &Problem) -> Result<(), String> {
    match kept(p) {
        true => Err("a forward pass alone keeps no values for a backward pass: leave `kept` out".to_owned()),
        false => Ok(()),
    }
}

fn available(p: &Problem, caps: &Caps, variant: &str) -> Result<(), String> {
    alone(p)?;
    layer(p).available(variant, caps)
}

/// Shapes of a preset: few layers for every device, and the whole vision tower if memory and the reference's time allow.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["l4,b1,s64,h8,d64,f1024", "l2,b1", "l2,b8"],
        _ => &["l4,b1,s64,h8,d64,f1024", "b1", "b8", "b128"],
    }
}

/// Layer as a sub-operation, in the same direction.
fn layer(p: &Problem) -> SubOp {
    layer_in(p, p.direction)
}

/// Layer in the forward pass, with which both directions begin.
fn forward_layer(p: &Problem) -> SubOp {
    layer_in(p, Direction::Fwd)
}

/// Whether values of the forward pass stay in memory for the backward pass.
fn kept(p: &Problem) -> bool {
    p.shape.has("kept")
}

fn layer_in(p: &Problem, direction: Direction) -> SubOp {
    // A forward pass alone has no use for GELU's argument.
    let kept = if kept(p) && direction != Direction::Fwd { ",kept" } else { "" };
    let shape = format!("b{},s{},h{},d{},f{}{kept}", p["b"], p["s"], p["h"], p["d"], p["f"]);
    SubOp::new("encoder_layer", direction, &shape, p.dtype)
}

/// Name of a layer's buffer in layer `at`: its `x` and `out`, and the buffers of each layer.
fn of_layer(p: &Problem, name: &'static str, at: u64) -> &'static str {
    match name {
        "x" if at == 0 => "x",
        "x" => numbered("out", at - 1),
        "out" if at + 1 == p["l"] => "out",
        name => numbered(name, at),
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let specs = forward_layer(p).problem().buffers();
    let (x, own) = specs.split_first().expect("the layer's rows come first");
    let named = |at: u64| {
        own.iter().map(move |spec| {
            let role = match spec.role {
                Role::Output { .. } if at + 1 < p["l"] => Role::Scratch,
                role => role,
            };
            BufferSpec { name: of_layer(p, spec.name, at), role, ..spec.clone() }
        })
    };
    let (inputs, others): (Vec<BufferSpec>, Vec<BufferSpec>) =
        (0..p["l"]).flat_map(named).partition(|spec| spec.role.fill().is_some());
    std::iter::once(x.clone()).chain(inputs).chain(others).collect()
}

/// Index of a layer's input among the inputs of all layers.
fn input_of(at: usize, buffer: usize) -> usize {
    at * LEARNED.len() + buffer
}

fn cost(p: &Problem) -> Cost {
    let (inner, layers) = (forward_layer(p), p["l"]);
    let of_layer = inner.problem().cost();
    // The first layer reads rows, and the last writes them.
    let rows = inner.problem().bytes(|spec| spec.name == "x").0;
    Cost::new(layers * of_layer.flops.0, rows + layers * (of_layer.read.0 - rows), of_layer.written.0)
}

/// Whether a checked buffer is the result. The others are each layer's concatenated weights and biases.
fn is_result(p: &Problem, output: usize) -> bool {
    output as u64 == 2 * p["l"]
}

/// Tolerance for rows `scale` times as large as seeded ones.
fn tolerance(p: &Problem, output: usize, scale: f64) -> Tolerance {
    match is_result(p, output) {
        true => tolerance::of_result(p, scale),
        false => Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "copied" },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "no inputs: the first norm divides by the root of ε, and all rows are alike in every layer",
            |_| vec![("x", zero)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "equal",
            "all elements alike, which the first norm makes zeros of",
            |_| vec![("x", one)],
            |p, output| tolerance(p, output, 1.0),
        ),
        StressInput::new(
            "large",
            "a residual stream 64 times as large, beside which all that layers add is small",
            |_| vec![("x", |shape: &Shape, draw| 64.0 * items(shape, draw))],
            |p, output| tolerance(p, output, 64.0),
        ),
    ]
}

/// Operations of a row: a copy, because all rows of all layers are computed before the first.
fn row_cost(p: &Problem, output: usize) -> u64 {
    if is_result(p, output) { width(p) } else { 1 }
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (c, s, inner) = (width(p), p["s"], layer(p));
    let layer = layer_of(inner.problem());
    let mut items =
        Items::new(inputs, &[X], [p["b"], s * c], |item, _| inputs.values(X, item * s * c..(item + 1) * s * c));
    for at in 0..p["l"] as usize {
        let of = parameters(|buffer| inputs.whole(input_of(at, buffer)).into());
        items.known_mut().iter_mut().for_each(|x| *x = layer.forward(x, &of, None).out);
    }
    Box::new(move |output, row, out| match is_result(p, output) {
        true => out.copy_from_slice(&items.item(row / s)[(row % s * c) as usize..][..c as usize]),
        false => copied_row(p, inputs, output, row, out),
    })
}

/// Computes a row of concatenated weights or biases.
fn copied_row(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    match (output / 2, output % 2) {
        (at, 0) => row_beside(p, inputs, input_of(at, WQ), row, out),
        (at, _) => row_beside(p, inputs, input_of(at, BQ), 0, out),
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (elements, inner) = ((p["s"] * width(p)) as usize, layer(p));
    let layer = layer_of(inner.problem());
    let mut rows = inputs[X].f32().to_vec();
    for at in 0..p["l"] as usize {
        let of = parameters(|buffer| inputs[input_of(at, buffer)].f32().into());
        for item in rows.chunks_exact_mut(elements) {
            item.copy_from_slice(&layer.forward(item, &of, None).out);
        }
    }
    outputs[0].copy_from_slice(&rows);
}

/// Stages of a layer on the buffers of layer `at`.
fn on_layer(stages: &[Stage], at: u64, names: &[(&'static str, &'static str)]) -> impl Iterator<Item = Stage> {
    stages.iter().map(move |stage| stage.clone().on_buffers(names).renamed(|label| format!("layer{at}_{label}")))
}

/// Program with the forward stages of a layer for each layer.
fn in_layers(p: &Problem, stages: &[Stage]) -> Program {
    let specs = forward_layer(p).problem().buffers();
    let of = |at: u64| {
        let names: Vec<_> = specs.iter().map(|spec| (spec.name, of_layer(p, spec.name, at))).collect();
        on_layer(stages, at, &names).collect::<Vec<_>>()
    };
    Program { stages: (0..p["l"]).flat_map(of).collect() }
}

/// Set-up that concatenates the weights and biases of queries, keys and values.
fn setup(p: &Problem, caps: &Caps) -> Program {
    in_layers(p, &forward_layer(p).setup(caps, &[]))
}

fn program(p: &Problem, caps: &Caps, variant: &str) -> Program {
    in_layers(p, &forward_layer(p).stages(variant, caps, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::{Case, Scratch};
    use parallax_schema::testing::caps;

    const LAYER: &str = "b2,s5,h4,d8,f64";

    fn case(direction: &str, layers: u64, variant: &str) -> Case {
        parse_case(&format!("encoder/{direction}/l{layers},{LAYER}/f32/{variant}")).expect("valid")
    }

    #[test]
    fn stages_are_the_layers_on_buffers_of_each_layer() {
        for variant in ["unfused", "fused"] {
            let (case, one) = (case("fwd", 3, variant), format!("encoder_layer/fwd/{LAYER}/f32/{variant}"));
            let of_layer = parse_case(&one).expect("valid").program(&caps()).expect("a kernel variant").stages;
            let whole = case.program(&caps()).expect("a kernel variant").stages;
            assert_eq!(whole.len(), 3 * of_layer.len());
            for (at, stages) in (0..).zip(whole.chunks_exact(of_layer.len())) {
                for (stage, one) in stages.iter().zip(&of_layer) {
                    assert_eq!((&stage.work, stage.component), (&one.work, one.component));
                    assert_eq!(stage.label, format!("layer{at}_{}", one.label));
                    let expected = |name: &'static str| match (name, at) {
                        ("x", 0) => "x".to_owned(),
                        ("x", at) => format!("out_{}", at - 1),
                        ("out", 2) => "out".to_owned(),
                        (name, at) => format!("{name}_{at}"),
                    };
                    let named = one.args.iter().map(|arg| expected(arg.buffer));
                    assert!(named.eq(stage.args.iter().map(|arg| arg.buffer)), "{}", stage.label);
                }
            }
        }
    }

    #[test]
    fn a_layer_takes_no_memory_but_for_the_rows_that_the_way_back_begins_with() {
        const ROWS: u64 = 2 * 5 * 32 * 4;
        for (direction, rows) in [("fwd", 0), ("fwd+bwd", ROWS)] {
            let arena = |layers: u64| {
                let case = case(direction, layers, "unfused");
                let program = case.program(&caps()).expect("a kernel variant");
                Scratch::new(&program, &case.problem.buffers(), case.problem.dtype).arena
            };
            assert_eq!(arena(27) - arena(3), 24 * rows, "{direction}");
        }
    }

    /// Results of the first layers do not depend on later ones: without the last layer they equal those of a program that omits it.
    #[test]
    fn tolerances_show_whether_every_layer_went_in() {
        let results = |direction: &str, layers: u64, dtype: DType, outputs: &std::ops::Range<usize>| {
            let Case { problem, .. } = case(direction, layers, "fused");
            let problem = Problem { dtype, ..problem };
            let (inputs, specs, checked) = (problem.inputs(1), problem.buffers(), problem.outputs());
            let row_of = (problem.form().reference.rows)(&problem, &inputs);
            let mut found = Vec::new();
            for output in outputs.clone().map(|output| 2 * layers as usize + output) {
                let (spec, allowed) = (&specs[checked[output]], inputs.tolerance(&problem, output));
                let columns = spec.role.row_len().expect("checked") as usize;
                let mut all = vec![0.0; spec.len as usize];
                (0..).zip(all.chunks_exact_mut(columns)).for_each(|(row, out)| row_of(output, row, out));
                found.extend(all.into_iter().map(|value| (value, allowed)));
            }
            found
        };
        // The result, or gradients of the rows and of the first layer's parameters.
        for (direction, layers, outputs, shown) in
            [("fwd", 27, 0..1, [0.99, 0.8, 0.2]), ("fwd+bwd", 3, 1..14, [0.9, 0.5, 0.05])]
        {
            for (dtype, shown) in [DType::F32, DType::F16, DType::BF16].into_iter().zip(shown) {
                let whole = results(direction, layers, dtype, &outputs);
                let without = results(direction, layers - 1, dtype, &outputs);
                let seen = |((a, allowed), (b, _)): (&(f64, Tolerance), &(f64, Tolerance))| {
                    (a - b).abs() > allowed.abs + allowed.rel * a.abs()
                };
                let share = whole.iter().zip(&without).filter(|pair| seen(*pair)).count() as f64 / whole.len() as f64;
                assert!(share > shown, "{direction} {dtype:?}: {share}");
            }
        }
    }
}
