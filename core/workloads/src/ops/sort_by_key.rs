//! Sort: keys in rising order, each with its value; equal keys keep their order.
//!
//! Keys and values are integers of 32 bits, keys below `2^bits`. The variants are radix sorts by counting (Knuth, The Art of
//! Computer Programming, volume 3, 5.2.5): one pass for each digit, from the lowest. Only integers are moved, so the result is
//! exact, and there is one element type. `onesweep` is that of Adinets and Merrill, "Onesweep: A Faster Least Significant Digit
//! Radix Sort for GPUs" (2022).
//!
//! Bytes: each key and value read and written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::zero;
use parallax_ir::{
    Axis, BufferSpec, CudaLaunch, Draw, Elem, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Precondition, Problem,
    Program, Reference, Role, Rows, Shape, Stage, StressInput, Tolerance, Tunable, Variant, Workload, indexable,
    parts_of, spread,
};
use parallax_schema::case::{Allowed, Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::copy::row_len;
use crate::{Sort, Sorted};

const KEYS: usize = 0;
const VALUES: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "keys sorted with their values",
        axes: const { &[Axis::extent("n", "keys"), Axis::optional("bits", "bits of a key", 1, 32)] },
        dtypes: &[DType::F32],
        validate: |shape| match shape["bits"] {
            ..=32 => indexable(shape["n"]),
            _ => Err("a key has at most 32 bits".to_owned()),
        },
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| Cost::new(0, 8 * p["n"], 8 * p["n"]),
            tolerance,
            Reference::new(|p, _| 32 * row_len(p), reference),
            OfNan::WHOLE_NUMBERS,
        )
        .headline("n1048576")
        .shapes(shapes)
        .awkward(&[
            "n1",
            "n2,bits1",
            "n255,bits8",
            "n1009",
            "n2049,bits12",
            "n5003,bits5",
            "n12289",
            "n40961,bits20",
        ])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "order",
                "keys are sorted with their positions by few workgroups, in digits of 8 to 10 bits, and values are fetched \
                 from there at the end",
                order,
            ),
            Variant::kernel(
                "radix4",
                "digits of 4 bits: values move with their keys, by as many workgroups as the device holds; keys are ranked \
                     by masks of the keys with the same digit",
                |p, caps| radix(p, caps, 4),
            ),
            Variant::kernel(
                "radix8",
                "the same by digits of 8 bits: half the passes, and shorter runs",
                |p, caps| radix(p, caps, 8),
            ),
            Variant::kernel(
                "onesweep",
                "digits of 8 bits, each moved in one pass: a workgroup looks back over the tiles before its own for where its \
                 keys go, and puts them in order in its memory, so that those of a digit are written as neighbours. It waits \
                 for workgroups that have begun, which CUDA carries on; WebGPU does not promise that a workgroup that others \
                 wait for goes on, so that there it might wait for ever",
                onesweep,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, _| match p["n"] < MOST_TOLD {
                true => Ok(()),
                false => Err(format!("a tile publishes counts below {MOST_TOLD}")),
            })
            .tunables(&[KEYS_EACH]),
        ])
        .fallback(&["onesweep", "radix8", "radix4", "order"])
        .preconditions(vec![Precondition::Below { buffer: "keys", bound: |p| 1 << p["bits"] }])
        .stress(stress_inputs())],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n1048576", "n16777216", "n16777216,bits16"],
        _ => &["n1048576", "n16777216", "n16777216,bits16", "n67108864"],
    }
}

/// Buffers of the crate's own sort: keys, their order, and the intermediates of passes.
const NAMES: Sorted = Sorted {
    keys: "keys",
    sorted: "sorted",
    order: "order",
    between: ["keys_between", "values_between"],
    counts: "counts",
};

