//! Backward direction: gradients of both sets, of the temperature and of the bias for a gradient `dloss` of the loss.
//!
//! With `s_ij = −z_ij σ(−z_ij (t x_i·y_j + b)) dloss / n`: `dx_i = t Σ_j s_ij y_j`, `dy_j = t Σ_i s_ij x_i`, `dt = Σ_ij s_ij
//! x_i·y_j` and `db = Σ_ij s_ij`.
//!
//! The slopes `s` are stored. Their recomputation for every stretch of 64 columns of both gradients would cost `d/64` times the dot
//! products. Operations: those of the three GEMMs, two a term.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::smallest_normal;
use parallax_ir::{
    BufferSpec, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Program, Reference, Rows, Stage,
    Tolerance, Variant, sum_of_parts,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::{
    AWKWARD, BIAS, LARGE, Pairs, TEMPERATURE, THREADS, TILE_BYTES, Tiles, X, Y, error, given, lengths, logits, plain,
    products, set, stress_inputs, warpgroups,
};
use crate::dense;

const DLOSS: usize = 4;

/// Indices of the checked buffers, in buffer order; the last is the gradient of the bias.
const DX: usize = 0;
const DY: usize = 1;
const DTEMPERATURE: usize = 2;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        |p| Cost::new(3 * products(p), 2 * set(p) + 12, 2 * set(p) + 8),
        |p, output| tolerance(p, output, None),
        Reference::new(row_cost, reference),
        OfNan::EVERYWHERE,
    )
    .headline("n1024,d512")
    .shapes(super::shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "slopes by a workgroup a row, which leaves its parts of dt and db; then dx and dy by a thread an element",
            naive,
        ),
        Variant::kernel(
            "tiled",
            "the same stages by tiles of 64 by 64, whose rows and columns are shared in the workgroup's memory",
            tiled,
        ),
        Variant::kernel(
            "wgmma",
            "three GEMMs on tensor cores by four warps together; slopes are stored in the element type",
            warpgroups::gradients,
        )
        .only_in(&[Dialect::Cuda])
        .available(warpgroups::backward_available),
    ])
    .fallback(&["wgmma", "tiled", "naive"])
    .stress(stress_inputs([
        |p, output| tolerance(p, output, None),
        |p, output| tolerance(p, output, Some(1.0)),
        |p, output| tolerance(p, output, Some(LARGE)),
    ]))
}

/// Largest number of rows of parts that the stage of slopes leaves: one per row, or one per tile.
fn most_parts(p: &Problem) -> u64 {
    p["n"].max(logits(p).count())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (n, d) = (p["n"], p["d"]);
    let mut buffers = given(p).to_vec();
    buffers.extend([
        BufferSpec::input("dloss", Elem::F32, &[1], |_, draw| 64.0 * (1.0 + draw.uniform())),
        BufferSpec::output("dx", Elem::Real, &[n, d]),
        BufferSpec::output("dy", Elem::Real, &[n, d]),
        BufferSpec::output("dtemperature", Elem::F32, &[1]),
        BufferSpec::output("dbias", Elem::F32, &[1]),
        BufferSpec::scratch("slopes", Elem::F32, &[n, n]),
        BufferSpec::scratch("parts", Elem::F32, &[most_parts(p), 2]),
        warpgroups::scratch(p),
    ]);
    buffers
}

