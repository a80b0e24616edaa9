//! Plain operations on dense matrices, row by row: what references of workloads of many steps are made of in f64, and their
//! host code in f32.

use num_traits::Float;
use rayon::prelude::*;

/// A float of the host.
pub(crate) trait Real: Float + Send + Sync + std::iter::Sum {}

impl Real for f32 {}
impl Real for f64 {}

/// `a·b` for `a` of m × k and `b` of k × n.
pub(crate) fn product<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3]) -> Vec<T> {
    let mut out = vec![T::zero(); m * n];
    out.par_chunks_mut(n).zip(a.par_chunks(k)).for_each(|(out, a)| {
        for (a, b) in a.iter().zip(b.chunks_exact(n)) {
            add_row(out, *a, b);
        }
    });
    out
}

/// `a·bᵀ` for `a` of m × k and `b` of n × k.
pub(crate) fn product_nt<T: Real>(a: &[T], b: &[T], sizes: [usize; 3]) -> Vec<T> {
    let [_, n, k] = sizes;
    product(a, &transposed(b, [n, k]), sizes)
}

/// `aᵀ·b` for `a` of k × m and `b` of k × n.
pub(crate) fn product_tn<T: Real>(a: &[T], b: &[T], sizes: [usize; 3]) -> Vec<T> {
    let [m, _, k] = sizes;
    product(&transposed(a, [k, m]), b, sizes)
}

/// Columns as rows.
pub(crate) fn transposed<T: Real>(a: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    (0..rows * columns).map(|at| a[at % rows * columns + at / rows]).collect()
}

/// `out += factor · row`.
pub(crate) fn add_row<T: Real>(out: &mut [T], factor: T, row: &[T]) {
    out.iter_mut().zip(row).for_each(|(out, x)| *out = *out + factor * *x);
}

/// The same row added to all.
pub(crate) fn add_to_rows<T: Real>(mut matrix: Vec<T>, row: &[T]) -> Vec<T> {
    matrix.chunks_exact_mut(row.len()).for_each(|out| add_row(out, T::one(), row));
    matrix
}

/// The sum of all rows of so many columns.
pub(crate) fn sum_of_rows<T: Real>(matrix: &[T], columns: usize) -> Vec<T> {
    let mut sum = vec![T::zero(); columns];
    matrix.chunks_exact(columns).for_each(|row| add_row(&mut sum, T::one(), row));
    sum
}

/// `a + b`, element by element.
pub(crate) fn sum<T: Real>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(a, b)| *a + *b).collect()
}

/// The sum of the products of two rows.
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).map(|(a, b)| *a * *b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_orders_agree() {
        let a: Vec<f64> = (0..6).map(f64::from).collect(); // 2 × 3
        let b: Vec<f64> = (0..12).map(|x| f64::from(x * x % 7)).collect(); // 3 × 4
        let plain = product(&a, &b, [2, 4, 3]);
        assert_eq!(plain[5], a[3] * b[1] + a[4] * b[5] + a[5] * b[9]);
        assert_eq!(product_nt(&a, &transposed(&b, [3, 4]), [2, 4, 3]), plain);
        assert_eq!(product_tn(&transposed(&a, [2, 3]), &b, [2, 4, 3]), plain);
        assert_eq!(sum_of_rows(&a, 3), [3.0, 5.0, 7.0]);
        assert_eq!(add_to_rows(a.clone(), &[1.0, 0.0, -1.0]), [1.0, 1.0, 1.0, 4.0, 4.0, 4.0]);
    }
}