fn by_position(p: &Problem) -> Sort {
    Sort { items: p["n"], below: 1 << p["bits"] }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    let output = |name| {
        let spec = BufferSpec::output(name, Elem::U32, &[n]);
        BufferSpec { role: Role::Output { row_len: row_len(p) }, ..spec }
    };
    let [_, order, keys_between, values_between, counts] = by_position(p).scratch(NAMES);
    let most = counts.len.max(MOST_PARTS.min(n.div_ceil(STRETCH)) << 8);
    vec![
        BufferSpec::input("keys", Elem::U32, &[n], |shape, draw| (draw.bits() >> (64 - shape["bits"])) as f64),
        BufferSpec::input("values", Elem::U32, &[n], |_, draw| (draw.bits() >> 32) as f64),
        output("sorted"),
        output("carried"),
        order,
        keys_between,
        values_between,
        BufferSpec::scratch("counts", Elem::U32, &[most]),
        BufferSpec::scratch("totals", Elem::U32, &[1 << 8]),
        BufferSpec::scratch("told", Elem::U32, &[state_words(p, FEWEST_EACH)]),
    ]
}

fn tolerance(_p: &Problem, _output: usize) -> Tolerance {
    Tolerance { abs: 0.5, rel: 0.0, reason: "integers are moved: the bound is less than their smallest difference" }
}

fn stress_inputs() -> Vec<StressInput> {
    fn largest(shape: &Shape, _: Draw) -> f64 {
        ((1u64 << shape["bits"]) - 1) as f64
    }
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "keys all zero: nothing moves", |_| vec![("keys", zero)]),
        set("equal", "keys all the largest: nothing moves", |_| vec![("keys", largest)]),
        set("two", "the smallest and the largest key alternate", |_| {
            vec![("keys", |shape, draw| if draw.index.is_multiple_of(2) { largest(shape, draw) } else { 0.0 })]
        }),
        set("falling", "keys that fall as far as their bits allow: all that can moves", |_| {
            vec![("keys", |shape, draw| {
                let top = (1u64 << shape["bits"]) - 1;
                (top - draw.index.min(top)) as f64
            })]
        }),
        set("values", "values all alike or the largest: they are moved, whatever they are", |_| {
            vec![("values", |_, draw| if draw.index.is_multiple_of(3) { f64::from(u32::MAX) } else { 0.0 })]
        }),
    ]
}

