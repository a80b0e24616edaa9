//! Functions that compute results on the processor: references, and the code that the targets `cpu` and `wasm` measure.

use super::{HostBuffer, Inputs, Problem};

/// Host implementation: inputs in buffer order, outputs in buffer order, 16-bit floats widened. An element of an output of whole
/// numbers is the float with its bits.
pub type HostCode = fn(&Problem, &[HostBuffer], &mut [Vec<f32>]);

/// Function that computes rows of a reference for given inputs.
pub type ReferenceCode = for<'a> fn(&'a Problem, &'a Inputs) -> Rows<'a>;

/// Computes one row of one output: `(output, row, out)`.
///
/// `output` counts the checked buffers, in buffer order. `row` counts slices of `row_len` elements of it. The closure owns state
/// that rows share (an index of the inputs, the statistics of a head). A row may create the state when it first needs it, but on
/// its own thread alone. Rows are computed in parallel: a thread that waits for parallel parts of the state takes up another row
/// in the meantime. That row waits for the same state, which is a deadlock. State made in parallel must be ready before the first
/// row.
pub type Rows<'a> = Box<dyn Fn(usize, u64, &mut [f64]) + Send + Sync + 'a>;
