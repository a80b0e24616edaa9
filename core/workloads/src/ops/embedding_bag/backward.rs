//! Gradients of the table, and of the factors if there are any.

use std::sync::OnceLock;

use parallax_ir::stress::{any, scattered_nan, sums_of_zeros, wide, zero};
use parallax_ir::{
    BufferSpec, Elem, Fill, Inputs, OfNan, OpSpec, Problem, Reference, Role, Rows, StressInput, Tolerance, Variant,
    normal,
};
use parallax_schema::case::{Cost, Direction};

use super::super::embedding::indices::{ENDS, LAST, most_alike, popular, summed};
use super::super::embedding::stages::{SORTED, by_row};
use super::super::hash_embedding::by_group;
use super::{
    INDEX, OFFSETS, TABLE, bag, factors, forward, host, inputs, items, known, longest, most, operations, row_bytes,
    stages, taken_bytes, weighted,
};

const DOUT: usize = 3;
const WEIGHT: usize = 4;

/// Index of the table's gradient. The factors' gradient or the winners follow.
const DTABLE: usize = 0;

pub(super) fn form() -> OpSpec {
    OpSpec {
        direction: Direction::Bwd,
        buffers,
        cost,
        tolerance: |p, output| gradient(p, output, summed(p, most_alike(p, items(p)), 4.0 * most(p))),
        reference: Reference::new(
            |p, output| match output {
                DTABLE => {
                    items(p).div_ceil(p["v"])
                        * (2 + p["d"])
                        * if p.shape.has("max") { 1 + longest(p) as u64 } else { 1 }
                }
                _ => p["d"] * (1 + p["l"]),
            },
            reference,
        ),
        setup: Some(stages::winner),
        host: Some(host::backward),
        variants: vec![
            Variant::kernel(
                "atomic",
                "zeros, then an atomic addition for each element of each item (with `max`, of each bag); bags' gradients are read once. \
                 WGSL has no floating-point atomics, so there the addition is a compare-and-exchange loop on the bits",
                stages::atomic,
            ),
            Variant::kernel(
                "sorted",
                "items sorted by their rows, then summed in registers, stretch by stretch: nothing is atomic, and the result is the \
                 same in every run; bags' gradients are read by each of their items",
                stages::sorted,
            )
            .deterministic(),
        ],
        fallback: &["sorted", "atomic"],
        stress: stress_inputs(),
        nan: OfNan::Kept,
        ..forward()
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, n, v, d) = (p["b"], items(p), p["v"], p["d"]);
    let mut all = inputs(p);
    all.push(BufferSpec::input("dout", Elem::Real, &[b, d], normal));
    all.extend(weighted(p).then(|| factors(p)));
    all.push(BufferSpec::output("dtable", Elem::Real, &[v, d]));
    if weighted(p) {
        all.push(BufferSpec { role: Role::Output { row_len: 1 }, ..BufferSpec::output("dweight", Elem::F32, &[n]) });
    }
    if p.shape.has("max") {
        all.push(BufferSpec::setup("winner", Elem::U32, &[b, d]));
    }
    all.extend([
        BufferSpec::scratch("sums", Elem::F32, &[v, d]),
        BufferSpec::scratch("bag", Elem::U32, &[n]),
        BufferSpec::scratch("share", Elem::F32, &[n]),
        stages::segments(p).scratch("parts"),
    ]);
    all.extend(by_row(n, v).scratch(SORTED));
    all
}

fn cost(p: &Problem) -> Cost {
    let gradients = p["b"] * row_bytes(p);
    let made = p["v"] * row_bytes(p);
    let elements = p["b"] * p["d"];
    match (weighted(p), p.shape.has("max")) {
        (true, _) => Cost::new(2 * operations(p), known(p) + gradients + taken_bytes(p), made + 4 * items(p)),
        // The winner determines the item of each element.
        (_, true) => Cost::new(elements, 4 * elements + gradients, made),
        _ => Cost::new(operations(p), known(p) + gradients, made),
    }
}

/// Tolerance of an output, from the table's.
fn gradient(p: &Problem, output: usize, table: Tolerance) -> Tolerance {
    match (output, weighted(p)) {
        (DTABLE, _) => table,
        (_, true) => summed(p, p["d"] as f64, 3.47 * 3.47),
        _ => Tolerance { abs: 0.5, rel: 0.0, reason: "the number of an item" },
    }
}

