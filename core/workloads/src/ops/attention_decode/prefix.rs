//! Variants with a stage for a prefix that all sequences share, and the prefix in the cache's layout.

use parallax_ir::{Problem, Program, Shape, Value};
use parallax_schema::device::Caps;

use super::split::{Extent, available as short_rows, first, group, stages};
use super::{bytes, cached, element, mma, tokens};

/// Checks that a prefix has whole pages, and that no kernel finds pages without the table.
pub fn validate(shape: &Shape) -> Result<(), String> {
    match (shape["pre"], shape["t"], shape["p"]) {
        (0, ..) => Ok(()),
        (pre, t, _) if pre > t => Err(format!("a prefix of {pre} tokens is longer than {t}")),
        (pre, _, page) if !pre.is_multiple_of(page) => {
            Err(format!("a shared prefix has whole pages: {pre} tokens are no multiple of {page}"))
        }
        _ if shape.has("contiguous") => {
            Err("pages of a shared prefix are not adjacent to each sequence's own".to_owned())
        }
        _ if shape.has("append") => Err("tokens are appended to pages that no other sequence has".to_owned()),
        _ => Ok(()),
    }
}

/// Constants of the cache's layout: none without a prefix, so that sources stay as they are.
pub fn layout(p: &Problem) -> Vec<(&'static str, Value)> {
    match p["pre"] {
        0 => vec![],
        pre => vec![("PREFIXED", true.into()), ("PREFIX", (pre as u32).into())],
    }
}

/// Constants of a stage's extent, with the number of parts before its own and of all parts.
pub(super) fn place(p: &Problem, extent: Extent, [before, all]: [u64; 2]) -> Vec<(&'static str, Value)> {
    if p["pre"] == 0 {
        return vec![];
    }
    let Extent { sets, rows, first, last } = extent;
    [
        ("SETS", sets),
        ("ROWS_OF_HEAD", rows),
        ("FIRST", first),
        ("LAST", last),
        ("FIRST_PART", before),
        ("ALL_PARTS", all),
    ]
    .map(|(name, value)| (name, (value as u32).into()))
    .into()
}

/// Operations of a stage: those of its tokens for all sequences.
pub(super) fn operations(p: &Problem, extent: Extent) -> u64 {
    let of_prefix = p["b"] * p["pre"];
    let tokens = match (extent.first, extent.last) {
        (0, last) if last == p["t"] => tokens(p),
        (0, _) => of_prefix,
        _ => tokens(p) - of_prefix,
    };
    4 * p["h"] * p["d"] * tokens
}

/// Bytes that a stage reads: its tokens, those of a prefix once.
pub(super) fn read(p: &Problem, extent: Extent) -> u64 {
    let own = match (extent.first, extent.last) {
        (0, last) if last == p["t"] => cached(p),
        (0, last) => last,
        _ => tokens(p) - p["b"] * p["pre"],
    };
    bytes(p).1 - 2 * (cached(p) - own) * p["kv"] * p["d"] * element(p)
}

/// Checks that the problem has a prefix, and rows that `split` takes.
///
/// # Errors
/// Reason against it.
pub fn available(p: &Problem) -> Result<(), String> {
    match p["pre"] {
        0 => Err("no tokens are shared: this is split".to_owned()),
        _ => short_rows(p),
    }
}

/// Checks that a device can compute the problem by `prefix_mma`.
///
/// # Errors
/// Reason against it.
pub fn mma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    available(p).and_then(|()| mma::available(p, caps))
}

/// Prefix for the rows of all sequences, then the tokens behind it, if there are such.
fn extents(p: &Problem) -> Vec<Extent> {
    let (b, t, pre) = (p["b"], p["t"], p["pre"]);
    let shared = Extent { sets: 1, rows: b * group(p), first: 0, last: pre };
    let own = Extent { sets: b, rows: group(p), first: pre, last: t };
    [shared, own].into_iter().filter(|extent| extent.first < extent.last).collect()
}

pub fn prefix(p: &Problem, caps: &Caps) -> Program {
    let all = extents(p).into_iter().map(|extent| first(p, extent, caps)).collect();
    Program { stages: stages(p, caps, all, false) }
}

pub fn prefix_mma(p: &Problem, caps: &Caps) -> Program {
    let all = extents(p).into_iter().map(|extent| mma::first(p, extent, caps)).collect();
    Program { stages: stages(p, caps, all, false) }
}

#[cfg(test)]
mod tests {
    use super::super::cached;
    use crate::parse_case;

    #[test]
    fn a_prefix_is_read_once_and_all_operations_are_counted() {
        let shape = "b64,h32,kv8,t8192,d128,pre7168";
        let case = parse_case(&format!("attention_decode/fwd/{shape}/f16/prefix_mma")).expect("valid");
        let stages = case.program(&parallax_schema::testing::hopper()).expect("kernels").stages;
        assert_eq!(stages.len(), 3);
        let flops: u64 = stages[..2].iter().map(|stage| stage.cost.flops.0).sum();
        assert_eq!(flops, case.problem.cost().flops.0);
        let own = 64 * 1024;
        assert_eq!(cached(&case.problem), 7168 + own);
        let read: u64 = stages[..2].iter().map(|stage| stage.cost.read.0).sum();
        let keys_and_values = 2 * 2 * 8 * 128 * (7168 + own);
        assert!(read > keys_and_values && read < keys_and_values * 11 / 10, "{read} of {keys_and_values}");
    }

    #[test]
    fn refusals_have_a_reason() {
        for (shape, part) in [
            ("b2,h1,t64,d8,pre72", "longer"),
            ("b2,h1,t64,d8,pre20", "whole pages"),
            ("b2,h1,t64,d8,pre16,contiguous", "adjacent"),
            ("b2,h1,t64,d8,pre16,append", "appended"),
        ] {
            let case = parse_case(&format!("attention_decode/fwd/{shape}/f16/split"));
            assert!(case.is_err_and(|why| why.to_string().contains(part)), "{shape}");
        }
    }
}
