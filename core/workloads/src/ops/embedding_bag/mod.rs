//! Reduction of table rows per bag: sum, mean or maximum. Bag `g` holds the items `offsets[g]` to `offsets[g + 1]`, and
//!
//! - with `sum`, `out[g, :] = Σ table[index[i], :]`, each term times the item's own factor if bags are `weighted`;
//! - with `mean`, that divided by the number of items;
//! - with `max`, `out[g, c]` is the largest of `table[index[i], c]`.
//!
//! An empty bag gives zeros. Items before the first offset and from the last on are in no bag. Backward, each row of the table gets
//! the gradients of its bags. With `max` it gets those of the elements that it won. The first item of the largest wins. Factors
//! have gradients, too. Definition: PyTorch's `EmbeddingBag` with `include_last_offset`.
//!
//! Operations: one per element of every used row, two if it is weighted. Bytes: indices, offsets and factors, every used row once,
//! and the result.

use parallax_ir::Access::Read;
use parallax_ir::stress::{any, scattered_nan, sums_of_zeros, wide, zero};
use parallax_ir::{
    Access, Axis, BufferSpec, Draw, Elem, Inputs, OfNan, OpSpec, Precondition, Problem, Reference, Rows, Shape,
    StressInput, Tolerance, Variant, Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};

use super::embedding::indices::{CHOICE, ENDS, LAST, chosen, different, moved, summed};
use crate::real::maximum;

mod backward;
mod host;
mod stages;

const INDEX: usize = 0;
const OFFSETS: usize = 1;
const TABLE: usize = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "rows of a table, put together in ragged bags",
        axes: const {
            &[
                Axis::extent("b", "bags").items(),
                Axis::extent("l", "items a bag, on average"),
                Axis::extent("v", "table rows"),
                Axis::extent("d", "row length"),
                Axis::word("mode", "reduction of a bag's rows", &["sum", "mean", "max"]),
                Axis::word("factors", "whether each item has a factor of its own", &["", "weighted"]),
                CHOICE,
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form()],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (b, n, v, d) = (shape["b"], shape["b"] * shape["l"], shape["v"], shape["d"]);
    if shape.has("weighted") && !shape.has("sum") {
        return Err("only sums are weighted".to_owned());
    }
    [b + 1, n * d, v * d, b * d].into_iter().try_for_each(indexable)
}

const AWKWARD: &[&str] = &[
    "b1,l1,v1,d1,sum",
    "b5,l1,v7,d5,mean",
    "b3,l13,v5,d12,max,zipf",
    "b7,l9,v9,d37,sum,weighted",
    "b13,l23,v67,d8,mean,zipf",
    "b101,l4,v33,d67,max",
    "b67,l15,v101,d4,sum,weighted,zipf",
    "b11,l12,v19,d132,sum",
];

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            let mut all = inputs(p);
            all.push(BufferSpec::output("out", Elem::Real, &[p["b"], p["d"]]));
            all.extend(weighted(p).then(|| factors(p)));
            all
        },
        |p| Cost::new(operations(p), known(p) + taken_bytes(p), p["b"] * row_bytes(p)),
        tolerance,
        Reference::new(|p, _| p["d"] * (1 + p["l"]), reference),
        OfNan::Kept,
    )
    .headline("b8192,l20,v100000,d64,sum")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host::forward)
    .variants(vec![
        Variant::kernel("naive", "one element per thread, which goes through its bag", stages::naive),
        Variant::kernel(
            "rows",
            "pieces of up to sixteen bytes, several rows of a bag under way in each thread",
            stages::rows,
        ),
    ])
    .fallback(&["rows", "naive"])
    .preconditions(preconditions())
    .stress(stress_inputs())
}