/// Reference of the rows, which are stretches of the whole order.
fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let key = |i: u64| (inputs.at(KEYS, i) as u64, i);
    let mut pairs: Vec<(u64, u64)> = (0..p["n"]).into_par_iter().map(key).collect();
    // Positions are distinct, so the order of pairs is that of a stable sort.
    pairs.par_sort_unstable();
    Box::new(move |output, row, out| {
        let first = row * row_len(p);
        for (slot, (key, at)) in out.iter_mut().zip(&pairs[first as usize..]) {
            *slot = if output == 0 { *key as f64 } else { inputs.at(VALUES, *at) };
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (keys, values) = (inputs[KEYS].u32(), inputs[VALUES].u32());
    // Positions are distinct, so the order of pairs is that of a stable sort.
    let pair = |at: u64| u64::from(keys[at as usize]) << 32 | at;
    let mut pairs: Vec<u64> = (0..p["n"]).into_par_iter().map(pair).collect();
    pairs.par_sort_unstable();
    let (sorted, carried) = outputs.split_at_mut(1);
    let results = sorted[0].par_chunks_mut(PIECE).zip(carried[0].par_chunks_mut(PIECE));
    results.zip(pairs.par_chunks(PIECE)).for_each(|((sorted, carried), pairs)| {
        for ((key, value), pair) in sorted.iter_mut().zip(carried).zip(pairs) {
            *key = f32::from_bits((pair >> 32) as u32);
            *value = f32::from_bits(values[*pair as u32 as usize]);
        }
    });
}

/// Elements that a thread of the host moves together.
const PIECE: usize = 1 << 14;

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Fewest keys of a workgroup: sixteen for each thread.
const STRETCH: u64 = 16 * THREADS;

fn order(p: &Problem, _caps: &Caps) -> Program {
    let mut stages = by_position(p).stages(NAMES);
    let fetch = Stage::kernel("fetch", "sort_by_key/fetch", "sort_by_key_fetch")
        .consts(&[("ITEMS", p["n"] as u32), ("THREADS", THREADS as u32)])
        .args([("order", Read), ("values", Read), ("carried", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["n"].div_ceil(THREADS)))
        .cost(Cost::new(0, 8 * p["n"], 4 * p["n"]));
    stages.push(fetch);
    Program { stages }
}

/// Program with three stages for each digit of `bits` bits: counts per stretch, start of each digit per stretch, and the move of
/// the keys.
fn radix(p: &Problem, caps: &Caps, bits: u64) -> Program {
    let (n, bins, passes) = (p["n"], 1u64 << bits, p["bits"].div_ceil(bits));
    // Whole passes of sixteen keys a thread, and none without a key.
    let turns = n.div_ceil(STRETCH);
    let length = turns.div_ceil(parts_of(turns, caps)) * STRETCH;
    let stretches = n.div_ceil(length);
    let consts = [
        ("ITEMS", n),
        ("BINS", bins),
        ("TILES", length / THREADS),
        ("THREADS", THREADS),
        ("STRETCHES", stretches),
        ("MOST_PARTS", MOST_PARTS),
    ]
    .map(|(name, value)| (name, value as u32));
    let launch = |label: String, text, entry, pass: u64, groups: u64| {
        Stage::kernel(label, text, entry)
            .consts(&consts)
            .consts(&[("SHIFT", (pass * bits) as u32)])
            .threads([THREADS as u32, 1, 1])
            .grid([groups as u32, 1, 1])
    };
    let (array, table) = (4 * n, 4 * stretches * bins);
    let pass = |pass: u64| {
        // Passes alternate between buffers; the last one ends in the result.
        let to = |pass: u64| match (passes - pass) % 2 {
            1 => ["sorted", "carried"],
            _ => NAMES.between,
        };
        let from = if pass == 0 { ["keys", "values"] } else { to(pass - 1) };
        let count = launch(format!("count_{}", pass + 1), "lib/sort_count", "sort_count", pass, stretches)
            .args([("keys", from[0], Read), ("counts", "counts", Write)])
            .shared(4 * bins as u32)
            .cost(Cost::new(0, array, table));
        let begin = launch(format!("begin_{}", pass + 1), "sort_by_key/begin", "sort_by_key_begin", pass, bins)
            .args([("counts", Write), ("totals", Write)])
            .shared(4 * THREADS as u32)
            .cost(Cost::new(0, table, table));
        let place = launch(format!("place_{}", pass + 1), "sort_by_key/place", "sort_by_key_place", pass, stretches)
            .args([
                ("counts", "counts", Read),
                ("totals", "totals", Read),
                ("keys", from[0], Read),
                ("values", from[1], Read),
                ("sorted", to(pass)[0], Write),
                ("carried", to(pass)[1], Write),
            ])
            .shared((4 * (THREADS + bins + bins * THREADS / 32)) as u32)
            .cost(Cost::new(0, 2 * array + table, 2 * array));
        [count, begin, place]
    };
    Program { stages: (0..passes).flat_map(pass).collect() }
}

/// Tunable of `onesweep`.
const KEYS_EACH: Tunable = Tunable {
    name: "KEYS_EACH",
    about: "keys of a thread in a tile",
    allowed: Allowed::OneOf(&[8, 12, 16]),
    default: 12,
};
const FEWEST_EACH: u64 = 8;

/// Threads of a tile, and the bits of a digit.
const SWEEP_THREADS: u64 = 512;
const SWEEP_BITS: u64 = 8;
/// Limit of a count: two bits of its word are its state.
const MOST_TOLD: u64 = 1 << 30;
/// Words before the counts: for each pass, the number of started tiles.
const TICKETS: u64 = 4;

fn sweep_passes(p: &Problem) -> u64 {
    p["bits"].div_ceil(SWEEP_BITS)
}

/// Words of shared state for `each` keys per thread: tickets, counts of all digits, and for each pass those of each tile.
fn state_words(p: &Problem, each: u64) -> u64 {
    let tiles = p["n"].div_ceil(each * SWEEP_THREADS);
    TICKETS + (sweep_passes(p) << SWEEP_BITS) * (1 + tiles)
}

/// Program that counts all digits in one stage, and moves the keys in one stage per digit.
fn onesweep(p: &Problem, caps: &Caps) -> Program {
    let each = u64::from(p.tuned(caps, "onesweep", &KEYS_EACH));
    let (n, bins, passes) = (p["n"], 1u64 << SWEEP_BITS, sweep_passes(p));
    let (tile, array) = (each * SWEEP_THREADS, 4 * n);
    let tiles = n.div_ceil(tile);
    let table = 4 * tiles * bins;
    let launch = |label: String, text, entry, threads: u64, groups: u64| {
        let consts = [("ITEMS", n), ("BINS", bins), ("PASSES", passes), ("TICKETS", TICKETS), ("THREADS", threads)];
        Stage::kernel(label, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([threads as u32, 1, 1])
            .grid([groups as u32, 1, 1])
    };
    let parts = parts_of(n.div_ceil(8 * THREADS), caps);
    let digits = launch("digits".to_owned(), "sort_by_key/digits", "sort_by_key_digits", THREADS, parts)
        .consts(&[("PARTS", parts as u32)])
        .args([("keys", Read), ("told", Write)])
        .cost(Cost::new(0, array, 4 * passes * bins));
    let sweep = |pass: u64| {
        let to = |pass: u64| match (passes - pass) % 2 {
            1 => ["sorted", "carried"],
            _ => NAMES.between,
        };
        let [keys, values] = if pass == 0 { ["keys", "values"] } else { to(pass - 1) };
        let [sorted, carried] = to(pass);
        let consts = [("PASS", pass), ("SHIFT", pass * SWEEP_BITS), ("OWN", each), ("TILES", tiles)];
        launch(format!("sweep_{}", pass + 1), "sort_by_key/sweep", "sort_by_key_sweep", SWEEP_THREADS, tiles)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .args([
                ("told", "told", Write),
                ("keys", keys, Read),
                ("values", values, Read),
                ("sorted", sorted, Write),
                ("carried", carried, Write),
            ])
            .cuda(CudaLaunch { dynamic_shared_bytes: (8 * tile) as u32, ..CudaLaunch::default() })
            .cost(Cost::new(0, 2 * array + table, 2 * array + table))
    };
    let fill = Stage::fill("nothing told", "told", 0);
    Program { stages: [fill, digits].into_iter().chain((0..passes).map(sweep)).collect() }
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn a_sweep_begins_at_the_inputs_and_ends_in_the_outputs() {
        for (bits, passes) in [(32, 4), (20, 3), (9, 2), (1, 1)] {
            let case = parse_case(&format!("sort_by_key/fwd/n40961,bits{bits}/f32/onesweep")).expect("valid");
            let stages = case.program(&hopper()).expect("kernels").stages;
            assert_eq!(stages.len(), 2 + passes, "{case}");
            let buffers = |stage: usize| stages[stage].args.iter().map(|arg| arg.buffer).collect::<Vec<_>>();
            assert_eq!(buffers(2)[1..3], ["keys", "values"], "{case}");
            assert_eq!(buffers(1 + passes)[3..], ["sorted", "carried"], "{case}");
            for pass in 1..passes {
                assert_eq!(buffers(1 + pass)[3..], buffers(2 + pass)[1..3], "{case}");
            }
        }
    }

    #[test]
    fn passes_begin_at_the_inputs_follow_each_other_and_end_in_the_outputs() {
        for (bits, variant, passes) in [(32, "radix4", 8), (32, "radix8", 4), (20, "radix8", 3), (1, "radix4", 1)] {
            for caps in [caps(), hopper()] {
                let case = parse_case(&format!("sort_by_key/fwd/n40961,bits{bits}/f32/{variant}")).expect("valid");
                let stages = case.program(&caps).expect("kernels").stages;
                assert_eq!(stages.len(), 3 * passes, "{case}");
                let buffers = |stage: usize| stages[stage].args.iter().map(|arg| arg.buffer).collect::<Vec<_>>();
                assert_eq!(buffers(2)[2..4], ["keys", "values"], "{case}");
                assert_eq!(buffers(3 * passes - 1)[4..], ["sorted", "carried"], "{case}");
                for pass in 1..passes {
                    let (moved, then) = (buffers(3 * pass - 1), buffers(3 * pass + 2));
                    assert_eq!((moved[4], moved[5], moved[4]), (then[2], then[3], buffers(3 * pass)[0]), "{case}");
                }
            }
        }
    }
}
