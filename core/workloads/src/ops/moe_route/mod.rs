//! Routing of a mixture of experts: each token goes to its `k` experts of the largest logits, with weights, and its choices are sorted
//! by expert.
//!
//! Experts of a token are in falling order of their logits. Of equal logits, the lower expert comes first, and `-0` equals `+0`. NaN
//! is the largest logit. With `softmax`, the weight of a choice is `exp(x[t, j]) / Σ_i exp(x[t, i])` over all experts. With `chosen`,
//! the sum is over the token's choices alone. All weights of a token with NaN are NaN. Mixtral (Jiang and others 2024) and Switch
//! Transformers (Fedus and others 2021) route so.
//!
//! `slots[t, c]` is the place of a choice in the list of all choices by expert, then by token. `order` is its inverse: the choice `t·k + c`
//! at each place. Expert `j` has the places `offsets[j]` to `offsets[j + 1]`.
//!
//! Operations: those of softmax, five a logit, or of its choices. Bytes: each logit read once, each result written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::stress::{not_finite_rows, one, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, indexable, normal, spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::{Sort, Sorted};

mod host;

const LOGITS: usize = 0;

/// Results in the order of their buffers.
const WEIGHTS: usize = 0;
const EXPERTS: usize = 1;
const OFFSETS: usize = 2;
const SLOTS: usize = 3;

