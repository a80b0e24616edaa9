//! Code that computes results on the processor: references, and the code that the targets `cpu` and `wasm` measure.
//!
//! A program that reads and shows without measuring, such as the page's own, is built without the feature `compute`. It contains
//! none of this code, because the linker drops unreferenced functions.

use super::{HostBuffer, Inputs, Problem};

#[derive(Clone, Copy)]
struct Code<F>(Option<F>);

impl<F> Code<F> {
    fn new(code: F) -> Code<F> {
        Code(cfg!(feature = "compute").then_some(code))
    }

    fn get(self) -> F {
        self.0.expect("a program that computes has the feature `compute`")
    }
}

/// Host implementation: inputs in buffer order, outputs in buffer order, 16-bit floats widened.
#[derive(Clone, Copy)]
pub struct HostFn(Code<HostCode>);

/// Function of a host implementation.
pub type HostCode = fn(&Problem, &[HostBuffer], &mut [Vec<f32>]);

impl HostFn {
    /// Returns a host implementation by this function.
    pub fn new(code: HostCode) -> HostFn {
        HostFn(Code::new(code))
    }

    /// Computes the outputs.
    pub fn run(self, problem: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
        (self.0.get())(problem, inputs, outputs);
    }
}

/// Function that computes rows of a reference.
#[derive(Clone, Copy)]
pub struct RowsFn(Code<ReferenceCode>);

/// Function that computes rows of a reference for given inputs.
pub type ReferenceCode = for<'a> fn(&'a Problem, &'a Inputs) -> Rows<'a>;

impl RowsFn {
    /// Returns the rows by this function.
    pub fn new(code: ReferenceCode) -> RowsFn {
        RowsFn(Code::new(code))
    }

    /// Returns the rows of the reference for these inputs.
    pub fn rows<'a>(self, problem: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
        (self.0.get())(problem, inputs)
    }
}

/// Computes one row of one output: `(output, row, out)`.
///
/// `output` counts the checked buffers, in buffer order. `row` counts slices of `row_len` elements of it. The closure owns state
/// that rows share (an index of the inputs, the statistics of a head). A row may create the state when it first needs it, but on
/// its own thread alone. Rows are computed in parallel: a thread that waits for parallel parts of the state takes up another row
/// in the meantime. That row waits for the same state, which is a deadlock. State made in parallel must be ready before the first
/// row.
pub type Rows<'a> = Box<dyn Fn(usize, u64, &mut [f64]) + Send + Sync + 'a>;
