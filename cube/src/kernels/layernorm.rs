//! Layer normalisation: a workgroup per row, in three passes for mean, deviation and result. With a sum before it, each thread
//! reads back its own writes, so the normalised values are the sum as stored.

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

use super::rows::{sum_of, sum_of_all};
use crate::definition::{Definition, Real, Width};

/// Mean and inverse deviation of a row that begins at vector `first`.
#[cube]
fn statistics<F: Float, N: Size>(
    x: &[Vector<F, N>],
    first: usize,
    kept: &mut [f32],
    #[comptime] pieces: usize,
    #[comptime] units: u32,
    #[comptime] eps: f32,
) -> (f32, f32) {
    let columns = comptime!(pieces as f32) * f32::cast_from(N::value() as u32);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < pieces {
        sum += sum_of::<N>(Vector::<f32, N>::cast_from(x[first + i]));
        i += units as usize;
    }
    let mean = sum_of_all(sum, kept, units) / columns;
    let mut squares = 0.0f32;
    i = UNIT_POS as usize;
    while i < pieces {
        let off = Vector::<f32, N>::cast_from(x[first + i]) - Vector::new(mean);
        squares += sum_of::<N>(off * off);
        i += units as usize;
    }
    let rstd = (sum_of_all(squares, kept, units) / columns + eps).inverse_sqrt();
    (mean, rstd)
}

#[cube]
fn normalise<F: Float, N: Size>(
    x: &[Vector<F, N>],
    gamma: &[Vector<F, N>],
    beta: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    first: usize,
    mean: f32,
    rstd: f32,
    #[comptime] pieces: usize,
    #[comptime] units: u32,
) {
    let mut i = UNIT_POS as usize;
    while i < pieces {
        let off = Vector::<f32, N>::cast_from(x[first + i]) - Vector::new(mean);
        let scaled = off * Vector::new(rstd) * Vector::<f32, N>::cast_from(gamma[i]);
        out[first + i] = Vector::cast_from(scaled + Vector::<f32, N>::cast_from(beta[i]));
        i += units as usize;
    }
}

#[cube]
fn layernorm<F: Float, N: Size>(
    x: &[Vector<F, N>],
    gamma: &[Vector<F, N>],
    beta: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    mean: &mut [f32],
    rstd: &mut [f32],
    #[comptime] rows: usize,
    #[comptime] pieces: usize,
    #[comptime] units: u32,
    #[comptime] eps: f32,
) {
    let mut kept = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let row = CUBE_POS;
    if row < rows {
        let first = row * pieces;
        let (row_mean, row_rstd) = statistics::<F, N>(x, first, &mut kept, pieces, units, eps);
        normalise::<F, N>(x, gamma, beta, out, first, row_mean, row_rstd, pieces, units);
        if UNIT_POS == 0 {
            mean[row] = row_mean;
            rstd[row] = row_rstd;
        }
    }
}

#[cube]
fn add_layernorm<F: Float, N: Size>(
    x: &[Vector<F, N>],
    residual: &[Vector<F, N>],
    gamma: &[Vector<F, N>],
    beta: &[Vector<F, N>],
    sum: &mut [Vector<F, N>],
    out: &mut [Vector<F, N>],
    mean: &mut [f32],
    rstd: &mut [f32],
    #[comptime] rows: usize,
    #[comptime] pieces: usize,
    #[comptime] units: u32,
    #[comptime] eps: f32,
) {
    let mut kept = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let row = CUBE_POS;
    if row < rows {
        let first = row * pieces;
        let mut i = UNIT_POS as usize;
        while i < pieces {
            let both = Vector::<f32, N>::cast_from(x[first + i]) + Vector::<f32, N>::cast_from(residual[first + i]);
            sum[first + i] = Vector::cast_from(both);
            i += units as usize;
        }
        let (row_mean, row_rstd) = statistics::<F, N>(&*sum, first, &mut kept, pieces, units, eps);
        normalise::<F, N>(&*sum, gamma, beta, out, first, row_mean, row_rstd, pieces, units);
        if UNIT_POS == 0 {
            mean[row] = row_mean;
            rstd[row] = row_rstd;
        }
    }
}

