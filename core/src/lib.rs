//! Parallax: one suite of GPU kernels for the browser's WebGPU and for native CUDA.
//!
//! This page describes the architecture. The suite answers one question: *on one GPU, how much time does the browser cost,
//! and in which part?*
//!
//! # Flow
//!
//! ```text
//! Spec ─► Plan ─► Profiler (per case) ─► samples ─► Summary ─► Record ─► report · comparison · Chrome trace · page
//! request cases,   prepare, measure,      plain      pure      the one
//!         skips    read back              numbers    function  serialised type
//! ```
//!
//! A step reads nothing from the steps to its right. The command line (`native-cli/`) and the page (`web/`) are thin edges
//! around the same flow. Each converts its input (flags, URL query) to a [`plan::Spec`], passes a [`device::Profiler`] to
//! [`measure::runner::run`], and draws the events.
//!
//! The page's profiler is a separate program (`lab/`): it receives requests and sends plans and events. Another program makes
//! reports of runs. The page builds this crate without the feature `compute`, that is without the code that computes results.
//! Such a build accepts cases, variants and tunables unchecked; the planning program checks them ([`plan::Spec::checked`]).
//!
//! # Folders
//!
//! Data flows from left to right and from top to bottom. The code of a folder imports only from folders before it; a test
//! enforces this (`tests/tidy.rs`).
//!
//! ```text
//! units ─► suite ─► device ─► plan ─► record ─► measure        computation, device, selection of cases, records,
//!                                       │                       and measurement
//!                                       ├──► compare ─► report  comparison of runs, and output for readers
//!                                       └──► trace              input of Perfetto and torch.profiler's scripts
//! testing                                                       stand-ins for devices and runs
//! ```
//!
//! | folder | holds | imports |
//! | --- | --- | --- |
//! | [`units`] | nanoseconds, bytes, operations, and their formatting | nothing |
//! | [`suite`] | element types, shapes, inputs, buffers, programs, operation specifications, workloads, cases | `units` |
//! | [`device`] | the contract of a backend: device, clock, samples, spans | `units`, `suite` |
//! | [`plan`] | the request; its cases on a device, and every skip with its reason | `units`, `suite`, `device` |
//! | [`record`] | the serialised types: run, record, timing, check, ceilings; a run in a link; statistics and roofline as pure functions | those above |
//! | [`measure`] | the loop: clocks, ceilings, rounds, samples, checks | those above |
//! | [`compare`] | pairs, verdicts, the portability tax, the cost of a target, a machine against itself | `units` to `record` |
//! | [`report`] | tables, advice, spreadsheet, HTML, a site | `units` to `record`, `compare` |
//! | [`trace`] | a run as a trace in Kineto's form | `units` to `record` |
//! | [`testing`] | a mock profiler, synthetic runs | anything |
//!
//! `record` stands before `measure` because the code that makes a record must know its type. Nothing in `record` depends on
//! the way in which a record was made.
//!
//! # Words
//!
//! - **workload**: an operation with a definition, one file in `core/src/suite/workloads/`; the file stem is its name everywhere.
//! - **operation specification** (`forms` of a workload): one self-contained direction of it (`fwd`, `bwd`, `fwd+bwd`). It has
//!   shapes, buffers, cost, tolerance of each output, reference and variants. It also has a set-up that runs once, preconditions
//!   of the inputs, stress inputs, and its rule for NaN ([`suite::OpSpec`]).
//! - **shape**: named extents of one problem, in elements.
//! - **variant**: one way to compute a problem: a program, that is an ordered list of **stages**.
//! - **stage**: one self-contained part of a program: a kernel launch, a library call, a fill or a copy. It has its constants,
//!   its arguments, its cost, and its label in traces and profiles.
//! - **kernel source**: a file of kernels, named as `matmul/tiled`. Stages of any workload may name any kernel source. A backend
//!   compiles a kernel source with an element type and constants; stages that agree in these share it ([`suite::KernelSources`]).
//! - **tensor map**: a buffer as a tensor from which an NVIDIA device's copy engine fetches boxes ([`suite::TensorMap`]).
//! - **dialect**: the language of a variant: WGSL, CUDA, a vendor's library, or plain host code.
//! - **authoring** ([`suite::Source`]): a kernel source is written by hand, or translated from Rust by CubeCL's compilers to the
//!   requested dialect ([`suite::Translator`]). The crate `cube/` holds the translated variants, `cube`. The input of a
//!   translation is a **recipe** ([`suite::Recipe`]). A page sends it to the compilers, a separate program there.
//! - **target**: a way to hardware: `browser`, `wgpu`, `cuda`, `cpu`, and `wasm`: the code of `cpu`, compiled for the page.
//! - **browser mode** (`reach` in files): the privilege level of a page ([`device::BrowserMode`]). `stock` is any visitor's level,
//!   `developer` has exact timestamps, and `unsafe` has the browser's experimental features. Results of two modes are never merged.
//! - **case**: workload / direction / shape / dtype / variant, with one canonical string ([`suite::Case`]).
//! - **probe**: a case that is measured before the others to find a ceiling of the device.
//! - **measurement** (`turn` in [`measure::sampler`]): one short and one long batch of a case. A **round** measures every
//!   case of a group once, in random order.
//! - **tunable**: a named integer that a variant leaves open ([`suite::Tunable`]). A **tuning** has values for a device
//!   ([`suite::Caps::tuning`]), from the file of the device's class ([`plan::tuning_for`]).
//! - **reference kernel**: pure arithmetic between rounds. Its time shows the speed of a device with unreadable clocks.
//! - **items**: the units that an execution processes, in workloads that count them: samples, images ([`suite::Axis::items()`]).
//! - **scaling**: an axis along which a table shows a workload's times, for the host and a device or for two variants. It also
//!   shows the extent from which the second side is faster ([`suite::Scaling`]).
//! - **repeatable**: whether the last execution of a case has the bits of the first, or the difference ([`record::Repeatable`]).
//! - **record**: the result of a case; skipped and failed cases have records too ([`record`]).
//! - **run**: device, environment and records: one JSON file. Its JSON Schema is generated from the types.
//!
//! # Measuring
//!
//! [`measure::runner`] tests the clocks ([`measure::timer`]) and measures the ceilings ([`measure::ceilings`]). It then takes
//! the cases in groups that fit into memory together. The steps of a group are:
//!
//! 1. Every case is prepared and checked.
//! 2. The [`measure::reference_kernel`] keeps the device busy until its clocks have risen.
//! 3. Rounds follow until every case has enough samples ([`measure::stopping_criterion`]).
//! 4. A finished case is traced by the [`plan::schedule`], checked again, compared with the roofline ([`record::roofline`]) and
//!    recorded, while the others continue.
//!
//! A resumed run counts the samples that it has.
//!
//! Each measurement ([`measure::sampler`]) has an untimed *lead-in* and two batch sizes. The lead-in brings the caches into
//! their state between executions, and keeps the device busy while the host submits the rest.
//!
//! The difference of the two batches is the *slope*: the time of one more execution without the fixed cost of a submission. The
//! intercept is that fixed cost. On the device's own clock, the sample is the time of the long batch over its executions. On a
//! clock that includes the fixed cost of submissions, the sample is the slope.
//!
//! A sample is discarded in three cases:
//!
//! - The sensors or the reference kernel show a device slower than usual.
//! - The page was out of sight.
//! - The program stood still. That time is charged to no budget.
//!
//! A discarded sample is kept with its reason. If most samples of a case are of that kind, they count: the state is then the
//! device's ordinary one.
//!
//! # Adding a workload
//!
//! A workload is three new files (or folders) and no edit. `core/src/suite/workloads/NAME.rs` defines a
//! [`suite::Workload`] with an operation specification for each direction. `shaders/kernels/NAME` and `cuda/kernels/NAME` hold
//! its kernel sources; `lib` beside them has the shared parts. Build scripts list the folders.
//!
//! Tests fail until the parts agree. They reflect entry points, bindings, access, workgroup sizes and memory from the kernel
//! sources, and compare them with the stages.
//!
//! # Adding a target
//!
//! One crate that implements [`device::Profiler`], and one line in `native-cli/src/targets.rs`.
//!
//! # Invariants
//!
//! - This crate has no GPU API, no clock, no input or output, and prints nothing. It builds for wasm32.
//! - [`measure::sampler`] takes all samples, for probes and cases alike. A backend takes one on request and decides nothing.
//! - No figure without a verdict: outputs are poisoned, computed and compared with an f64 reference. This happens before the
//!   first sample and after the last. A failed case has no time anywhere. A time that the clock cannot resolve to 1 % is not
//!   reported, nor one more than a tenth below the floor of the roofline.
//! - Inputs are bit-identical on every platform ([`suite::Inputs`]).
//! - Fallbacks and skips carry a reason and are never silent ([`plan`]).
//! - Raw samples are kept; summaries are derived and can be recomputed ([`record::stats`]).
//! - Times are [`units::Nanos`]; prefixes are decimal.
//!
//! # Limits of the numbers
//!
//! - In hot mode, inputs stay in place between executions: data that fits a cache is read from it. Cold mode rotates through
//!   enough copies of all buffers to exceed the last cache twice.
//! - Browsers coarsen timestamps. The step is measured, and samples are at least a hundred steps long, within a submission of
//!   100 ms. A step therefore costs at most 1 % of a sample, and it does cost that.
//! - Ceilings are the best rates of our own probes. A better probe would raise them, and lower every utilisation.
//! - On WebGPU, pinned host memory is a buffer that the host maps. The implementation chooses its location. If that is device
//!   memory written across the bus, the bytes have moved before any clock starts. The ceiling `link up` then lies far above
//!   the rate of a bus.
//! - Occupancy is computed from the launch (registers, shared memory, block, grid), not counted by the hardware.
//! - A run's interval shows the uncertainty of *this run's* median. Two runs differ by more: memory lies elsewhere, clocks
//!   settle elsewhere. `run --a-a` measures that difference. A comparison has a resolution, below which it reports no change.
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
