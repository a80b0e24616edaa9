//! Backward direction: gradients of X and W for a gradient `dloss` of each row's loss.
//!
//! With `s[r, j] = (exp(logits[r, j] − lse[r]) − [j = targets[r]]) · dloss[r]`, and zero for an ignored row: `dX = S·W` and `dW =
//! Sᵀ·X`. The log-sum-exp comes from the forward pass, which runs before the timing. Logits are recomputed. Operations: those of
//! the three GEMMs, two a term.
//!
//! Fused variants have the slopes `S` of a chunk of classes at a time. There are at most 8 chunks, of multiples of 256 classes.
//! Memory: n slopes for each class of a chunk, and `dX` in f32. Products of earlier chunks are summed there.

use parallax_ir::parallel::*;
use parallax_ir::{
    BufferSpec, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Reference, Rows, Variant,
};
use parallax_schema::case::{Cost, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use super::inputs::{self, given};
use super::{AWKWARD, LOSS, TARGETS, W, X, accuracy, chunks, gemm, results, sizes, stages};
use crate::dense;
use crate::real::{Real, maximum};
use crate::vector;

const DLOSS: usize = 3;
/// Index of the log-sum-exp on the host, where the results of the forward pass follow the inputs.
const LSE: usize = 5;

/// Index of the gradient of X among the checked buffers.
pub(super) const DX: usize = 2;

/// Specification of the backward direction.
pub(super) fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        accuracy::of_usual_gradients,
        Reference::new(row_cost, reference),
        OfNan::Kept,
    )
    .headline("n256,d512,v4096")
    .shapes(shapes)
    .awkward(AWKWARD)
    .setup(stages::fused)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "slopes by a workgroup a row, stored in f32; then both gradients by a thread an element",
            chunks::naive,
        )
        .available(stages::naive_available),
        Variant::kernel("separate", "all slopes by tiles, stored; then two GEMMs by tiles", chunks::separate),
        Variant::kernel(
            "separate_mma",
            "the same GEMMs on tensor cores by warp-wide instructions",
            chunks::separate_mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(stages::mma_available),
        Variant::kernel(
            "separate_wgmma",
            "the same GEMMs on tensor cores by four warps together",
            chunks::separate_wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(chunks::wgmma_available),
        Variant::kernel(
            "fused",
            "the tiles of `separate` for one chunk of classes after the other: slopes of one chunk are in memory",
            chunks::fused,
        ),
        Variant::kernel("fused_mma", "the same chunks on tensor cores by warp-wide instructions", chunks::fused_mma)
            .only_in(&[Dialect::Cuda])
            .available(stages::mma_available),
    ])
    .fallback(&["separate_wgmma", "fused_mma", "fused", "separate", "naive"])
    .stress(inputs::stress(accuracy::BACKWARD))
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n256,d512,v4096", "n2048,d2048,v32000"],
        _ => &["n256,d512,v4096", "n2048,d2048,v32000", "n4096,d4096,v32000"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (n, d, v) = (p["n"], p["d"], p["v"]);
    let mut buffers = given(p).to_vec();
    // As with losses scaled to keep gradients within f16.
    buffers.push(BufferSpec::input("dloss", Elem::F32, &[n], |_, draw| 8.0 * (1.0 + draw.uniform())));
    buffers.extend(results(p, BufferSpec::setup));
    buffers.extend([BufferSpec::output("dx", Elem::Real, &[n, d]), BufferSpec::output("dw", Elem::Real, &[v, d])]);
    buffers.extend(stages::parts(p));
    buffers.extend(chunks::scratch(p));
    buffers
}

fn cost(p: &Problem) -> Cost {
    let [x, w, of_rows] = sizes(p);
    Cost::new(3 * gemm(p).flops(), x + w + 3 * of_rows, x + w)
}

fn row_cost(p: &Problem, output: usize) -> u64 {
    match output {
        DX => 2 * p["v"] * p["d"],
        // With its share of the log-sum-exps.
        output if output > DX => 2 * p["n"] * p["d"] + p["n"] * p["d"],
        _ => p["v"] * p["d"],
    }
}