/// Tolerance for many items that may give the same gradient to the same row.
fn crowded(p: &Problem, output: usize) -> Tolerance {
    let n = items(p) as f64;
    let usual = summed(p, n, most(p));
    let table = Tolerance {
        abs: usual.abs.max(2f64.powi(-24) * most(p) * n * (n + 2.0).min(8.0 * n.sqrt())),
        reason: "terms may all be alike: 8·√n·u times the sum of their magnitudes holds for any order of n of them but with \
                 probability e^-32 (Higham and Mary 2019); the result is rounded once",
        ..usual
    };
    gradient(p, output, table)
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, applies, fills, tolerance| StressInput::new(name, about, fills, tolerance).applies(applies);
    vec![
        set(
            "zeros",
            "gradients of zero",
            any,
            |_| vec![("dout", zero)],
            |p, output| gradient(p, output, sums_of_zeros(p)),
        ),
        set(
            "one row",
            "every item took the last row: all additions meet in it",
            any,
            |_| vec![("index", LAST)],
            crowded,
        ),
        set("ends", "the first and the last row alternate, without others", any, |_| vec![("index", ENDS)], crowded),
        set("zipf", "rows by Zipf's law: a few were taken by most items", any, |_| vec![("index", popular)], crowded),
        set(
            "one bag",
            "all items in the last bag, and none in the others",
            any,
            |_| {
                vec![(
                    "offsets",
                    |shape, draw| if draw.index == shape["b"] { (shape["b"] * shape["l"]) as f64 } else { 0.0 },
                )]
            },
            crowded,
        ),
        set(
            "outside",
            "every bag empty, and so every item in none",
            any,
            |_| vec![("offsets", |shape, _| ((shape["b"] * shape["l"]) / 2) as f64)],
            |p, output| gradient(p, output, sums_of_zeros(p)),
        ),
        set(
            "equal",
            "a table of ones: with `max` the first item of a bag wins all of it",
            any,
            |_| vec![("table", (|_, _| 1.0) as Fill)],
            crowded,
        ),
        set("nan", "NaN in the table: with `max` it wins", any, |_| vec![("table", scattered_nan)], crowded),
        set(
            "huge",
            "gradients of up to 1e30: sums stay within the element type",
            |p| wide(p) && items(p) <= 100_000,
            |_| vec![("dout", |_, draw| 1e30 / 3.47 * draw.normal())],
            |p, output| match (output, weighted(p)) {
                (DTABLE, _) | (_, true) => {
                    let usual = crowded(p, output);
                    Tolerance { abs: usual.abs * 1e30, ..usual }
                }
                _ => crowded(p, output),
            },
        ),
    ]
}

/// Winning item of an element of a bag: the first of the largest, or the last NaN.
fn winner(p: &Problem, inputs: &Inputs, g: u64, c: u64) -> Option<u64> {
    let mut best: Option<(u64, f64)> = None;
    for i in bag(inputs, g) {
        let x = inputs.at(TABLE, inputs.at(INDEX, i) as u64 * p["d"] + c);
        if x.is_nan() || best.is_none_or(|(_, largest)| x > largest) {
            best = Some((i, x));
        }
    }
    best.map(|(i, _)| i)
}

/// Bag of each item, if it is in one.
fn bags(p: &Problem, inputs: &Inputs) -> Vec<Option<u64>> {
    let mut of = vec![None; items(p) as usize];
    for g in 0..p["b"] {
        bag(inputs, g).for_each(|i| of[i as usize] = Some(g));
    }
    of
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let (known, d) = (OnceLock::new(), p["d"]);
    Box::new(move |output, row, out| {
        let of_rows = || by_group(p["v"], items(p), |i| inputs.at(INDEX, i) as u64);
        let ((taken, first), bags) = known.get_or_init(|| (of_rows(), bags(p, inputs)));
        let length = |g: u64| inputs.at(OFFSETS, g + 1) - inputs.at(OFFSETS, g);
        out.fill(0.0);
        if output == DTABLE {
            for item in &taken[first[row as usize]..first[row as usize + 1]] {
                let Some(g) = bags[*item as usize] else { continue };
                let share = match () {
                    () if weighted(p) => inputs.at(WEIGHT, u64::from(*item)),
                    () if p.shape.has("mean") => 1.0 / length(g),
                    () => 1.0,
                };
                for (out, c) in out.iter_mut().zip(0..) {
                    if !p.shape.has("max") || winner(p, inputs, g, c) == Some(u64::from(*item)) {
                        *out += share * inputs.at(DOUT, g * d + c);
                    }
                }
            }
        } else if weighted(p) {
            let taken = inputs.at(INDEX, row) as u64;
            if let Some(g) = bags[row as usize] {
                out[0] = (0..d).map(|c| inputs.at(TABLE, taken * d + c) * inputs.at(DOUT, g * d + c)).sum();
            }
        } else {
            for (out, c) in out.iter_mut().zip(0..) {
                *out = winner(p, inputs, row, c).map_or(f64::from(u32::MAX), |i| i as f64);
            }
        }
    })
}