/// Tolerance for elements of at most `largest`, if they are not the usual ones.
fn tolerance(p: &Problem, output: usize, largest: Option<f64>) -> Tolerance {
    let (n, d, f32u) = (p["n"] as f64, p["d"] as f64, 2f64.powi(-24));
    // Error of a slope, relative to its largest value.
    let of_slopes = error(p, largest).min(1.0) + f32u * (64.0 + 8.0 * n.sqrt());
    let element = largest.unwrap_or(3.47 / d.sqrt());
    // Rounding errors of n slopes, relative to their largest sum.
    let of_rounding = p.dtype.unit_roundoff() * (8.0 / n.sqrt()).min(1.0);
    match output {
        DX | DY => Tolerance {
            abs: 128.0 * 12.0 * element * (of_slopes + of_rounding) + smallest_normal(p),
            rel: 2.0 * p.dtype.unit_roundoff(),
            reason: "slopes are off as logits are, and may be rounded to the element type, which is 8·√n·u of the largest but with \
                     probability e^-32; n of them, each at most dloss/n with dloss below 128, are summed in f32 with elements and \
                     multiplied by a temperature of at most 12; the result is rounded once",
        },
        _ => Tolerance {
            abs: 128.0 * n * of_slopes * if output == DTEMPERATURE { lengths(p, largest) } else { 1.0 },
            rel: 2.0 * f32u,
            reason: "slopes are off as logits are; n² of them, each at most dloss/n with dloss below 128, are summed in f32, for \
                     the temperature with the products that they belong to",
        },
    }
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    match output {
        DX | DY => 2 * p["n"] * p["d"],
        _ => 2 * p["n"] * p["n"] * p["d"],
    }
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (pairs, scalars) = (Pairs::new(p, inputs), OnceLock::new());
    let (n, d) = (p["n"] as usize, p["d"] as usize);
    Box::new(move |output, row, out| {
        let factor = inputs.at(DLOSS, 0) / n as f64;
        let row = row as usize;
        match output {
            DX | DY => {
                out.fill(0.0);
                for other in 0..n {
                    let slope = if output == DX { pairs.slope(row, other) } else { pairs.slope(other, row) };
                    let element = pairs.temperature() * factor * slope;
                    // The gradient of one set is computed from the other.
                    let elements = &pairs.rows(1 - output)[other * d..][..d];
                    out.iter_mut().zip(elements).for_each(|(out, x)| *out += element * x);
                }
            }
            _ => out[0] = factor * scalars.get_or_init(|| pairs.of_scalars())[output - DTEMPERATURE],
        }
    })
}

/// Host implementation with a matrix of slopes: sums over all pairs are in f64, as in the forward direction.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, d) = (p["n"], p["d"]);
    let [x, y] = [X, Y].map(|set| inputs[set].f32());
    let [temperature, bias, dloss] = [TEMPERATURE, BIAS, DLOSS].map(|scalar| inputs[scalar].f32()[0]);
    let [dx, dy, dtemperature, dbias] = outputs else { unreachable!("four gradients") };
    let factor = dloss / n as f32;
    let mut slopes = dense::gemm_of(Gemm::new(n, n, d).layout(Layout::Nt), x, y);
    let of_row = |(i, row): (usize, &mut [f32])| {
        let mut sums = [0.0; 2];
        for (j, slope) in row.iter_mut().enumerate() {
            let dot = *slope;
            let sign = if i == j { -1.0 } else { 1.0 };
            let of_logit = sign * factor / (1.0 + (-sign * (temperature * dot + bias)).exp());
            sums[0] += f64::from(of_logit * dot);
            sums[1] += f64::from(of_logit);
            *slope = temperature * of_logit;
        }
        sums
    };
    let sums: Vec<[f64; 2]> = slopes.par_chunks_exact_mut(n as usize).enumerate().map(of_row).collect();
    for (of, out) in [dtemperature, dbias].into_iter().enumerate() {
        out[0] = sums.iter().map(|sums| sums[of]).sum::<f64>() as f32;
    }
    for (layout, set, out) in [(Layout::Nn, y, dx), (Layout::Tn, x, dy)] {
        out.fill(0.0);
        dense::add_gemm(Gemm::new(n, d, n).layout(layout), &slopes, set, out);
    }
}

/// Adds the arguments and cost of a stage that computes slopes.
fn making_slopes(stage: Stage, p: &Problem, parts: u64) -> Stage {
    let read = ["x", "y", "temperature", "bias"].map(|name| (name, Read));
    stage.args(read.into_iter().chain([("parts", Write), ("dloss", Read), ("slopes", Write)])).cost(Cost::new(
        products(p),
        2 * set(p) + 12,
        4 * p["n"] * p["n"] + 8 * parts,
    ))
}

/// Stage of the gradients of temperature and bias, from `parts` parts of both.
pub(super) fn scalars(caps: &Caps, parts: u64) -> Stage {
    sum_of_parts(parts, 2, caps, "loss_sigmoid/scalars", "loss_sigmoid_scalars").args([
        ("parts", Read),
        ("dtemperature", Write),
        ("dbias", Write),
    ])
}

