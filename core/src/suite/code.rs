//! Code that computes results on the processor: references, and what the targets `cpu` and `wasm` measure.
//!
//! A program that reads and shows but measures nothing, such as the page's own, is built without the feature `compute`, and has none of
//! it: what nobody points to, no linker keeps.

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

/// A host implementation: inputs in buffer order, outputs in buffer order, 16-bit floats widened.
#[derive(Clone, Copy)]
pub struct HostFn(Code<OnHost>);

type OnHost = fn(&Problem, &[HostBuffer], &mut [Vec<f32>]);

impl HostFn {
    /// This one.
    pub fn of(code: OnHost) -> HostFn {
        HostFn(Code::of(code))
    }

    /// Compute.
    pub fn run(self, problem: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
        (self.0.get())(problem, inputs, outputs);
    }
}

/// What computes rows of a reference.
#[derive(Clone, Copy)]
pub struct RowsFn(Code<OfRows>);

type OfRows = for<'a> fn(&'a Problem, &'a Inputs) -> Rows<'a>;

impl RowsFn {
    /// This one.
    pub fn of(code: OfRows) -> RowsFn {
        RowsFn(Code::of(code))
    }

    /// Rows of the reference of these inputs.
    pub fn of_inputs<'a>(self, problem: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
        (self.0.get())(problem, inputs)
    }
}

/// Computes one row of one output: `(output, row, out)`.
///
/// `output` counts the buffers that are checked, in buffer order; `row` counts slices of `row_len` elements of it. It
/// owns what rows share (an index of the inputs, the statistics of a head). That may be made when a row first needs it, but then by
/// that row's thread alone: rows are computed in parallel, and a thread that waits for parts of what all rows wait for takes up
/// another row in the meantime, which waits for ever. What is made in parallel is made before the first row.
pub type Rows<'a> = Box<dyn Fn(usize, u64, &mut [f64]) + Send + Sync + 'a>;
