//! Indices of the buffers of the backward direction: inputs, then outputs.

pub(super) const X: usize = 0;
pub(super) const W: usize = 1;
pub(super) const GAMMA: usize = 2;
pub(super) const MEAN: usize = 3;
pub(super) const VARIANCE: usize = 4;
pub(super) const VALUES: usize = 5;
pub(super) const OUT: usize = 6;
pub(super) const DOUT: usize = 7;

/// Indices of the outputs, in buffer order. The bias follows them.
pub(super) const DX: usize = 0;
pub(super) const DW: usize = 1;
pub(super) const DGAMMA: usize = 2;
pub(super) const DBETA: usize = 3;