/// Adds the arguments and cost of a stage that computes the gradient of one set from the other.
fn of_set(stage: Stage, p: &Problem, [other, to]: [&'static str; 2]) -> Stage {
    let args = [("slopes", "slopes", Read), ("temperature", "temperature", Read), ("other", other, Read)];
    let bytes = 4 * p["n"] * p["n"] + set(p) + 4;
    Stage { label: to.into(), ..stage }.args(args.into_iter().chain([("gradient", to, Write)])).cost(Cost::new(
        products(p),
        bytes,
        set(p),
    ))
}

/// Source and destination of each gradient, and whether slopes are read by columns.
pub(super) const SETS: [([&str; 2], bool); 2] = [(["y", "dx"], false), (["x", "dy"], true)];

fn naive(p: &Problem, caps: &Caps) -> Program {
    let slopes = making_slopes(
        plain(p, "loss_sigmoid/naive", "loss_sigmoid_naive_slopes", p["n"]).shared(4 * THREADS as u32),
        p,
        p["n"],
    );
    let gradient = |(names, by_columns)| {
        let stage =
            plain(p, "loss_sigmoid/naive_gradient", "loss_sigmoid_naive_gradient", (p["n"] * p["d"]).div_ceil(THREADS));
        of_set(stage.consts(&[("BY_COLUMNS", by_columns)]), p, names)
    };
    let [dx, dy] = SETS.map(gradient);
    Program { stages: vec![slopes, scalars(caps, p["n"]), dx, dy] }
}

fn tiled(p: &Problem, caps: &Caps) -> Program {
    let tiles = logits(p);
    let stage = tiles.stage(p, "loss_sigmoid_slopes", tiles.count()).shared(TILE_BYTES + 4 * THREADS as u32);
    let slopes = making_slopes(stage, p, tiles.count());
    let gradient = |(names, by_columns): ([&'static str; 2], bool)| {
        // Slopes are adjacent along a row, and elements along an embedding.
        let along = [!by_columns, false];
        let tiles = Tiles { text: "loss_sigmoid/gradients", rows: p["n"], columns: p["d"], depth: p["n"], along };
        let stage = tiles.stage(p, "loss_sigmoid_gradient", tiles.count());
        of_set(stage.consts(&[("BY_COLUMNS", by_columns)]), p, names)
    };
    let [dx, dy] = SETS.map(gradient);
    Program { stages: vec![slopes, scalars(caps, tiles.count()), dx, dy] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::bytes_of;

    /// Compares with central differences of the loss in each scalar, and in one element of each set.
    #[test]
    fn gradients_are_those_of_the_loss() {
        let case = parse_case("loss_sigmoid/bwd/n5,d3/f32/naive").expect("valid");
        let p = &case.problem;
        let inputs = p.inputs(2);
        let rows = reference(p, &inputs);
        let loss = |buffer: usize, at: u64, by: f64| {
            let mut moved = p.inputs(2);
            let len = p.buffers()[buffer].len;
            let values: Vec<f64> = (0..len).map(|i| inputs.at(buffer, i) + if i == at { by } else { 0.0 }).collect();
            let storage = p.buffers()[buffer].elem.storage(p.dtype);
            moved.replace(buffer, bytes_of(storage, values.into_iter())).expect("as many");
            let moved_by = moved.at(buffer, at) - inputs.at(buffer, at);
            (Pairs::new(p, &moved).loss(), moved_by)
        };
        for (buffer, at) in [(0, 7), (1, 4), (2, 0), (3, 0)] {
            let ((up, by), (down, back)) = (loss(buffer, at, 1e-3), loss(buffer, at, -1e-3));
            let row_len = if buffer < 2 { 3 } else { 1 };
            let mut out = vec![0.0; row_len as usize];
            rows(buffer, at / row_len, &mut out);
            let (want, got) = ((up - down) / (by - back), out[(at % row_len) as usize] / inputs.at(DLOSS, 0));
            assert!((got - want).abs() < 1e-4 * want.abs().max(1e-2), "{buffer}: {got} for {want}");
        }
    }
}
