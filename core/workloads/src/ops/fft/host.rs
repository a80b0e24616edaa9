//! Transforms on the host: the reference in f64, and the multi-threaded implementation in f32.

use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Inputs, Problem};

use super::{ROOTS, X, inverse, outputs, real, roots};

/// Work of a row of the reference, a whole transform.
pub(super) fn row_cost(p: &Problem, _output: usize) -> u64 {
    let of = |n: u64| 4 * (u64::from(n.ilog2()) + (n >> n.trailing_zeros()));
    p["n"] * p["m"] * (of(p["n"]) + of(p["m"]))
}

/// Complex number of the reference.
type Wide = [f64; 2];

fn plus(a: Wide, b: Wide) -> Wide {
    [a[0] + b[0], a[1] + b[1]]
}

fn times(a: Wide, b: Wide) -> Wide {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Root `exp(sign·2πi·k/n)`.
fn root(k: usize, n: usize, sign: f64) -> Wide {
    let (sine, cosine) = (2.0 * std::f64::consts::PI * (k % n) as f64 / n as f64).sin_cos();
    [cosine, sign * sine]
}

/// Transform by the definition.
fn definition(x: &[Wide], sign: f64) -> Vec<Wide> {
    let n = x.len();
    let of = |k: usize| {
        let terms = x.iter().enumerate().map(|(j, x)| times(*x, root(j * k, n, sign)));
        terms.fold([0.0; 2], plus)
    };
    (0..n).map(of).collect()
}

/// Transform by halves: that of the elements at even places, plus that of the others times roots. An odd length is by the definition.
fn by_halves(x: &[Wide], sign: f64) -> Vec<Wide> {
    let n = x.len();
    if !n.is_multiple_of(2) {
        return definition(x, sign);
    }
    let every_second = |first: usize| x.iter().skip(first).step_by(2).copied().collect::<Vec<_>>();
    let [even, odd] = [0, 1].map(|first| by_halves(&every_second(first), sign));
    (0..n).map(|k| plus(even[k % (n / 2)], times(root(k, n, sign), odd[k % (n / 2)]))).collect()
}

pub(super) fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (n, m, sign) = (p["n"], p["m"] as usize, if inverse(p) { 1.0 } else { -1.0 });
    let numbers = n * p["m"];
    let x: Vec<Wide> = match real(p) {
        true => inputs.values(X, row * n..(row + 1) * n).into_iter().map(|x| [x, 0.0]).collect(),
        false => inputs.values(X, 2 * row * numbers..2 * (row + 1) * numbers).as_chunks::<2>().0.to_vec(),
    };
    let n = n as usize;
    let mut all: Vec<Wide> = x.chunks_exact(n).flat_map(|row| by_halves(row, sign)).collect();
    if m > 1 {
        for column in 0..n {
            let of_column: Vec<Wide> = all.iter().skip(column).step_by(n).copied().collect();
            let transformed = by_halves(&of_column, sign);
            all.iter_mut().skip(column).step_by(n).zip(transformed).for_each(|(slot, x)| *slot = x);
        }
    }
    out.as_chunks_mut::<2>().0.iter_mut().zip(all).for_each(|(slot, x)| *slot = x);
}

/// Complex number of the host's implementation.
type Number = [f32; 2];