#[cube]
fn add_layernorm_in_place<F: Float, N: Size>(
    x: &[Vector<F, N>],
    residual: &mut [Vector<F, N>],
    gamma: &[Vector<F, N>],
    beta: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    mean: &mut [f32],
    rstd: &mut [f32],
    #[comptime] rows: usize,
    #[comptime] pieces: usize,
    #[comptime] units: u32,
    #[comptime] eps: f32,
) {
    let mut kept = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let row = CUBE_POS;
    if row < rows {
        let first = row * pieces;
        let mut i = UNIT_POS as usize;
        while i < pieces {
            let both = Vector::<f32, N>::cast_from(x[first + i]) + Vector::<f32, N>::cast_from(residual[first + i]);
            residual[first + i] = Vector::cast_from(both);
            i += units as usize;
        }
        let (row_mean, row_rstd) = statistics::<F, N>(&*residual, first, &mut kept, pieces, units, eps);
        normalise::<F, N>(&*residual, gamma, beta, out, first, row_mean, row_rstd, pieces, units);
        if UNIT_POS == 0 {
            mean[row] = row_mean;
            rstd[row] = row_rstd;
        }
    }
}

/// Rows, vectors of a row, threads, and the epsilon that keeps rows of equal elements finite.
fn extents(k: &Definition<'_>) -> (usize, usize, u32, f32) {
    (k.size("ROWS"), k.size("PIECES"), k.units(), k.fraction("EPS"))
}

/// Body of layer normalisation.
pub fn define(k: &mut Definition<'_>) {
    let [x, gamma, beta] = [(); 3].map(|()| k.buffer::<Vector<Real, Width>>());
    let mut out = k.buffer::<Vector<Real, Width>>();
    let [mut mean, mut rstd] = [(); 2].map(|()| k.buffer::<f32>());
    let (rows, pieces, units, eps) = extents(k);
    layernorm::expand::<Real, Width>(
        k.scope(),
        &x,
        &gamma,
        &beta,
        &mut out,
        &mut mean,
        &mut rstd,
        rows,
        pieces,
        units,
        eps,
    );
}

/// Body of layer normalisation of a sum, which has a buffer of its own.
pub fn define_sum(k: &mut Definition<'_>) {
    let [x, residual, gamma, beta] = [(); 4].map(|()| k.buffer::<Vector<Real, Width>>());
    let [mut sum, mut out] = [(); 2].map(|()| k.buffer::<Vector<Real, Width>>());
    let [mut mean, mut rstd] = [(); 2].map(|()| k.buffer::<f32>());
    let (rows, pieces, units, eps) = extents(k);
    add_layernorm::expand::<Real, Width>(
        k.scope(),
        &x,
        &residual,
        &gamma,
        &beta,
        &mut sum,
        &mut out,
        &mut mean,
        &mut rstd,
        rows,
        pieces,
        units,
        eps,
    );
}

/// Body of layer normalisation of a sum, which overwrites one of its terms.
pub fn define_in_place(k: &mut Definition<'_>) {
    let x = k.buffer::<Vector<Real, Width>>();
    let mut residual = k.buffer::<Vector<Real, Width>>();
    let [gamma, beta] = [(); 2].map(|()| k.buffer::<Vector<Real, Width>>());
    let mut out = k.buffer::<Vector<Real, Width>>();
    let [mut mean, mut rstd] = [(); 2].map(|()| k.buffer::<f32>());
    let (rows, pieces, units, eps) = extents(k);
    add_layernorm_in_place::expand::<Real, Width>(
        k.scope(),
        &x,
        &mut residual,
        &gamma,
        &beta,
        &mut out,
        &mut mean,
        &mut rstd,
        rows,
        pieces,
        units,
        eps,
    );
}
