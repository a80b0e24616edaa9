//! Table of roots of unity, an input: `exp(−2πi·k/n)` rounded to f32. WGSL has no accurate sine, and a table is the same everywhere.
//!
//! If both extents are powers of two, it has those of every power of two up to the larger. Root k of order n is then entry n + k, and
//! entry zero is unused. Otherwise it has those of n, then those of m.

use parallax_ir::{Draw, Problem, Shape};

use crate::ops::rope::alternating;

/// Whether both extents are powers of two.
pub(super) fn tabled(shape: &Shape) -> bool {
    shape["n"].is_power_of_two() && shape["m"].is_power_of_two()
}

/// Number of entries.
pub(super) fn entries(shape: &Shape) -> u64 {
    if tabled(shape) { 2 * shape["n"].max(shape["m"]) } else { shape["n"] + shape["m"] }
}

/// Entry of root zero of an extent: of the rows, or of the columns.
pub(super) fn first_of(p: &Problem, rows: bool) -> u64 {
    match (tabled(&p.shape), rows) {
        (true, true) => p["n"],
        (true, false) => p["m"],
        (false, true) => 0,
        (false, false) => p["n"],
    }
}

/// Number at a place of the table: entries in order, each a real and an imaginary part.
pub(super) fn fill(shape: &Shape, draw: Draw) -> f64 {
    let entry = draw.index / 2;
    let (k, order) = match tabled(shape) {
        true if entry == 0 => return 0.0,
        true => (entry - (1 << entry.ilog2()), 1 << entry.ilog2()),
        false if entry < shape["n"] => (entry, shape["n"]),
        false => (entry - shape["n"], shape["m"]),
    };
    let [cosine, sine] = root(k, order);
    if draw.index.is_multiple_of(2) { cosine } else { -sine }
}

/// Cosine and sine of `2π·k/n` for k < n, the same on every machine, with fifteen digits. The angle is reduced exactly to an eighth.
pub(super) fn root(k: u64, n: u64) -> [f64; 2] {
    let (eighth, rest) = (8 * k / n, 8 * k % n);
    // Odd eighths are mirrored.
    let rest = if eighth % 2 == 1 { n - rest } else { rest };
    let angle = std::f64::consts::FRAC_PI_4 * (rest as f64 / n as f64);
    let (cosine, sine) = (alternating(angle, 1), angle * alternating(angle, 2));
    match eighth {
        0 => [cosine, sine],
        1 => [sine, cosine],
        2 => [-sine, cosine],
        3 => [-cosine, sine],
        4 => [-cosine, -sine],
        5 => [-sine, -cosine],
        6 => [sine, -cosine],
        _ => [cosine, -sine],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn roots_are_those_of_the_circle() {
        for n in [1, 2, 3, 8, 12, 1009, 4096] {
            for k in 0..n {
                let angle = 2.0 * std::f64::consts::PI * k as f64 / n as f64;
                let [cosine, sine] = root(k, n);
                assert!((cosine - angle.cos()).abs() < 1e-14 && (sine - angle.sin()).abs() < 1e-14, "{k} of {n}");
            }
        }
    }

    #[test]
    fn every_order_has_its_place() {
        for (shape, rows, columns) in [("b1,n8,c2c", [1, 8], [0, 1]), ("b1,n12,m5,c2c", [1, 12], [1, 5])] {
            let problem = parse_case(&format!("fft/fwd/{shape}/f32/naive")).expect("valid").problem;
            let inputs = problem.inputs(1);
            for (of_rows, [k, n]) in [(true, rows), (false, columns)] {
                let entry = first_of(&problem, of_rows) + k;
                let angle = 2.0 * std::f64::consts::PI * k as f64 / n as f64;
                let found = [0, 1].map(|part| inputs.at(super::super::ROOTS, 2 * entry + part));
                assert!((found[0] - angle.cos()).abs() < 1e-7 && (found[1] + angle.sin()).abs() < 1e-7, "{shape} {k}");
            }
        }
    }
}
