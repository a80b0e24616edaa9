//! Both directions, as in a training step that keeps only the input rows of each layer. After the forward pass, it visits the
//! layers from last to first. It recomputes the values that a layer's backward pass needs, and then its gradients.
//!
//! Formula: Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), with one segment per layer.
//! Recomputation is not counted among the operations, as in `encoder_layer`.
//!
//! With `kept`, each layer's forward pass leaves these values in memory, and nothing before a norm's result is recomputed.

use parallax_ir::stress::{sums_of_zeros, zero};
use parallax_ir::{
    BufferSpec, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Role, Rows, Stage, StressInput,
    Tolerance, Variant, numbered,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::Bytes;

use super::super::attention_block::{row_count, width};
use super::super::encoder_layer::{Layer, Parameters, checkpointed, halves, layer_of, left, parameters};
use super::super::linear::stages::GemmKind;
use super::{Items, LEARNED, X, copied_row, input_of, kept, layer, of_layer, on_layer, setup, tolerance as tolerances};
use crate::real::Real;

/// Specification of both directions.
pub(super) fn form() -> OpSpec {
    OpSpec::new(Direction::FwdBwd, Rate::Flops, buffers, cost, tolerance, Reference::new(row_cost, rows), OfNan::MIXED)
        .headline("l2,b1,s64,h8,d64,f1024")
        .shapes(shapes)
        .awkward(AWKWARD)
        .setup(setup)
        .host(host)
        .variants(vec![
            Variant::kernel("unfused", "every step of a layer a stage, scores in device memory", |p, caps| {
                program(p, caps, "unfused", None)
            })
            .available(|p, _| addressable(p, usize::BITS)),
            Variant::kernel("fused", "the fused form of a layer in both directions", |p, caps| {
                program(p, caps, "fused", Some(GemmKind::Tiles))
            })
            .available(|p, caps| available(p, caps, "fused")),
            Variant::kernel("mma", "the same on tensor cores by warp-wide instructions", |p, caps| {
                program(p, caps, "mma", Some(GemmKind::Mma))
            })
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| available(p, caps, "mma")),
            Variant::kernel(
                "wgmma",
                "the same on tensor cores by four warps together; the copy engine loads and stores tiles",
                |p, caps| program(p, caps, "wgmma", Some(GemmKind::Wgmma)),
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| available(p, caps, "wgmma")),
            Variant::kernel(
                "vendor",
                "the same with products and attention by the vendor's libraries, cuBLASLt and cuDNN",
                |p, caps| program(p, caps, "vendor", Some(GemmKind::Library)),
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| available(p, caps, "vendor")),
        ])
        // Without `vendor`: a time of the library must not come from another kernel.
        .fallback(&["wgmma", "mma", "fused", "unfused"])
        .stress(stress_inputs())
}

/// Shapes of the forward pass, some of them with kept values, too.
const AWKWARD: &[&str] = &[
    "l1,b1,s1,h1,d1,f1",
    "l2,b3,s5,h2,d3,f7",
    "l3,b3,s34,h2,d36,f136",
    "l2,b2,s65,h1,f132",
    "l1,b1,s1,h1,d1,f1,kept",
    "l3,b3,s34,h2,d36,f136,kept",
    "l2,b2,s65,h1,f132,kept",
];

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["l2,b1,s64,h8,d64,f1024", "l2,b1", "l2,b8", "l2,b8,kept"],
        _ => &["l2,b1,s64,h8,d64,f1024", "b1", "b8", "b8,kept"],
    }
}

/// Index of the upstream gradient among the inputs, after the parameters of all layers.
fn dout(p: &Problem) -> usize {
    input_of(p["l"] as usize, 1)
}

/// Name of a layer's buffer in the backward pass of layer `at`. Scratch of the forward pass has another name: otherwise it would
/// stay allocated until then.
fn on_the_way_back(p: &Problem, spec: &BufferSpec, at: u64) -> &'static str {
    match (spec.name, spec.role) {
        ("x" | "out", _) => of_layer(p, spec.name, at),
        ("dout", _) if at + 1 == p["l"] => "dout",
        ("dout", _) => numbered("dx", at + 1),
        ("dx", _) if at == 0 => "dx",
        (name, Role::Scratch) => numbered(name, p["l"] + at),
        (name, _) => numbered(name, at),
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (specs, mut buffers) = (layer(p).problem().buffers(), super::buffers(p));
    let upstream = specs.iter().find(|spec| spec.name == "dout").expect("the layer's gradient that comes in");
    buffers.insert(dout(p), upstream.clone());
    let made = |spec: &&BufferSpec| spec.name != "out" && matches!(spec.role, Role::Output { .. } | Role::Scratch);
    for at in 0..p["l"] {
        buffers.extend(specs.iter().filter(made).map(|spec| {
            let role = if spec.name == "dx" && at > 0 { Role::Scratch } else { spec.role };
            BufferSpec { name: on_the_way_back(p, spec, at), role, ..spec.clone() }
        }));
    }
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (inner, there) = (layer(p), super::cost(p));
    let one = inner.problem();
    let rows = one.bytes(|spec| spec.name == "x").0;
    // One gradient for each row, and for all other inputs.
    Cost::new(p["l"] * one.cost().flops.0, there.read.0 + rows, there.written.0 + there.read.0)
}

