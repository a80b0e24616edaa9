//! Pairwise sigmoid loss of two sets of embeddings: `loss = −1/n Σ_ij log σ(z_ij (t x_i·y_j + b))` with `z_ij = 1` for `i = j`, and
//! `−1` otherwise.
//!
//! Formula: Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023). Temperature `t` and bias `b` are inputs, f32.
//! Operations: those of the dot products, two a term. Bytes: both sets read once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference, Shape,
    Stage, StressInput, Tolerance, Variant, Workload, indexable, parts_of, pieces_in_parts, spread, sum_of_parts,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::dense;

mod backward;
mod pairs;
mod warpgroups;

use pairs::Pairs;

const X: usize = 0;
const Y: usize = 1;
const TEMPERATURE: usize = 2;
const BIAS: usize = 3;

/// Shapes around the edges of tiles of 64 by 64 with a depth of 16, and of tiles by warpgroups.
const AWKWARD: &[&str] = &["n1,d1", "n67,d130", "n64,d64", "n130,d16", "n9,d257", "n67,d136", "n200,d72"];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "pairwise sigmoid loss of two sets of embeddings",
        axes: const { &[Axis::extent("n", "embeddings, of each set"), Axis::extent("d", "embedding width")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"] * shape["n"].max(shape["d"])),
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        |p| {
            let n = p["n"];
            let mut buffers = given(p).to_vec();
            buffers.extend([
                BufferSpec::output("loss", Elem::F32, &[1]),
                BufferSpec::scratch("logits", Elem::F32, &[n, n]),
                BufferSpec::scratch("parts", Elem::F32, &[(n * n).min(MOST_PARTS)]),
            ]);
            buffers
        },
        |p| Cost::new(products(p), 2 * set(p) + 8, 4),
        |p, _| tolerance(p),
        Reference::new(
            |p, _| p["n"] * p["n"] * p["d"],
            |p, inputs| {
                let pairs = Pairs::new(p, inputs);
                Box::new(move |_, _, out| out[0] = pairs.loss())
            },
        ),
        OfNan::EVERYWHERE,
    )
    .headline("n1024,d512")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "three stages: logits are stored, a thread each; workgroups go over them; their parts are summed",
            |p, caps| stored(p, caps, plain(p, "loss_sigmoid/naive", "loss_sigmoid_naive_logits", p["n"])),
        ),
        Variant::kernel(
            "separate",
            "the same stages, logits by tiles of 64 by 64 whose rows and columns are shared in the workgroup's memory",
            separate,
        ),
        Variant::kernel("fused", "the same tiles, whose terms are summed as they are made: no logit is stored", fused),
        Variant::kernel(
            "wgmma",
            "dot products on tensor cores by four warps together, whose terms share logarithms: no logit is stored",
            warpgroups::loss,
        )
        .only_in(&[Dialect::Cuda])
        .available(warpgroups::available),
    ])
    .fallback(&["wgmma", "fused", "separate", "naive"])
    .stress(stress_inputs([|p, _| tolerance(p), |p, _| of_large(p, 1.0), |p, _| of_large(p, LARGE)]))
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n1024,d512", "n4096,d512"],
        _ => &["n1024,d512", "n4096,d512", "n8192,d512"],
    }
}

/// Element of an embedding of about unit length.
fn element(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["d"] as f64).sqrt()
}

/// Both sets, and a temperature and a bias as training reaches them.
fn given(p: &Problem) -> [BufferSpec; 4] {
    let dims = [p["n"], p["d"]];
    [
        BufferSpec::input("x", Elem::Real, &dims, element),
        BufferSpec::input("y", Elem::Real, &dims, element),
        BufferSpec::input("temperature", Elem::F32, &[1], |_, draw| 8.0 + 4.0 * draw.uniform()),
        BufferSpec::input("bias", Elem::F32, &[1], |_, draw| -2.0 - 2.0 * draw.uniform()),
    ]
}

/// Operations of all dot products of one set with the other.
fn products(p: &Problem) -> u64 {
    2 * p["n"] * p["n"] * p["d"]
}

/// Bytes of a set.
fn set(p: &Problem) -> u64 {
    p["n"] * p["d"] * Elem::Real.storage(p.dtype).bytes()
}

/// Upper bound of the product of two embeddings' lengths, with elements of at most `largest`. Usual embeddings are about one long.
fn lengths(p: &Problem, largest: Option<f64>) -> f64 {
    match largest {
        Some(largest) => p["d"] as f64 * largest * largest,
        None if p["d"] < 64 => 3.47 * 3.47,
        None => 2.5,
    }
}

/// Error of a logit.
fn error(p: &Problem, largest: Option<f64>) -> f64 {
    12.0 * lengths(p, largest) * 2f64.powi(-24) * (8.0 * (p["d"] as f64).sqrt() + 16.0)
}

fn tolerance(p: &Problem) -> Tolerance {
    Tolerance {
        abs: p["n"] as f64 * 2f64.powi(-126),
        rel: error(p, None) + 2f64.powi(-24) * (512.0 + p["n"] as f64),
        reason: "d products are summed in f32, 8·√d·u of their size but with probability e^-32 (Higham and Mary 2019), times a \
                 temperature of at most 12: a term is off by that relative to itself, and by WGSL's exp of up to 150; terms \
                 are positive, and n² of them are added in f32",
    }
}

/// Tolerance for elements of at most `largest`, with logits that may all be large.
fn of_large(p: &Problem, largest: f64) -> Tolerance {
    Tolerance {
        abs: p["n"] as f64 * error(p, Some(largest)),
        reason: "as usual; a term is off by no more than its logit, which is off relative to the size of its products",
        ..tolerance(p)
    }
}

/// Magnitude of elements that are large for an embedding.
const LARGE: f64 = 16.0;

