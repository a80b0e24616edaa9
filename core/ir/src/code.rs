//! Code that computes results on the processor: references, and the code that the targets `cpu` and `wasm` measure.
//!
//! A program that reads and shows without measuring, such as the page's own, is built without the feature `compute`. It contains
//! none of this code, because the linker drops unreferenced functions.

use super::{HostBuffer, Inputs, Problem};

#[derive(Clone, Copy)]
struct Code<F>(Option<F>);

impl<F> Code<F> {
    fn of(code: F) -> Code<F> {
        Code(cfg!(feature = "compute").then_some(code))
    }

    fn get(self) -> F {
        self.0.expect("a program that computes has the feature `compute`")
    }
}

/// Host implementation: inputs in buffer order, outputs in buffer order, 16-bit floats widened.
#[derive(Clone, Copy)]
pub struct HostFn(Code<OnHost>);

type OnHost = fn(&Problem, &[HostBuffer], &mut [Vec<f32>]);

impl HostFn {
    /// Returns a host implementation by this function.
    pub fn of(code: OnHost) -> HostFn {
        HostFn(Code::of(code))
    }

    /// Computes the outputs.
    pub fn run(self, problem: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
        (self.0.get())(problem, inputs, outputs);
    }
}

/// Function that computes rows of a reference.
#[derive(Clone, Copy)]
pub struct RowsFn(Code<OfRows>);

type OfRows = for<'a> fn(&'a Problem, &'a Inputs) -> Rows<'a>;

impl RowsFn {
    /// Returns a reference by this function.
    pub fn of(code: OfRows) -> RowsFn {
        RowsFn(Code::of(code))
    }

    /// Returns the rows of the reference for these inputs.
    pub fn of_inputs<'a>(self, problem: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
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