fn preconditions() -> Vec<Precondition> {
    vec![
        Precondition::Below { buffer: "index", bound: |p| p["v"] },
        Precondition::Below { buffer: "offsets", bound: |p| items(p) + 1 },
        Precondition::Ascending { buffer: "offsets", when: |_| true },
    ]
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "b8192,l20,v100000,d64,sum",
            "b16384,l20,v100000,d128,sum",
            "b16384,l20,v100000,d128,mean,zipf",
            "b16384,l20,v100000,d128,max",
            "b16384,l20,v100000,d128,sum,weighted",
        ],
        _ => &[
            "b8192,l20,v1000,d128,sum",
            "b8192,l20,v100000,d64,sum",
            "b16384,l8,v100000,d128,sum",
            "b16384,l20,v100000,d128,sum",
            "b16384,l20,v100000,d128,mean,zipf",
            "b16384,l20,v100000,d128,max",
            "b16384,l20,v100000,d128,sum,weighted",
            "b65536,l20,v1000000,d64,sum",
            "b65536,l20,v10000000,d64,sum,zipf",
        ],
    }
}

fn weighted(p: &Problem) -> bool {
    p.shape.has("weighted")
}

/// Inputs of both directions: indices, offsets and the table.
fn inputs(p: &Problem) -> Vec<BufferSpec> {
    vec![
        BufferSpec::input("index", Elem::U32, &[items(p)], chosen),
        BufferSpec::input("offsets", Elem::U32, &[p["b"] + 1], offset),
        BufferSpec::input("table", Elem::Real, &[p["v"], p["d"]], normal),
    ]
}

fn factors(p: &Problem) -> BufferSpec {
    BufferSpec::input("weight", Elem::F32, &[items(p)], normal)
}

/// First item of a bag. It is within half an average bag of its position in equal bags, so that the longest bags have twice the
/// average. Offsets rise by construction.
fn offset(shape: &Shape, draw: Draw) -> f64 {
    let (bags, items) = (shape["b"], shape["b"] * shape["l"]);
    match draw.index {
        0 => 0.0,
        last if last == bags => items as f64,
        // In halves of an average bag, with 32 fractional bits.
        between => {
            let halves = (u128::from(2 * between - 1) << 32) + u128::from(2 * (draw.bits() >> 32));
            ((halves * u128::from(items)) / (u128::from(bags) << 33)) as f64
        }
    }
}

/// Items in all bags.
fn items(p: &Problem) -> u64 {
    p["b"] * p["l"]
}

/// Most items of a seeded bag.
fn longest(p: &Problem) -> f64 {
    (2 * p["l"] + 1).min(items(p)) as f64
}

fn row_bytes(p: &Problem) -> u64 {
    p["d"] * Elem::Real.storage(p.dtype).bytes()
}

/// Bytes of the indices, offsets and factors.
fn known(p: &Problem) -> u64 {
    4 * (items(p) * (1 + u64::from(weighted(p))) + p["b"] + 1)
}

fn taken_bytes(p: &Problem) -> u64 {
    different(p, items(p)) * row_bytes(p)
}

fn operations(p: &Problem) -> u64 {
    items(p) * p["d"] * (1 + u64::from(weighted(p)))
}

/// Greatest magnitude of a seeded term.
fn most(p: &Problem) -> f64 {
    if weighted(p) { 3.47 * 3.47 } else { 3.47 }
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    of_bags(p, output, longest(p))
}