/// Rows of X, and of each the log-sum-exp, the loss, the target and the gradient of the loss.
struct Known {
    x: Vec<f64>,
    rows: Vec<KnownRow>,
}

struct KnownRow {
    lse: f64,
    loss: f64,
    target: u64,
    dloss: f64,
}

impl KnownRow {
    fn slope(&self, v: u64, class: u64, logit: f64) -> f64 {
        match self.target < v {
            true => ((logit - self.lse).exp() - f64::from(u8::from(class == self.target))) * self.dloss,
            false => 0.0,
        }
    }
}

/// Classes whose logits the reference has at a time.
const AT_ONCE: u64 = 1024;

/// Elements of rows of W. They are computed on all processors: no thread may wait here.
fn rows_of_w(inputs: &Inputs, d: u64, classes: std::ops::Range<u64>) -> Vec<f64> {
    (classes.start * d..classes.end * d).into_par_iter().map(|at| inputs.at(W, at)).collect()
}

impl Known {
    /// Computes the log-sum-exps of all rows, which every gradient of W needs.
    fn new(p: &Problem, inputs: &Inputs) -> Known {
        let (n, d, v) = (p["n"], p["d"], p["v"]);
        let x = inputs.values(X, ..);
        let target = |row: u64| inputs.at(TARGETS, row) as u64;
        let mut parts = vec![(f64::NEG_INFINITY, 0.0, 0.0); n as usize];
        for first in (0..v).step_by(AT_ONCE as usize) {
            let count = AT_ONCE.min(v - first);
            let logits = dense::gemm_of(
                Gemm::new(n, count, d).layout(Layout::Nt),
                &x,
                &rows_of_w(inputs, d, first..first + count),
            );
            for (row, (part, logits)) in (0..n).zip(parts.iter_mut().zip(logits.chunks(count as usize))) {
                let top = logits.iter().copied().fold(part.0, maximum);
                let sum = logits.iter().map(|logit| (logit - top).exp()).sum::<f64>();
                let of_target = target(row).checked_sub(first).and_then(|at| logits.get(at as usize));
                *part = (top, part.1 * (part.0 - top).exp() + sum, of_target.copied().unwrap_or(part.2));
            }
        }
        let row = |(row, (top, sum, of_target)): (u64, (f64, f64, f64))| {
            let (lse, target) = (top + sum.ln(), target(row));
            let loss = if target < v { lse - of_target } else { 0.0 };
            KnownRow { lse, loss, target, dloss: inputs.at(DLOSS, row) }
        };
        Known { rows: (0..n).zip(parts).map(row).collect(), x }
    }
}

fn add_scaled(out: &mut [f64], factor: f64, row: &[f64]) {
    out.iter_mut().zip(row).for_each(|(out, x)| *out += factor * x);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (d, v) = (p["d"], p["v"]);
    let known = Known::new(p, inputs);
    let of_class = move |class: u64| inputs.values(W, class * d..(class + 1) * d);
    Box::new(move |output, row, out| {
        let rows = || known.x.chunks(d as usize).zip(&known.rows);
        match output {
            LOSS => out[0] = known.rows[row as usize].loss,
            output if output < DX => out[0] = known.rows[row as usize].lse,
            DX => {
                out.fill(0.0);
                let (x, of_row) = rows().nth(row as usize).expect("a row");
                for class in 0..v {
                    let w = of_class(class);
                    add_scaled(out, of_row.slope(v, class, dot(x, &w)), &w);
                }
            }
            _ => {
                out.fill(0.0);
                let w = of_class(row);
                rows().for_each(|(x, of_row)| add_scaled(out, of_row.slope(v, row, dot(x, &w)), x));
            }
        }
    })
}