/// Largest number of experts, and of choices of a token.
const MOST_EXPERTS: u64 = 512;
const MOST_CHOICES: u64 = 8;
/// Largest number of choices: the host has places as f32.
const MOST_ITEMS: u64 = 1 << 24;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "experts of tokens by their largest logits, sorted by expert",
        axes: const {
            &[
                Axis::extent("t", "tokens").items(),
                Axis::extent("e", "experts"),
                Axis::extent("k", "choices of a token"),
                Axis::word("weights", "experts over which weights add up to one", &["softmax", "chosen"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            tolerance,
            Reference::new(host::row_cost, host::reference),
            OfNan::Kept,
        )
        .headline("t16384,e128,k8,chosen")
        .shapes(shapes)
        // One of each; fewer and more tokens than a tile, and than a workgroup; odd numbers of experts; all experts; every list.
        .awkward(&[
            "t1,e1,k1,softmax",
            "t5,e2,k2,chosen",
            "t33,e8,k2,chosen",
            "t31,e7,k3,softmax",
            "t67,e60,k4,softmax",
            "t97,e128,k8,chosen",
            "t130,e131,k6,softmax",
            "t257,e256,k8,softmax",
            "t19,e511,k5,chosen",
            "t40,e512,k8,softmax",
            "t1009,e16,k1,softmax",
            "t33000,e4,k3,chosen",
        ])
        .huge(&["t8390656,e256,k1,softmax"])
        .host(host::host)
        .variants(vec![
            Variant::kernel(
                "naive",
                "one token per thread, and one pass over its logits for each choice; choices are sorted by a radix sort",
                naive,
            ),
            Variant::kernel(
                "lists",
                "several threads per token, which sort and merge lists: of the maxima of pieces, and of the pieces with the \
                 largest; a tile of tokens is a mask of bits for each expert, whose counts give the places: one pass, no sort",
                lists,
            ),
        ])
        .fallback(&["lists", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (t, e, k) = (shape["t"], shape["e"], shape["k"]);
    if e > MOST_EXPERTS || k > MOST_CHOICES.min(e) {
        return Err(format!("a token has up to {MOST_CHOICES} of up to {MOST_EXPERTS} experts, not {k} of {e}"));
    }
    if t > MOST_ITEMS / k {
        return Err(format!("there are up to {MOST_ITEMS} choices: {t} tokens have more"));
    }
    indexable(t * e)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["t16384,e8,k2,chosen", "t16384,e128,k8,chosen", "t65536,e256,k8,softmax"],
        _ => &[
            "t4096,e64,k6,softmax",
            "t16384,e8,k2,chosen",
            "t16384,e128,k8,chosen",
            "t16384,e256,k1,softmax",
            "t65536,e128,k8,softmax",
            "t65536,e256,k8,softmax",
            "t262144,e512,k8,softmax",
        ],
    }
}

/// Whether weights of a token's choices add up to one.
fn renormalised(p: &Problem) -> bool {
    p.shape.has("chosen")
}

/// Number of choices of all tokens.
fn items(p: &Problem) -> u64 {
    p["t"] * p["k"]
}

/// Buffers of the crate's own sort, of which the problem has the order.
const NAMES: Sorted = Sorted {
    keys: "experts",
    sorted: "sorted",
    order: "order",
    between: ["half_sorted", "half_order"],
    counts: "digits",
};

fn by_expert(p: &Problem) -> Sort {
    Sort { items: items(p), below: p["e"] }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (t, e, k) = (p["t"], p["e"], p["k"]);
    let [sorted, .., digits] = by_expert(p).scratch(NAMES);
    vec![
        BufferSpec::input("logits", Elem::Real, &[t, e], normal),
        BufferSpec::output("weights", Elem::F32, &[t, k]),
        BufferSpec::output("experts", Elem::U32, &[t, k]),
        BufferSpec::output("offsets", Elem::U32, &[e + 1]),
        BufferSpec::output("slots", Elem::U32, &[t, k]),
        BufferSpec::output("order", Elem::U32, &[t, k]),
        sorted,
        digits,
        BufferSpec::scratch("counts", Elem::U32, &[stretches(p).0, e]),
        BufferSpec::scratch("totals", Elem::U32, &[e]),
    ]
}

fn logit_bytes(p: &Problem) -> u64 {
    p["t"] * p["e"] * Elem::Real.storage(p.dtype).bytes()
}

fn cost(p: &Problem) -> Cost {
    let weighed = if renormalised(p) { items(p) } else { p["t"] * p["e"] };
    Cost::new(5 * weighed, logit_bytes(p), 16 * items(p) + 4 * (p["e"] + 1))
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    if output != WEIGHTS {
        return Tolerance { abs: 0.5, rel: 0.0, reason: "whole numbers, whose smallest difference is one" };
    }
    Tolerance {
        abs: 2f64.powi(-126),
        rel: 2f64.powi(-24) * (128.0 + p["e"] as f64 / 64.0),
        reason: "exponents of weights that are no smaller than e^-30 of the largest are off by 3 + 2·30 units in the last place in \
                 WGSL; positive terms are added in f32, and the result is rounded once, or to zero where it is no normal number",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: the first experts, each with every token", |_| vec![("logits", zero)]),
        set("equal", "all one: the first experts, each with every token", |_| vec![("logits", one)]),
        set("signs", "zeros of either sign, which are equal", |_| {
            vec![("logits", |_, draw| if draw.bits() >> 63 == 1 { -0.0 } else { 0.0 })]
        }),
        set("ties", "five numbers: the lower expert of equal ones comes first", |_| {
            vec![("logits", |_, draw| draw.below(5) as f64 - 2.0)]
        }),
        set("falling", "logits that fall: most tokens are with the first experts, and the last have none", |_| {
            vec![("logits", |shape, draw| {
                let expert = draw.index % shape["e"];
                draw.normal() - 24.0 * expert as f64 / shape["e"] as f64
            })]
        }),
        set("one", "the last expert before all others", |_| vec![("logits", last)]),
        set("huge", "up to 6e4 in f16 and 1e30 otherwise, of either sign: only the largest weighs anything", |p| {
            vec![("logits", huge(p))]
        }),
        set(
            "not finite",
            "tokens with NaN, which is chosen first; and tokens with -inf for half of the experts, which weigh nothing",
            |_| vec![("logits", |shape, draw| not_finite_rows(draw, shape["e"]))],
        ),
    ]
}

/// Logit of ten for the last expert, and less for others.
fn last(shape: &Shape, draw: Draw) -> f64 {
    if (draw.index + 1).is_multiple_of(shape["e"]) { 10.0 } else { draw.normal() }
}

fn huge(p: &Problem) -> Fill {
    match p.dtype {
        DType::F16 => |_, draw| 1.2e5 * (draw.uniform() - 0.5),
        DType::F32 | DType::BF16 => |_, draw| 2e30 * (draw.uniform() - 0.5),
    }
}

/// Threads of a workgroup that moves choices.
const THREADS: u64 = 256;

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let threads = 128;
    let chosen = stage(p, "moe_route/naive", "moe_route_naive", threads)
        .args([("logits", Read), ("weights", Write), ("experts", Write)])
        .grid(spread(p["t"].div_ceil(threads)))
        .cost(Cost::new(cost(p).flops.0, logit_bytes(p), 8 * items(p)));
    let finish = stage(p, "moe_route/finish", "moe_route_finish", THREADS)
        .args([("sorted", Read), ("order", Read), ("slots", Write), ("offsets", Write)])
        .grid(spread(items(p).max(p["e"] + 1).div_ceil(THREADS)))
        .cost(Cost::new(0, 8 * items(p), 4 * (items(p) + p["e"] + 1)));
    let sorted = by_expert(p).stages(NAMES);
    Program { stages: [chosen].into_iter().chain(sorted).chain([finish]).collect() }
}

/// Stage with the extents as constants.
fn stage(p: &Problem, text: &'static str, entry: &'static str, threads: u64) -> Stage {
    let extents =
        [("TOKENS", p["t"]), ("EXPERTS", p["e"]), ("CHOICES", p["k"]), ("ITEMS", items(p)), ("THREADS", threads)];
    Stage::kernel(entry, text, entry)
        .consts(&extents.map(|(name, value)| (name, value as u32)))
        .consts(&[("RENORMALISED", renormalised(p)), ("PACKED", p.dtype != DType::F32)])
        .threads([threads as u32, 1, 1])
}

/// Tokens of a tile: bits of a word.
const TILE: u64 = 32;
/// Threads of a workgroup that chooses, and the fewest and most of a token.
const CHOOSERS: u64 = 128;
const FEWEST_LANES: u64 = 4;
const MOST_LANES: u64 = 16;
/// Logits of a thread in WGSL, and its pieces in CUDA, if it is not the last number of lanes.
const OF_A_LANE: u64 = 32;
const PIECES_OF_A_LANE: u64 = 8;
/// Choices of a thread that places them.
const EACH: u64 = 4;

/// Stretches of tokens, and tiles of each.
fn stretches(p: &Problem) -> (u64, u64) {
    let tiles = p["t"].div_ceil(TILE);
    let each = tiles.div_ceil(MOST_PARTS);
    (tiles.div_ceil(each), each)
}

fn lists(p: &Problem, caps: &Caps) -> Program {
    let (e, k, items) = (p["e"], p["k"], items(p));
    let (stretches, tiles) = stretches(p);
    let width = width(e, p.dtype, caps);
    let pieces = e / width;
    let lanes = match caps.dialect {
        Dialect::Cuda => pieces.div_ceil(PIECES_OF_A_LANE),
        _ => e.div_ceil(OF_A_LANE),
    };
    let lanes = lanes.next_power_of_two().clamp(FEWEST_LANES, MOST_LANES);
    let list = k.next_power_of_two();
    // With fewer pieces, sorting their maxima saves nothing.
    let by_pieces = width >= 4 && pieces >= 2 * list;
    let consts = [
        ("WIDTH", width),
        ("LANES", lanes),
        ("PIECES", pieces.div_ceil(lanes)),
        ("LIST", list),
        ("STRETCHES", stretches),
        ("TILES", tiles),
    ];
    // Lists of all threads, two words of each expert, those of the tile's choices, and those of sums.
    let entry = if p.dtype == DType::F32 { 8 } else { 4 };
    let sums = if renormalised(p) { 0 } else { 4 * 2 * CHOOSERS };
    let shared = CHOOSERS * list * entry + 4 * 2 * e + 4 * 2 * TILE * k + sums;
    let table = 4 * stretches * e;
    let choose = stage(p, "moe_route/choose", "moe_route_choose", CHOOSERS)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("BY_PIECES", by_pieces)])
        .args([("logits", Read), ("weights", Write), ("experts", Write), ("slots", Write), ("counts", Write)])
        .grid(spread(stretches))
        .shared(shared as u32)
        .cost(Cost::new(cost(p).flops.0, logit_bytes(p), 12 * items + table));
    let begin = [("BINS", e), ("STRETCHES", stretches), ("MOST_PARTS", MOST_PARTS), ("THREADS", THREADS)];
    let begin = Stage::kernel("begin", "sort_by_key/begin", "sort_by_key_begin")
        .consts(&begin.map(|(name, value)| (name, value as u32)))
        .args([("counts", Write), ("totals", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid([e as u32, 1, 1])
        .shared(4 * THREADS as u32)
        .cost(Cost::new(0, table, table + 4 * e));
    let place = stage(p, "moe_route/place", "moe_route_place", THREADS)
        .consts(&[("EACH", EACH as u32), ("STRETCH", (tiles * TILE) as u32)])
        .args([
            ("counts", Read),
            ("totals", Read),
            ("experts", Read),
            ("slots", Write),
            ("order", Write),
            ("offsets", Write),
        ])
        .grid(spread(items.div_ceil(EACH * THREADS)))
        .shared((4 * (THREADS + e)) as u32)
        .cost(Cost::new(0, 8 * items + table, 8 * items + 4 * (e + 1)));
    Program { stages: vec![choose, begin, place] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn a_token_has_no_more_choices_than_experts() {
        for shape in ["t1,e4,k5,softmax", "t1,e513,k1,softmax", "t1,e64,k9,chosen"] {
            let refused = parse_case(&format!("moe_route/fwd/{shape}/f32/lists")).expect_err("refused").to_string();
            assert!(refused.contains("up to 8 of up to 512 experts"), "{refused}");
        }
        let many = parse_case("moe_route/fwd/t2097153,e8,k8,softmax/f32/lists").expect_err("refused").to_string();
        assert!(many.contains("16777216 choices"), "{many}");
    }

    #[test]
    fn memory_of_a_workgroup_is_within_that_of_webgpu_and_stretches_cover_all_tokens() {
        for (shape, dtype) in [
            ("t40,e512,k8,softmax", "f32"),
            ("t40,e512,k8,softmax", "f16"),
            ("t2097152,e511,k8,softmax", "f32"),
            ("t262144,e1,k1,chosen", "f16"),
            ("t32769,e3,k3,chosen", "f16"),
        ] {
            let case = parse_case(&format!("moe_route/fwd/{shape}/{dtype}/lists")).expect("valid");
            let (stretches, tiles) = stretches(&case.problem);
            let tokens = case.problem["t"];
            assert!(stretches * tiles * TILE >= tokens && (stretches - 1) * tiles * TILE < tokens, "{case}");
            for caps in [caps(), hopper()] {
                for kernel in case.program(&caps).expect("kernels").kernels() {
                    assert!(kernel.shared_bytes <= 16_384, "{case}: {}", kernel.shared_bytes);
                }
            }
        }
    }
}
