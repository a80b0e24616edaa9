//! Building blocks of host implementations in f32, and of references of workloads with many steps in f64. GEMMs are a library's,
//! and sums run along rows in memory order. There are no other optimizations.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView, ArrayView2, ArrayViewMut, s};
use num_traits::Float;
use parallax_ir::parallel::*;
use parallax_ir::{Gemm, Layout};

/// Rows of C that a thread computes together, enough that the right matrix is fetched rarely.
const TOGETHER: usize = 64;
/// Partial sums of a dot product. They are independent, and fit the vector units of any processor.
const LANES: usize = 16;
/// Rows per partial sum of a column sum. Partial sums allow threads and reduce rounding errors.
const BLOCK: usize = 256;

/// Float of the host.
pub trait Real: Float + Send + Sync + std::iter::Sum + 'static {}

impl Real for f32 {}
impl Real for f64 {}

/// Converts a float of the host to f64.
pub fn wide<T: Real>(x: T) -> f64 {
    x.to_f64().expect("a float")
}

/// Converts an f64 to a float of the host.
pub fn narrow<T: Real>(x: f64) -> T {
    T::from(x).expect("a float")
}

/// Larger of two numbers; NaN if either is NaN.
pub fn maximum<T: Real>(a: T, b: T) -> T {
    if a > b || a.is_nan() { a } else { b }
}

/// ReLU. NaN stays NaN.
pub fn relu<T: Real>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}

/// Gradient before ReLU: zero if the result is zero or below. A NaN result passes the gradient.
pub fn gated<T: Real>(result: T, gradient: T) -> T {
    if result <= T::zero() { T::zero() } else { gradient }
}

/// Sum in f64, rounded once. A sum in the host's own type loses one place with each doubling of its length.
pub fn total<T: Real>(x: impl IntoIterator<Item = T>) -> T {
    narrow(x.into_iter().map(wide).sum())
}

/// Dot product `a·b`.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let (heads, tails) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: T = heads.remainder().iter().zip(tails.remainder()).map(|(a, b)| *a * *b).sum();
    let mut sums = [T::zero(); LANES];
    for (a, b) in heads.zip(tails) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum = *sum + *a * *b);
    }
    sums.into_iter().sum::<T>() + rest
}

/// Computes `out += factor · row`.
pub fn add<T: Real>(out: &mut [T], factor: T, row: &[T]) {
    out.iter_mut().zip(row).for_each(|(out, x)| *out = *out + factor * *x);
}

/// Adds the batched GEMM `A·B` to C.
pub fn add_gemm<T: Real>(gemm: Gemm, a: &[T], b: &[T], c: &mut [T]) {
    let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|extent| extent as usize);
    let operand = |transposed: bool, [rows, columns]: [usize; 2], matrix| match transposed {
        true => viewed([columns, rows], matrix).reversed_axes(),
        false => viewed([rows, columns], matrix),
    };
    let batch = c.par_chunks_exact_mut(m * n).zip(a.par_chunks_exact(m * k)).zip(b.par_chunks_exact(k * n));
    batch.for_each(|((c, a), b)| {
        let a = operand(gemm.layout == Layout::Tn, [m, k], a);
        let b = operand(gemm.layout == Layout::Nt, [k, n], b);
        c.par_chunks_mut(TOGETHER * n).enumerate().for_each(|(block, c)| {
            let first = block * TOGETHER;
            let mut c = ArrayViewMut::from_shape([c.len() / n, n], c).expect("whole rows");
            general_mat_mul(T::one(), &a.slice(s![first..first + c.nrows(), ..]), &b, T::one(), &mut c);
        });
    });
}

/// View of a row-major matrix.
fn viewed<T>(shape: [usize; 2], matrix: &[T]) -> ArrayView2<'_, T> {
    ArrayView::from_shape(shape, matrix).expect("as many elements")
}

/// Returns the batched GEMM `A·B`.
pub fn gemm_of<T: Real>(gemm: Gemm, a: &[T], b: &[T]) -> Vec<T> {
    let [.., elements] = gemm.elements();
    let mut c = vec![T::zero(); elements as usize];
    add_gemm(gemm, a, b, &mut c);
    c
}

/// Returns `A·B` of extents `[m, n, k]`, both row-major.
pub fn gemm_nn<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3]) -> Vec<T> {
    gemm_of(Gemm::new(m as u64, n as u64, k as u64), a, b)
}

/// Returns `A·B` of extents `[m, n, k]`, with B transposed.
pub fn gemm_nt<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3]) -> Vec<T> {
    gemm_of(Gemm::new(m as u64, n as u64, k as u64).layout(Layout::Nt), a, b)
}