#[inline(always)]
fn product(a: Number, b: Number) -> Number {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

#[inline(always)]
fn sum(a: Number, b: Number) -> Number {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn difference(a: Number, b: Number) -> Number {
    [a[0] - b[0], a[1] - b[1]]
}

/// Transform of one length, with its roots.
struct Plan {
    /// Roots `exp(±2πi·k/n)`.
    roots: Vec<Number>,
    /// Imaginary unit with the sign of the exponent.
    sign: f32,
}

impl Plan {
    fn new(p: &Problem, table: &[Number], rows: bool) -> Plan {
        let first = roots::first_of(p, rows) as usize;
        let len = if rows { p["n"] } else { p["m"] } as usize;
        let sign = if inverse(p) { 1.0 } else { -1.0 };
        let roots = table[first..first + len].iter().map(|root| [root[0], -sign * root[1]]).collect();
        Plan { roots, sign }
    }

    /// Transforms a line in place.
    fn transform(&self, line: &mut [Number]) {
        let mut other = vec![[0.0; 2]; line.len()];
        match line.len().is_power_of_two() {
            true => self.stockham(line, &mut other),
            false => {
                for (k, slot) in other.iter_mut().enumerate() {
                    *slot = self.result(line, k);
                }
                line.copy_from_slice(&other);
            }
        }
    }

    /// Result by the definition, summed in f64.
    fn result(&self, line: &[Number], k: usize) -> Number {
        let (mut at, mut sum) = (0, [0.0f64; 2]);
        for x in line {
            let term = product(*x, self.roots[at]);
            sum = [sum[0] + f64::from(term[0]), sum[1] + f64::from(term[1])];
            at += k;
            at -= if at >= line.len() { line.len() } else { 0 };
        }
        sum.map(|part| part as f32)
    }

    /// Transforms a power of two by radix 4, and last by radix 2 if four are no divisor. The order is Stockham's. Each step goes from
    /// one array to the other, and no element is moved to a reversed place. Runs of `apart` neighbours have the same roots.
    fn stockham(&self, line: &mut [Number], other: &mut [Number]) {
        let n = line.len();
        let (mut apart, mut in_line) = (1, true);
        let (mut from, mut to) = (line, other);
        while apart < n {
            let radix = if n / apart >= 4 { 4 } else { 2 };
            let groups = n / apart / radix;
            for group in 0..groups {
                let run = |quarter: usize| &from[(group + quarter * groups) * apart..][..apart];
                let out = &mut to[radix * group * apart..][..radix * apart];
                match radix {
                    4 => {
                        let roots = [1, 2, 3].map(|factor| self.roots[factor * group * apart]);
                        self.fourfold([0, 1, 2, 3].map(run), roots, out);
                    }
                    _ => {
                        let (first, second) = out.split_at_mut(apart);
                        let runs = run(0).iter().zip(run(1)).zip(first.iter_mut().zip(second));
                        runs.for_each(|((a, b), (first, second))| {
                            (*first, *second) = (sum(*a, *b), difference(*a, *b))
                        });
                    }
                }
            }
            (from, to, in_line, apart) = (to, from, !in_line, apart * radix);
        }
        if !in_line {
            to.copy_from_slice(from);
        }
    }

    fn fourfold(&self, [a, b, c, d]: [&[Number]; 4], roots: [Number; 3], out: &mut [Number]) {
        let (first, rest) = out.split_at_mut(a.len());
        let (second, rest) = rest.split_at_mut(a.len());
        let (third, fourth) = rest.split_at_mut(a.len());
        for q in 0..a.len() {
            let (even, odd) = (sum(a[q], c[q]), sum(b[q], d[q]));
            let (less, [re, im]) = (difference(a[q], c[q]), difference(b[q], d[q]));
            let rotated = [-self.sign * im, self.sign * re];
            first[q] = sum(even, odd);
            second[q] = product(roots[0], sum(less, rotated));
            third[q] = product(roots[1], difference(even, odd));
            fourth[q] = product(roots[2], difference(less, rotated));
        }
    }
}

/// Columns that a thread transforms together: a line of the caches.
const COLUMNS: usize = 8;

pub(super) fn host(p: &Problem, inputs: &[HostBuffer], outputs_of: &mut [Vec<f32>]) {
    let (n, m) = (p["n"] as usize, p["m"] as usize);
    let table = inputs[ROOTS].f32().as_chunks::<2>().0;
    let rows = Plan::new(p, table, true);
    let out = outputs_of[0].as_chunks_mut::<2>().0;
    if real(p) {
        let results = outputs(p) as usize;
        out.par_chunks_mut(results).zip(inputs[X].f32().par_chunks(n)).for_each(|(out, x)| half(&rows, x, out));
        return;
    }
    let x = inputs[X].f32().as_chunks::<2>().0;
    out.par_chunks_mut(n).zip(x.par_chunks(n)).for_each(|(out, x)| {
        out.copy_from_slice(x);
        rows.transform(out);
    });
    if m > 1 {
        let columns = Plan::new(p, table, false);
        let mut lines = vec![[0.0; 2]; n * m];
        for image in out.chunks_exact_mut(n * m) {
            let (wide, first_of) = (COLUMNS * m, |strip: usize| strip * COLUMNS);
            lines.par_chunks_mut(wide).enumerate().for_each(|(strip, lines)| {
                for (row, from) in image.chunks_exact(n).enumerate() {
                    let from = from[first_of(strip)..].iter();
                    lines[row..].iter_mut().step_by(m).zip(from).for_each(|(slot, x)| *slot = *x);
                }
                lines.chunks_exact_mut(m).for_each(|line| columns.transform(line));
            });
            image.par_chunks_mut(n).enumerate().for_each(|(row, out)| {
                out.iter_mut().zip(lines[row..].iter().step_by(m)).for_each(|(slot, x)| *slot = *x);
            });
        }
    }
}

/// Half of the spectrum of a real line. A line of even length is transformed in pairs, each a complex number.
fn half(plan: &Plan, x: &[f32], out: &mut [Number]) {
    let n = x.len();
    if !n.is_power_of_two() || n < 2 {
        let line: Vec<Number> = x.iter().map(|x| [*x, 0.0]).collect();
        out.iter_mut().enumerate().for_each(|(k, slot)| *slot = plan.result(&line, k));
        return;
    }
    let pairs = n / 2;
    let roots = plan.roots.iter().step_by(2).copied().collect();
    let mut z = x.as_chunks::<2>().0.to_vec();
    Plan { roots, sign: plan.sign }.transform(&mut z);
    for (k, slot) in out.iter_mut().enumerate() {
        let (own, [re, im]) = (z[k % pairs], z[(pairs - k) % pairs]);
        let mirrored = [re, -im];
        let (even, odd) = (sum(own, mirrored), difference(own, mirrored));
        // The root of the half of the circle is minus one.
        let root = if k == pairs { [-1.0, 0.0] } else { plan.roots[k] };
        let [re, im] = product(root, [odd[1], -odd[0]]);
        *slot = [0.5 * (even[0] + re), 0.5 * (even[1] + im)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn halves_give_the_transform_of_the_definition() {
        for n in [1, 2, 3, 4, 6, 8, 12, 15, 16, 40] {
            let x: Vec<Wide> = (0..n).map(|j| [(j * 7 % 11) as f64 - 5.0, (j * 5 % 13) as f64]).collect();
            for sign in [1.0, -1.0] {
                for (got, want) in by_halves(&x, sign).into_iter().zip(definition(&x, sign)) {
                    assert!((0..2).all(|part| (got[part] - want[part]).abs() < 1e-11), "{n}: {got:?} {want:?}");
                }
            }
        }
    }

    #[test]
    fn the_host_agrees_with_the_reference() {
        for shape in [
            "b1,n1,c2c",
            "b2,n2,c2c",
            "b3,n64,c2c,inverse",
            "b2,n128,c2c",
            "b2,n15,c2c",
            "b2,n12,m5,c2c",
            "b2,n16,m8,c2c,inverse",
            "b2,n2,r2c",
            "b2,n9,r2c",
            "b2,n12,r2c",
            "b3,n64,r2c",
        ] {
            let p = parse_case(&format!("fft/fwd/{shape}/f32/naive")).expect("valid").problem;
            let inputs = p.inputs(3);
            let given = [X, ROOTS].map(|buffer| inputs.host(buffer).expect("memory"));
            let row = outputs(&p) as usize * p["m"] as usize * 2;
            let mut out = [vec![0.0; p["b"] as usize * row]];
            host(&p, &given, &mut out);
            for (at, got) in out[0].chunks(row).enumerate() {
                let mut want = vec![0.0; row];
                reference(&p, &inputs, at as u64, &mut want);
                let far = got.iter().zip(&want).map(|(got, want)| (f64::from(*got) - want).abs()).fold(0.0, f64::max);
                assert!(far < 1e-4, "{shape}: {far}");
            }
        }
    }
}