/// Host implementation, by chunks of classes as in [`chunks`].
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, d, v) = (p["n"], p["d"] as usize, p["v"] as usize);
    let [x, w, dloss, lse] = [X, W, DLOSS, LSE].map(|input| inputs[input].f32());
    let targets = inputs[TARGETS].u32();
    let [dx, dw] = outputs else { unreachable!("two gradients") };
    dx.fill(0.0);
    dw.fill(0.0);
    for chunk in chunks::all(p) {
        let (first, width) = (chunk.first as usize, chunk.width as usize);
        let rows = first * d..(first + width) * d;
        let mut slopes = dense::gemm_nt(x, &w[rows.clone()], [n as usize, width, d]);
        let of_rows = targets.par_iter().zip(lse).zip(dloss);
        slopes.par_chunks_mut(width).zip(of_rows).for_each(|(slopes, ((target, lse), dloss))| {
            let target = *target as usize;
            if target >= v {
                return slopes.fill(0.0);
            }
            vector::replace(slopes, |logit| (logit - lse).exponential());
            if let Some(slope) = target.checked_sub(first).and_then(|at| slopes.get_mut(at)) {
                *slope -= 1.0;
            }
            vector::replace(slopes, |slope| slope * dloss);
        });
        dense::add_gemm(Gemm::new(n, p["d"], chunk.width), &slopes, &w[rows.clone()], dx);
        dense::add_gemm(Gemm::new(chunk.width, p["d"], n).layout(Layout::Tn), &slopes, x, &mut dw[rows]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::bytes_of;

    fn problem(direction: &str) -> Problem {
        parse_case(&format!("linear_cross_entropy/{direction}/n17,d3,v5/f32/naive")).expect("valid").problem
    }

    /// Compares with central differences of the weighted sum of all losses.
    #[test]
    fn gradients_are_those_of_the_losses() {
        let (p, forward) = (problem("bwd"), problem("fwd"));
        let inputs = p.inputs(4);
        let total = |buffer: usize, at: u64, by: f64| {
            let mut moved = forward.inputs(4);
            for of in [X, W, TARGETS] {
                let spec = &p.buffers()[of];
                let value = |i| inputs.at(of, i) + if of == buffer && i == at { by } else { 0.0 };
                let values: Vec<f64> = (0..spec.len).map(value).collect();
                let bytes = bytes_of(spec.elem.storage(p.dtype), values.into_iter());
                moved.replace(of, bytes).expect("as many");
            }
            let loss = |row| inputs.at(DLOSS, row) * super::super::reference(&forward, &moved, LOSS, row);
            ((0..p["n"]).map(loss).sum::<f64>(), moved.at(buffer, at))
        };
        let rows = reference(&p, &inputs);
        for (buffer, len) in [(X, 51), (W, 15)] {
            for at in 0..len {
                let ((up, right), (down, left)) = (total(buffer, at, 1e-3), total(buffer, at, -1e-3));
                let (want, mut out) = ((up - down) / (right - left), [0.0; 3]);
                rows(DX + buffer, at / 3, &mut out);
                let got = out[(at % 3) as usize];
                assert!((got - want).abs() < 1e-4 * want.abs().max(1.0), "{buffer} {at}: {got} for {want}");
            }
        }
        let mut ignored = [1.0; 3];
        rows(DX, 13, &mut ignored);
        assert_eq!(ignored, [0.0; 3], "the target of row 13 is ignored");
    }

    #[test]
    fn losses_are_those_of_the_forward_direction() {
        let (p, forward) = (problem("bwd"), problem("fwd"));
        let (inputs, of_forward) = (p.inputs(4), forward.inputs(4));
        let rows = reference(&p, &inputs);
        assert_eq!(inputs.values(TARGETS, ..), of_forward.values(TARGETS, ..));
        for (output, row) in (0..2).flat_map(|output| (0..17).map(move |row| (output, row))) {
            let mut out = [0.0];
            rows(output, row, &mut out);
            let want = super::super::reference(&forward, &of_forward, output, row);
            assert!((out[0] - want).abs() < 1e-12, "{output} {row}: {} for {want}", out[0]);
        }
    }
}