/// Kind of a checked buffer: concatenated copies, the result, gradients of the rows, and of a layer's parameters.
enum Checked {
    Copied,
    Out,
    Dx,
    Learned { layer: usize, which: usize },
}

/// Number of parameter gradients of a layer: those of queries, keys and values are concatenated.
const GRADIENTS: usize = LEARNED.len() - 4;

fn checked(p: &Problem, output: usize) -> Checked {
    match output.checked_sub(2 * p["l"] as usize) {
        None => Checked::Copied,
        Some(0) => Checked::Out,
        Some(1) => Checked::Dx,
        Some(more) => Checked::Learned { layer: (more - 2) / GRADIENTS, which: (more - 2) % GRADIENTS },
    }
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    match checked(p, output) {
        Checked::Copied | Checked::Out => super::tolerance(p, output, 1.0),
        Checked::Dx => tolerances::of_rows(p),
        Checked::Learned { layer, .. } => tolerances::of_learned(p, layer),
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![StressInput::new(
        "zeros",
        "no gradient: the result is as usual, and every gradient is zero",
        |_| vec![("dout", zero)],
        |p, output| match checked(p, output) {
            Checked::Copied | Checked::Out => tolerance(p, output),
            _ => sums_of_zeros(p),
        },
    )]
}

/// Operations of a row: a copy, because everything is computed before the first row.
fn row_cost(p: &Problem, output: usize) -> u64 {
    match checked(p, output) {
        Checked::Out | Checked::Dx => width(p),
        _ => 1,
    }
}

fn available(p: &Problem, caps: &Caps, variant: &str) -> Result<(), String> {
    addressable(p, usize::BITS)?;
    layer(p).available(variant, caps)
}

/// Checks that the reference fits into the address space. It keeps the gradients of all layers as doubles, which may be too much
/// for a page with 32-bit addresses.
fn addressable(p: &Problem, bits: u32) -> Result<(), String> {
    let specs = p.buffers();
    let kept = Bytes(8 * p.outputs().into_iter().map(|at| specs[at].len).sum::<u64>());
    match bits < 64 && kept > Bytes(1 << 31) {
        true => Err(format!("the reference keeps {kept} of gradients, more than a page has room for")),
        false => Ok(()),
    }
}

/// State of an item in the forward and backward pass through all layers.
struct Way<T> {
    /// Input of each layer, and the result.
    rows: Vec<Vec<T>>,
    gradient: Vec<T>,
    /// Number of equal items.
    count: T,
}

/// Runs the forward and backward pass of items through all layers, and sums the parameter gradients.
fn there_and_back<'a, T: Real>(
    layers: usize,
    layer: Layer,
    ways: &mut [Way<T>],
    of: impl Fn(usize) -> Parameters<'a, T>,
) -> Vec<Vec<Vec<T>>> {
    for at in 0..layers {
        let of = of(at);
        for way in ways.iter_mut() {
            way.rows.push(layer.forward(&way.rows[at], &of, None).out);
        }
    }
    let mut learned = vec![Vec::new(); layers];
    for at in (0..layers).rev() {
        let of = of(at);
        for way in ways.iter_mut() {
            let gradients = layer.backward(&of, &layer.forward(&way.rows[at], &of, None), &way.gradient);
            if learned[at].is_empty() {
                learned[at] = gradients.learned.iter().map(|gradient| vec![T::zero(); gradient.len()]).collect();
            }
            gradients.add_to(&mut learned[at], way.count);
            way.gradient = gradients.dx;
        }
    }
    learned
}

fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (c, s, layers, inner) = (width(p), p["s"], p["l"] as usize, layer(p));
    let buffers = [X, dout(p)];
    let mut items = Items::new(inputs, &buffers, [p["b"], s * c], |item, count| {
        let [x, gradient] = buffers.map(|buffer| inputs.values(buffer, item * s * c..(item + 1) * s * c));
        Way { rows: vec![x], gradient, count }
    });
    let of = |at: usize| parameters(|buffer| inputs.whole(input_of(at, buffer)).into());
    let learned = there_and_back(layers, layer_of(inner.problem()), items.known_mut(), of);
    Box::new(move |output, row, out| {
        let way = |row: u64| items.item(row / s);
        let within = |from: &[f64], out: &mut [f64]| out.copy_from_slice(&from[(row % s * c) as usize..][..c as usize]);
        match checked(p, output) {
            Checked::Copied => copied_row(p, inputs, output, row, out),
            Checked::Out => within(&way(row).rows[layers], out),
            Checked::Dx => within(&way(row).gradient, out),
            Checked::Learned { layer, which } => out[0] = learned[layer][which][row as usize],
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (layers, elements) = (p["l"] as usize, (row_count(p) / p["b"] * width(p)) as usize);
    let [x, dout] = [X, dout(p)].map(|buffer| inputs[buffer].f32().chunks_exact(elements));
    let way = |(x, dout): (&[f32], &[f32])| Way { rows: vec![x.to_vec()], gradient: dout.to_vec(), count: 1.0 };
    let mut ways: Vec<Way<f32>> = x.zip(dout).map(way).collect();
    let of = |at: usize| parameters(|buffer| inputs[input_of(at, buffer)].f32().into());
    let learned = there_and_back(layers, layer_of(layer(p).problem()), &mut ways, of);
    let [out, dx, gradients @ ..] = outputs else { unreachable!("the result, and gradients") };
    for ((way, out), dx) in ways.iter().zip(out.chunks_exact_mut(elements)).zip(dx.chunks_exact_mut(elements)) {
        out.copy_from_slice(&way.rows[layers]);
        dx.copy_from_slice(&way.gradient);
    }
    gradients.iter_mut().zip(learned.iter().flatten()).for_each(|(out, sums)| out.copy_from_slice(sums));
}

/// Program of a variant's forward pass, and of the backward pass by the matching stages of a layer.
fn program(p: &Problem, caps: &Caps, variant: &str, kind: Option<GemmKind>) -> Program {
    let inner = layer(p);
    let (mut all, back) = match kept(p) {
        true => {
            let [there, back] = halves(inner.problem(), caps, kind);
            (leaving(p, inner.problem(), &there), back)
        }
        false => (super::program(p, caps, variant).stages, checkpointed(inner.problem(), caps, kind).stages),
    };
    let specs = inner.problem().buffers();
    for at in (0..p["l"]).rev() {
        let names: Vec<_> = specs.iter().map(|spec| (spec.name, on_the_way_back(p, spec, at))).collect();
        all.extend(on_layer(&back, at, &names));
    }
    Program { stages: all }
}

/// Stages of the forward pass of all layers, which leave values in the buffers of the way back.
fn leaving(p: &Problem, inner: &Problem, there: &[Stage]) -> Vec<Stage> {
    let (specs, left) = (inner.buffers(), left(inner));
    let named = |spec: &BufferSpec, at| match left.contains(&spec.name) {
        true => on_the_way_back(p, spec, at),
        false => of_layer(p, spec.name, at),
    };
    let of = |at: u64| {
        let names: Vec<_> = specs.iter().map(|spec| (spec.name, named(spec, at))).collect();
        on_layer(there, at, &names).collect::<Vec<_>>()
    };
    (0..p["l"]).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use parallax_ir::Scratch;
    use parallax_schema::case::DType;
    use parallax_schema::testing::caps;

    #[test]
    fn kept_values_take_memory_in_place_of_stages() {
        for variant in ["unfused", "fused"] {
            let of = |layers: u64, kept: &str| {
                let name = format!("encoder/fwd+bwd/l{layers},b2,s5,h4,d8,f64{kept}/f32/{variant}");
                let case = crate::parse_case(&name).expect("valid");
                let program = case.program(&caps()).expect("a kernel variant");
                (Scratch::new(&program, &case.problem.buffers(), DType::F32).arena, program.stages)
            };
            let ((recomputed, all), (kept, fewer)) = (of(9, ""), of(9, ",kept"));
            assert!(fewer.len() < all.len(), "{variant}");
            assert!(fewer.iter().all(|stage| !stage.label.contains("again")), "{variant}");
            // Queries, keys and values, rows of attention, the sum, and GELU's argument: at least six rows and two of the MLP.
            let (rows, middle) = (2 * 5 * 32 * 4, 2 * 5 * 64 * 4);
            assert!(kept > recomputed + 8 * (5 * rows + middle), "{variant}: {kept} beside {recomputed}");
        }
    }

    #[test]
    fn a_page_says_that_it_has_no_room_for_the_gradients_of_all_layers() {
        let workload = find("encoder").expect("registered");
        let of = |shape| Problem::new(workload, Direction::FwdBwd, shape, DType::F32).expect("valid");
        let why = addressable(&of("b1"), 32).expect_err("of 27 layers");
        assert_eq!(why, "the reference keeps 4.16 GB of gradients, more than a page has room for");
        assert_eq!(addressable(&of("l2,b1"), 32), Ok(()));
        assert_eq!(addressable(&of("b1"), 64), Ok(()));
    }
}