/// Tolerance for bags of up to `items` items.
fn of_bags(p: &Problem, output: usize, items: f64) -> Tolerance {
    if p.shape.has("max") { moved(p, output) } else { summed(p, items, most(p)) }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, applies, fills, tolerance| StressInput::new(name, about, fills, tolerance).applies(applies);
    vec![
        set("zeros", "a table of zeros", any, |_| vec![("table", zero)], |p, _| sums_of_zeros(p)),
        set("nan", "NaN in the table: so are bags that hold it", any, |_| vec![("table", scattered_nan)], tolerance),
        set(
            "one row",
            "every item takes the last row",
            any,
            |_| vec![("index", LAST)],
            |p, output| of_equal(p, output, longest(p)),
        ),
        set(
            "ends",
            "the first and the last row alternate, without others",
            any,
            |_| vec![("index", ENDS)],
            |p, output| of_equal(p, output, longest(p)),
        ),
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
            |p, output| of_equal(p, output, items(p) as f64),
        ),
        set(
            "outside",
            "every bag empty, and so every item in none",
            any,
            |_| vec![("offsets", |shape, _| ((shape["b"] * shape["l"]) / 2) as f64)],
            |p, _| sums_of_zeros(p),
        ),
        set(
            "huge",
            "elements of up to 1e30: sums stay within the element type",
            |p| wide(p) && items(p) <= 100_000,
            |_| vec![("table", |_, draw| 1e30 / 3.47 * draw.normal())],
            |p, output| {
                let usual = tolerance(p, output);
                Tolerance { abs: usual.abs * 1e30, ..usual }
            },
        ),
    ]
}

/// Tolerance for bags with few distinct rows, in which terms do not cancel.
fn of_equal(p: &Problem, output: usize, items: f64) -> Tolerance {
    let usual = of_bags(p, output, items);
    match p.shape.has("max") {
        true => usual,
        false => Tolerance {
            abs: usual.abs.max(2f64.powi(-24) * most(p) * items * (items + 1.0).min(8.0 * items.sqrt())),
            reason: "terms may all be alike: 8·√n·u times the sum of their magnitudes holds for any order of n of them but with \
                     probability e^-32 (Higham and Mary 2019); the result is rounded once",
            ..usual
        },
    }
}

/// Items of a bag.
fn bag(inputs: &Inputs, g: u64) -> std::ops::Range<u64> {
    inputs.at(OFFSETS, g) as u64..inputs.at(OFFSETS, g + 1) as u64
}

/// Index of the factors in the forward direction.
const WEIGHT: usize = 4;

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    Box::new(move |_, g, out| {
        let held = bag(inputs, g);
        for (out, c) in out.iter_mut().zip(0..) {
            let element = |i: u64| inputs.at(TABLE, inputs.at(INDEX, i) as u64 * p["d"] + c);
            let factor = |i: u64| if weighted(p) { inputs.at(WEIGHT, i) } else { 1.0 };
            *out = match held.is_empty() {
                true => 0.0,
                false if p.shape.has("max") => held.clone().map(element).fold(f64::NEG_INFINITY, maximum),
                false => held.clone().map(|i| factor(i) * element(i)).sum(),
            };
            if p.shape.has("mean") && !held.is_empty() {
                *out /= (held.end - held.start) as f64;
            }
        }
    })
}

/// Arguments of the forward stages.
fn arguments(p: &Problem) -> Vec<(&'static str, Access)> {
    let mut all = vec![("index", Read), ("offsets", Read), ("table", Read), ("out", Access::Write)];
    all.extend(weighted(p).then_some(("weight", Read)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn bags_are_ragged_and_hold_every_item_once() {
        let found = find("embedding_bag").expect("here");
        for shape in ["b1,l1,v1,d1,sum", "b5,l1,v7,d1,sum", "b101,l4,v3,d1,sum", "b1000,l20,v3,d1,sum"] {
            let p = Problem::new(found, Direction::Fwd, shape, DType::F32).expect("valid");
            let inputs = p.inputs(3);
            let lengths: Vec<u64> = (0..p["b"]).map(|g| bag(&inputs, g)).map(|items| items.end - items.start).collect();
            assert_eq!(lengths.iter().sum::<u64>(), items(&p), "{shape}");
            assert!(lengths.iter().all(|length| *length as f64 <= longest(&p)), "{shape}: {lengths:?}");
            assert!(p["b"] < 100 || lengths.iter().min() < lengths.iter().max(), "{shape}");
        }
    }
}
