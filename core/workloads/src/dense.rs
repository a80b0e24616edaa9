//! Building blocks of host implementations in f32, and of references of workloads with many steps in f64. GEMMs are a library's,
//! and sums run along rows in memory order.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView, ArrayView2, ArrayViewMut, ArrayViewMut2, Axis};
use parallax_ir::parallel::*;
use parallax_ir::{Gemm, Layout};

use crate::real::{Real, narrow, wide};
use crate::vector;
pub use crate::vector::{add, dot};

/// Multiply-adds of the smallest part of a GEMM that a thread computes.
const SMALLEST: usize = 1 << 17;
/// Rows and columns of C in multiples of which parts are cut: a multiple of the library's tiles.
const CUT: usize = 16;
/// Elements that a thread computes together.
const PIECE: usize = 1 << 14;
/// Rows per partial sum of a column sum. Partial sums allow threads and reduce rounding errors.
const BLOCK: usize = 256;

/// Sum in f64, rounded once. A sum in the host's own type loses one place with each doubling of its length.
pub fn total<T: Real>(x: impl IntoIterator<Item = T>) -> T {
    narrow(x.into_iter().map(wide).sum())
}

/// Returns a function of each number.
pub fn mapped<T: Real>(x: &[T], function: impl Fn(T) -> T + Sync) -> Vec<T> {
    let mut out = vec![T::zero(); x.len()];
    let pieces = out.par_chunks_mut(PIECE).zip(x.par_chunks(PIECE));
    pieces.for_each(|(out, x)| vector::map(out, x, &function));
    out
}

/// Returns a function of each pair of numbers.
pub fn zipped<T: Real>([a, b]: [&[T]; 2], function: impl Fn(T, T) -> T + Sync) -> Vec<T> {
    let mut out = vec![T::zero(); a.len()];
    let pieces = out.par_chunks_mut(PIECE).zip(a.par_chunks(PIECE)).zip(b.par_chunks(PIECE));
    pieces.for_each(|((out, a), b)| vector::zip(out, [a, b], &function));
    out
}

/// Adds the batched GEMM `A·B` to C.
pub fn add_gemm<T: Real>(gemm: Gemm, a: &[T], b: &[T], c: &mut [T]) {
    let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|extent| extent as usize);
    let operand = |transposed: bool, [rows, columns]: [usize; 2], matrix| match transposed {
        true => viewed([columns, rows], matrix).reversed_axes(),
        false => viewed([rows, columns], matrix),
    };
    let threads = current_num_threads().div_ceil(gemm.batch as usize);
    let batch = c.par_chunks_exact_mut(m * n).zip(a.par_chunks_exact(m * k)).zip(b.par_chunks_exact(k * n));
    batch.for_each(|((c, a), b)| {
        let a = operand(gemm.layout == Layout::Tn, [m, k], a);
        let b = operand(gemm.layout == Layout::Nt, [k, n], b);
        add_in_parts(threads, a, b, viewed_mut([m, n], c));
    });
}

/// Adds the GEMM `A·B` to C by this number of threads. Each computes a part of C that is as square as possible: parts read few rows
/// and columns twice. The order of the additions of an element is the same for any number of threads.
fn add_in_parts<T: Real>(threads: usize, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, c: ArrayViewMut2<'_, T>) {
    let (rows, columns) = c.dim();
    let longer = rows.max(columns);
    if threads < 2 || longer < 2 * CUT || rows * columns * a.ncols() < 2 * SMALLEST {
        return add_product(T::one(), a, b, c);
    }
    let first = threads / 2;
    let cut = (longer * first / threads).next_multiple_of(CUT);
    if rows >= columns {
        let (a, c) = (a.split_at(Axis(0), cut), c.split_at(Axis(0), cut));
        join(|| add_in_parts(first, a.0, b, c.0), || add_in_parts(threads - first, a.1, b, c.1));
    } else {
        let (b, c) = (b.split_at(Axis(1), cut), c.split_at(Axis(1), cut));
        join(|| add_in_parts(first, a, b.0, c.0), || add_in_parts(threads - first, a, b.1, c.1));
    }
}

/// Adds `factor · A·B` to C on this thread.
pub fn add_product<T: Real>(factor: T, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, mut c: ArrayViewMut2<'_, T>) {
    general_mat_mul(factor, &a, &b, T::one(), &mut c);
}

/// View of a row-major matrix.
pub fn viewed<T>([rows, columns]: [usize; 2], matrix: &[T]) -> ArrayView2<'_, T> {
    ArrayView::from_shape([rows, columns], matrix).expect("as many elements")
}

/// View of a row-major matrix, to change it.
pub fn viewed_mut<T>([rows, columns]: [usize; 2], matrix: &mut [T]) -> ArrayViewMut2<'_, T> {
    ArrayViewMut::from_shape([rows, columns], matrix).expect("as many elements")
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
    matrix.par_chunks_exact_mut(row.len()).for_each(|out| add(out, T::one(), row));
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
    fn parts_of_any_number_of_threads_give_the_same_bits() {
        for [m, n, k] in [[1, 4096, 300], [4096, 1, 300], [67, 531, 129], [530, 66, 128], [256, 256, 64]] {
            let numbers = |count: usize| (0..count).map(|i| ((i * 37) % 101) as f32 / 7.0 - 7.0).collect::<Vec<f32>>();
            let (a, b) = (numbers(m * k), numbers(k * n));
            let product = |threads: usize| {
                let mut c = vec![0.25; m * n];
                add_in_parts(threads, viewed([m, k], &a), viewed([k, n], &b), viewed_mut([m, n], &mut c));
                c
            };
            let one = product(1);
            for threads in [2, 3, 7, 64] {
                assert!(product(threads) == one, "{m} × {n} × {k} by {threads} threads");
            }
        }
    }

    #[test]
    fn a_total_of_equal_numbers_is_off_by_no_more_than_its_rounding() {
        for count in [1, 255, 4099, 1 << 20] {
            assert_eq!(total(vec![10_000.3_f32; count]) / count as f32, 10_000.3, "{count}");
        }
    }

    #[test]
    fn sums_take_every_element_once() {
        let (rows, columns) = (2 * BLOCK + 3, 5);
        let matrix = numbers(rows * columns);
        let mut got = vec![f32::NAN; columns];
        sum_of_rows(&matrix, &mut got);
        let want = |column: usize| matrix[column..].iter().step_by(columns).sum::<f32>();
        assert_eq!(got, (0..columns).map(want).collect::<Vec<_>>());
    }
}