/// Stress inputs, with tolerances for usual elements, for those of at most one, and for large ones.
fn stress_inputs([usual, ones, large]: [fn(&Problem, usize) -> Tolerance; 3]) -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: every logit is the bias", |_| vec![("x", zero), ("y", zero)], usual),
        set("equal", "all one: every logit is the same, and large", |_| vec![("x", one), ("y", one)], ones),
        set(
            "large",
            "elements up to 16 of either sign: exponentials overflow, or nothing is left of them",
            |_| {
                let fill: Fill = |_, draw| LARGE * (2.0 * draw.uniform() - 1.0);
                vec![("x", fill), ("y", fill)]
            },
            large,
        ),
    ]
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, d) = (p["n"] as usize, p["d"] as usize);
    let (temperature, bias) = (inputs[TEMPERATURE].f32()[0], inputs[BIAS].f32()[0]);
    let of_row = |(i, x): (usize, &[f32])| {
        let term = |(j, y): (usize, &[f32])| {
            let logit = temperature * dense::dot(x, y) + bias;
            let against = if i == j { -logit } else { logit };
            f64::from(against.max(0.0) + (-against.abs()).exp().ln_1p())
        };
        inputs[Y].f32().chunks(d).enumerate().map(term).sum::<f64>()
    };
    let sum: f64 = inputs[X].f32().par_chunks(d).enumerate().map(of_row).sum();
    outputs[0][0] = (sum / n as f64) as f32;
}

/// Threads of a workgroup, in every kernel.
const THREADS: u64 = 256;

/// Stage of one of the plainest kernel sources in `groups` workgroups.
fn plain(p: &Problem, text: &'static str, entry: &'static str, groups: u64) -> Stage {
    Stage::kernel(entry, text, entry)
        .consts(&[("N", p["n"]), ("D", p["d"]), ("ROW_THREADS", THREADS)].map(|(name, value)| (name, value as u32)))
        .consts(&[share(p)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(groups))
}

/// Share of a row in the mean.
fn share(p: &Problem) -> (&'static str, f32) {
    ("SHARE", 1.0 / p["n"] as f32)
}

/// Rows and columns of a tile, and terms of its products at a time, as in the kernel sources.
const TILE: u64 = 64;
const STEP: u64 = 16;
/// Bytes of workgroup memory for two tiles.
const TILE_BYTES: u32 = (2 * TILE * STEP * 4) as u32;

/// Kernel of tiles over these rows, columns and terms; `along` states whether terms are adjacent in memory, left and right.
struct Tiles {
    text: &'static str,
    rows: u64,
    columns: u64,
    depth: u64,
    along: [bool; 2],
}

impl Tiles {
    fn count(&self) -> u64 {
        self.rows.div_ceil(TILE) * self.columns.div_ceil(TILE)
    }

    /// Stage of `groups` workgroups.
    fn stage(&self, p: &Problem, entry: &'static str, groups: u64) -> Stage {
        let across = self.columns.div_ceil(TILE);
        let consts = [
            ("N", p["n"]),
            ("D", p["d"]),
            ("DEPTH", self.depth),
            ("ACROSS", across),
            ("TILES", self.count()),
            ("PARTS", groups),
            ("ROW_THREADS", THREADS),
        ];
        Stage::kernel(entry, self.text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .consts(&[share(p)])
            .consts(&[("LEFT_ALONG", self.along[0]), ("RIGHT_ALONG", self.along[1])])
            .threads([THREADS as u32, 1, 1])
            .grid(spread(groups))
            .shared(TILE_BYTES)
    }
}

/// Tiles of all logits.
fn logits(p: &Problem) -> Tiles {
    Tiles { text: "loss_sigmoid/logits", rows: p["n"], columns: p["n"], depth: p["d"], along: [true, true] }
}

/// Adds the arguments of a stage that computes logits, and its output.
fn making_logits(stage: Stage, to: &'static str) -> Stage {
    stage.args([("x", Read), ("y", Read), ("temperature", Read), ("bias", Read), (to, Write)])
}

/// Stage of the loss, from `parts` parts of its sum.
fn mean(p: &Problem, caps: &Caps, parts: u64) -> Stage {
    sum_of_parts(parts, 1, caps, "lib/total", "total_of_parts")
        .consts(&[("SCALE", 1.0 / p["n"] as f32)])
        .args([("parts", "parts", Read), ("total", "loss", Write)])
}

/// Program with stored logits, computed by the given stage.
fn stored(p: &Problem, caps: &Caps, make: Stage) -> Program {
    let count = p["n"] * p["n"];
    let make = making_logits(make, "logits").cost(Cost::new(products(p), 2 * set(p) + 8, 4 * count));
    let (terms, parts) = pieces_in_parts(count, 1, caps, "loss_sigmoid/terms", "loss_sigmoid_terms");
    let terms = terms.consts(&[("N", p["n"] as u32)]).args([("logits", Read), ("parts", Write)]).cost(Cost::new(
        0,
        4 * count,
        4 * parts,
    ));
    Program { stages: vec![make, terms, mean(p, caps, parts)] }
}

fn separate(p: &Problem, caps: &Caps) -> Program {
    let tiles = logits(p);
    stored(p, caps, tiles.stage(p, "loss_sigmoid_logits", tiles.count()))
}

fn fused(p: &Problem, caps: &Caps) -> Program {
    let tiles = logits(p);
    let parts = parts_of(tiles.count(), caps);
    let sums =
        making_logits(tiles.stage(p, "loss_sigmoid_fused", parts), "parts").shared(TILE_BYTES + 4 * THREADS as u32);
    let sums = sums.cost(Cost::new(products(p), 2 * set(p) + 8, 4 * parts));
    Program { stages: vec![sums, mean(p, caps, parts)] }
}