/// Returns `A·B` of extents `[m, n, k]`, with A transposed.
pub fn gemm_tn<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3]) -> Vec<T> {
    gemm_of(Gemm::new(m as u64, n as u64, k as u64).layout(Layout::Tn), a, b)
}

/// Sums the rows of a matrix into `out`, of a row's length. The order of additions is the same for any number of threads.
pub fn sum_of_rows<T: Real>(matrix: &[T], out: &mut [T]) {
    let columns = out.len();
    let sum = |rows: &[T]| {
        let mut sum = vec![T::zero(); columns];
        rows.chunks_exact(columns).for_each(|row| add(&mut sum, T::one(), row));
        sum
    };
    let parts: Vec<Vec<T>> = matrix.par_chunks(BLOCK * columns).map(sum).collect();
    out.fill(T::zero());
    parts.iter().for_each(|part| add(out, T::one(), part));
}

/// Returns the sum of all rows of a matrix with this number of columns.
pub fn rows_summed<T: Real>(matrix: &[T], columns: usize) -> Vec<T> {
    let mut sums = vec![T::zero(); columns];
    sum_of_rows(matrix, &mut sums);
    sums
}

/// Adds a row to every row of a matrix.
pub fn add_to_rows<T: Real>(mut matrix: Vec<T>, row: &[T]) -> Vec<T> {
    matrix.chunks_exact_mut(row.len()).for_each(|out| add(out, T::one(), row));
    matrix
}

/// Elementwise sum `a + b`.
pub fn sum<T: Real>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(a, b)| *a + *b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + i / 5) % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn products_are_what_their_definition_says_in_each_order_of_storing() {
        let (batch, m, n, k) = (3, 19, 5, 37);
        let (a, b) = (numbers(batch * m * k), numbers(batch * k * n));
        for layout in [Layout::Nn, Layout::Nt, Layout::Tn] {
            let left = |o: usize, i: usize, l: usize| match layout {
                Layout::Tn => a[(o * k + l) * m + i],
                _ => a[(o * m + i) * k + l],
            };
            let right = |o: usize, l: usize, j: usize| match layout {
                Layout::Nt => b[(o * n + j) * k + l],
                _ => b[(o * k + l) * n + j],
            };
            let gemm = Gemm::new(m as u64, n as u64, k as u64).batch(batch as u64).layout(layout);
            let mut got = vec![0.5; batch * m * n];
            add_gemm(gemm, &a, &b, &mut got);
            for (at, got) in got.into_iter().enumerate() {
                let (o, i, j) = (at / (m * n), at / n % m, at % n);
                let want = 0.5 + (0..k).map(|l| left(o, i, l) * right(o, l, j)).sum::<f32>();
                assert_eq!(got, want, "{layout:?} at {o}, {i}, {j}");
            }
        }
    }

    #[test]
    fn a_maximum_and_what_relu_leaves_are_nan_where_a_number_is() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for (a, b, larger) in [(1.0, 2.0, 2.0), (2.0, 1.0, 2.0), (-inf, -1.0, -1.0), (inf, -inf, inf)] {
            assert_eq!(maximum(a, b), larger);
            assert!(maximum(a, nan).is_nan() && maximum(nan, b).is_nan());
        }
        assert_eq!([-inf, -1.0, 0.0, 1.0, inf].map(relu), [0.0, 0.0, 0.0, 1.0, inf]);
        assert!(relu(nan).is_nan());
        assert_eq!([-1.0, 0.0, 1.0, nan].map(|result| gated(result, 3.0)), [0.0, 0.0, 3.0, 3.0]);
    }

    #[test]
    fn a_total_of_equal_numbers_is_off_by_no_more_than_its_rounding() {
        for count in [1, 255, 4099, 1 << 20] {
            assert_eq!(total(vec![10_000.3_f32; count]) / count as f32, 10_000.3, "{count}");
        }
    }

    #[test]
    fn sums_take_every_element_once() {
        for length in [0, 1, LANES - 1, LANES, 3 * LANES + 2] {
            let (a, b) = (numbers(length), vec![2.0; length]);
            assert_eq!(dot(&a, &b), 2.0 * a.iter().sum::<f32>(), "of {length}");
        }
        let (rows, columns) = (2 * BLOCK + 3, 5);
        let matrix = numbers(rows * columns);
        let mut got = vec![f32::NAN; columns];
        sum_of_rows(&matrix, &mut got);
        let want = |column: usize| matrix[column..].iter().step_by(columns).sum::<f32>();
        assert_eq!(got, (0..columns).map(want).collect::<Vec<_>>());
    }
}
