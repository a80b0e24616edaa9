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
//! thin edges around the same flow: each turns its input (flags, URL query) into a [`plan::Spec`], hands [`measure::runner::run`] a
//! [`device::Profiler`], and draws the events. The page's profiler is in a program of its own (`lab/`), which takes orders and tells
//! plans and events; another one makes reports of runs. Without the feature `compute`, as the page has it, this crate holds no code that
//! computes results, and takes cases, variants and tunables as they are written: whoever plans checks them ([`plan::Spec::checked`]).
//!
//! # Folders
//!
//! Data flows from left to right and from top to bottom; a folder's code imports only from folders before it, and a test
//! keeps it so (`tests/tidy.rs`).
//!
//! ```text
//! units ─► suite ─► device ─► plan ─► record ─► measure        what is computed, on what, which cases, what will be known,
//!                                       │                       and how it is found out
//!                                       ├──► compare ─► report  what runs say of each other, and how people read it
//!                                       └──► trace              what Perfetto and torch.profiler's scripts read
//! testing                                                       stand-ins for devices and runs
//! ```
//!
//! | folder | holds | imports |
//! | --- | --- | --- |
//! | [`units`] | nanoseconds, bytes, operations, and how they are printed | nothing |
//! | [`suite`] | element types, shapes, inputs, buffers, programs, forms, workloads, cases | `units` |
//! | [`device`] | the contract of a backend: device, clock, samples, spans | `units`, `suite` |
//! | [`plan`] | what was asked for; which cases that means on a device, and every skip with its reason | `units`, `suite`, `device` |
//! | [`record`] | the serialised types: run, record, timing, check, ceilings; a run in a link; statistics and roofline as pure functions | those above |
//! | [`measure`] | the loop: clocks, ceilings, rounds, samples, checks | those above |
//! | [`compare`] | pairs, verdicts, the portability tax, what a target costs, a machine against itself | `units` to `record` |
//! | [`report`] | tables, advice, spreadsheet, HTML, a site | `units` to `record`, `compare` |
//! | [`trace`] | a run as a trace in Kineto's form | `units` to `record` |
//! | [`testing`] | a mock profiler, synthetic runs | anything |
//!
//! `record` stands before `measure` because whoever makes a thing must know its type; nothing in it knows how it was made.
//!
//! # Words
//!
//! - **workload**: an operation with a definition, one file in `core/src/suite/workloads/`; the file stem names it everywhere.
//! - **form**: one direction of a workload (`fwd`, `bwd`, `fwd+bwd`), whole in itself: shapes, buffers, cost, tolerance of
//!   each output, reference, variants, a set-up that runs once, what inputs must keep, hard inputs, what it says of NaN ([`suite::OpSpec`]).
//! - **shape**: named extents of one problem, in elements.
//! - **variant**: one way to compute it: a program, which is an ordered list of **stages**.
//! - **stage**: one piece of work, whole in itself: a kernel launch, a library call, a fill or a copy, with its constants,
//!   its arguments, its cost, and the label that it has in traces and profiles.
//! - **text**: a file of kernels, named as `matmul/tiled`; any workload's stages may name any text. What backends compile
//!   is a text with an element type and constants, and stages that agree in these share it ([`suite::KernelSources`]).
//! - **tensor map**: a buffer as a tensor from which an NVIDIA device's copy engine fetches boxes ([`suite::TensorMap`]).
//! - **dialect**: what a variant is written in: WGSL, CUDA, a vendor's library, or plain host code.
//! - **source**: whether a kernel's text is ours, or made of Rust by CubeCL's compilers for the dialect of whoever asks
//!   ([`suite::Source`], [`suite::Translator`]): the variants `cube`, which the crate `cube/` holds. What it is made of is a
//!   **recipe** ([`suite::Recipe`]): a page sends it to the compilers, which are a program of their own there.
//! - **target**: what runs it: `browser`, `wgpu`, `cuda`, `cpu`, and `wasm`: the code of `cpu`, compiled for the page.
//! - **reach**: how far into the hardware a browser let a page: `stock` as any visitor, `developer` with exact timestamps, `unsafe`
//!   with what it only tries out ([`device::BrowserMode`]). Figures of two reaches are never one figure.
//! - **case**: workload / direction / shape / dtype / variant, with one canonical string ([`suite::Case`]).
//! - **probe**: a case that is measured before the others to find a ceiling of the device.
//! - **turn**: one short and one long batch of a case; a **round** gives every case of a group one turn, in random order.
//! - **tunable**: a named integer that a variant leaves open ([`suite::Tunable`]); a **tuning** has values for a device
//!   ([`suite::Caps::tuning`]), from the file of the device's class ([`plan::tuning_for`]).
//! - **reference kernel**: pure arithmetic between rounds; its time tells how fast a device is whose clocks cannot be read.
//! - **items**: what an execution is done to, where a workload counts such: samples, images ([`suite::Axis::items()`]).
//! - **scaling**: an axis along which a workload's times are told as a table, the host against a device or one variant against
//!   another, and from where on the second side pays ([`suite::Scaling`]).
//! - **repeatable**: whether the last execution of a case left the bits of the first, or how far off ([`record::Repeatable`]).
//! - **record**: what is known after a case; skipped and failed cases are records too ([`record`]).
//! - **run**: device, environment and records: one JSON file, whose JSON Schema is generated from the types.
//!
//! # Measuring
//!
//! [`measure::runner`] tests the clocks ([`measure::timer`]), measures the ceilings ([`measure::ceilings`]), and then takes the cases in groups that
//! fit into memory together. Of a group every case is prepared and checked; the [`measure::reference_kernel`] keeps the
//! device busy until its clocks have risen; then come rounds until every case has samples enough
//! ([`measure::stopping_criterion`]); one that has is traced by the [`plan::schedule`], checked again, held against the
//! roofline ([`record::roofline`]) and recorded, while the others go on. A run that is gone on with counts the samples that it has.
//!
//! A turn ([`measure::sampler`]) has an untimed *lead-in*, which brings caches into the state that executions leave them in and
//! keeps the device busy while the host hands over the rest, and two batch sizes. Their difference is the *slope*: one more
//! execution, free of what a submission costs anyway; the intercept is that cost. On the device's own clock the figure is
//! the long batch over its executions; on a clock that also sees the fixed cost of submissions it is the slope.
//!
//! A sample does not count when the sensors or the reference kernel say that the device was slower than usual, when the page was
//! out of sight, or when the program stood still, which is charged to no budget; it is kept with the reason. When most samples of a case are like that they count, because that is then
//! the device's ordinary state.
//!
//! # Adding a workload
//!
//! Three new files (or folders) and no edit: `core/src/suite/workloads/NAME.rs` fills in a
//! [`suite::Workload`] with a form for each direction;
//! `shaders/kernels/NAME` and `cuda/kernels/NAME` hold its kernel texts, beside `lib`, which has what many share. Build
//! scripts list the folders; tests fail until the pieces agree: entry points, bindings, access, workgroup sizes and
//! memory are reflected from the texts and held against the stages.
//!
//! # Adding a target
//!
//! One crate that implements [`device::Profiler`], and one line in `native-cli/src/targets.rs`.
//!
//! # Invariants
//!
//! - This crate has no GPU API, no clock, no input or output, and prints nothing. It builds for wasm32.
//! - [`measure::sampler`] takes the only samples, for probes and cases alike. A backend takes one when asked and decides nothing.
//! - No figure without a verdict: outputs are poisoned, computed and compared with an f64 reference before the first
//!   sample and after the last. A case that fails has no time anywhere. Nor has one whose time the clock cannot resolve
//!   to 1 %, or that is more than a tenth below the floor of the roofline.
//! - Inputs are bit-identical on every platform ([`suite::Inputs`]).
//! - Fallbacks and skips carry a reason and are never silent ([`plan`]).
//! - Raw samples are kept; summaries are derived and can be recomputed ([`record::stats`]).
//! - Times are [`units::Nanos`]; prefixes are decimal.
//!
//! # What the numbers cannot tell you
//!
//! - In hot mode, inputs stay in place between executions: data that fits a cache is read from it. Cold mode goes around
//!   enough copies of all buffers to exceed the last cache twice.
//! - Browsers coarsen timestamps. The step is measured and samples are made at least a hundred steps long (within a
//!   submission of 100 ms), so a step costs at most 1 % of a sample, but it does cost that.
//! - Ceilings are what our own probes reach. A better probe would raise them, and lower every utilisation.
//! - On WebGPU, pinned host memory is a buffer that the host maps. Where that lies is the implementation's choice: one that
//!   puts it into memory of the device which the host writes across the bus has moved the bytes before any clock starts.
//!   The ceiling `link up` shows it, far above what a bus can do.
//! - Occupancy is computed from the launch (registers, shared memory, block, grid), not counted by the hardware.
//! - A run's interval says how well *this run* knows its median. Two runs differ by more: memory lies elsewhere, clocks
//!   settle elsewhere. `run --a-a` measures how much, and a comparison keeps a resolution below which it calls nothing.
//! - The trace of one execution puts each stage in a pass of its own; the figure comes from back-to-back executions.
//! - `cpu` and `wasm` are plain code, a point of reference; they are no statement about the processor. The ratio of both is one
//!   about the browser.

#![deny(unsafe_code)]

pub mod compare;
pub mod device;
pub mod measure;
pub mod plan;
pub mod record;
pub mod report;
pub mod suite;
pub mod testing;
pub mod trace;
pub mod units;
