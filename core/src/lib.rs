//! Parallax: one suite of GPU kernels, seen from the browser's WebGPU and from native CUDA.
//!
//! This page is the architecture. The question that the suite answers: *on this very GPU, what does the browser cost me,
//! and where does it go?*
//!
//! # Flow
//!
//! ```text
//! Spec ─► Plan ─► Profiler (per case) ─► samples ─► Summary ─► Record ─► report · comparison · Chrome trace · page
//! asked   cases,   prepare, measure,      plain      pure      the one
//! for     skips    read back              numbers    function  serialised type
//! ```
//!
//! Nothing on the right is read by something on its left. The command line (`native-cli/`) and the page (`web/`) are two
//! thin edges around the same flow: each turns its input (flags, URL query) into a [`spec::Spec`], hands [`runner::run`] a
//! [`profiler::Profiler`], and draws the events.
//!
//! # Words
//!
//! - **workload**: an operation with a definition, one file in `core/src/workloads/`; the file stem names it everywhere.
//! - **shape**: named extents of one problem, in elements.
//! - **variant**: one way to compute it: an ordered list of **stages**, one kernel launch each.
//! - **dialect**: what a variant is written in: WGSL, CUDA, a vendor's library, or plain host code.
//! - **target**: what runs it: `browser`, `wgpu`, `cuda`, `cpu`.
//! - **case**: workload / direction / shape / dtype / variant, with one canonical string ([`case`]).
//! - **record**: what is known after a case; skipped and failed cases are records too ([`record`]).
//! - **run**: device, environment and records: one JSON file, whose JSON Schema is generated from the types.
//!
//! # Adding a workload
//!
//! Three new files (or folders) and no edit: `core/src/workloads/NAME.rs` fills in the form [`workload::Workload`];
//! `shaders/kernels/NAME.wgsl` and `cuda/kernels/NAME.cu` hold the kernels (as folders: one text per variant and, for
//! what they share, `common`). Build scripts list the folders; tests fail until the pieces agree: entry points, bindings,
//! access, workgroup sizes and memory are reflected from the texts and held against the form.
//!
//! # Adding a target
//!
//! One crate that implements [`profiler::Profiler`], and one line in `native-cli/src/targets.rs`.
//!
//! # Invariants
//!
//! - This crate has no GPU API, no clock, no input or output, and prints nothing. It builds for wasm32.
//! - [`runner`] is the only measuring loop. A backend takes one sample when asked and decides nothing.
//! - No figure without a verdict: outputs are poisoned, computed and compared with an f64 reference before the first
//!   sample and after the last. A case that fails has no time anywhere.
//! - Inputs are bit-identical on every platform ([`input`]).
//! - Fallbacks and skips carry a reason and are never silent ([`plan`]).
//! - Raw samples are kept; summaries are derived and can be recomputed ([`stats`]).
//! - Times are [`units::Nanos`]; prefixes are decimal.
//!
//! # What the numbers cannot tell you
//!
//! - Inputs stay in place between executions: data that fits a cache is read from it.
//! - Browsers coarsen timestamps. The step is measured and samples are made at least a hundred steps long (within a
//!   submission of 100 ms), so a step costs at most 1 % of a sample, but it does cost that.
//! - The trace of one execution puts each stage in a pass of its own; the figure comes from back-to-back executions.
//! - `cpu` is plain code, a point of reference; it is no statement about the processor.

pub mod case;
pub mod check;
pub mod clock;
pub mod compare;
pub mod input;
pub mod mock;
pub mod plan;
pub mod profiler;
pub mod record;
pub mod report;
pub mod runner;
pub mod spec;
pub mod stats;
pub mod stop;
pub mod trace;
pub mod units;
pub mod workload;
