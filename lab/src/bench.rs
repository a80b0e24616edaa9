//! Bench: both kernels on one device, compared and timed side by side.

use parallax_analysis::compare::verdict::Ratio;
use parallax_engine::measure::side_by_side::{Effort, side_by_side};
use parallax_engine::measure::timer;
use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_schema::case::DType;
use parallax_schema::device::DeviceKind;
use parallax_schema::record::Timing;
use parallax_schema::units::Nanos;
use parallax_shaders::{Binding, BindingKind, ForeignKernel, Wgpu, contents};
use serde::Serialize;

use crate::agreement::{Agreement, Tolerance};
use crate::error::{LabError, Label};
use crate::plan::Plan;
use crate::program::Program;
use crate::request::BindingPoint;

/// Phase of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Both kernels are compiled.
    Compile,
    /// Both kernels are executed once, and their outputs compared.
    Check,
    /// Both kernels are timed.
    Time,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the device.
    pub device: String,
    /// Interface to the device.
    pub api: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Entry points of A and of B.
    pub entries: [String; 2],
    /// Threads in one workgroup of A and of B.
    pub workgroups: [[u32; 3]; 2],
    /// Workgroups of A and of B.
    pub grids: [[u32; 3]; 2],
    /// Tolerance of the outputs.
    pub tolerance: Tolerance,
    /// Agreement of each output.
    pub outputs: Vec<Agreement>,
    /// Timings of A and of B.
    pub timings: Option<[Timing; 2]>,
    /// Time of B over that of A, with its verdict.
    pub ratio: Option<Ratio>,
    /// Reason for which there are no timings.
    pub no_time: Option<String>,
}

impl Report {
    /// Whether all outputs agree.
    pub fn agrees(&self) -> bool {
        self.outputs.iter().all(Agreement::holds)
    }
}

/// Compares the outputs of both kernels, and times them if they agree. The outputs are compared again after the timing.
///
/// # Errors
/// A limit of the device; a kernel that does not compile, end or stay in its buffers; a lost device.
pub async fn run(
    wgpu: &mut Wgpu,
    plan: &Plan,
    phase: &mut dyn FnMut(Phase),
    go_on: impl FnMut() -> bool,
) -> Result<Report, LabError> {
    for label in Label::BOTH {
        within_limits(wgpu, plan, label)?;
    }
    wgpu.limit_waits(Nanos::from_secs(plan.request.limit).duration());
    phase(Phase::Compile);
    let before = plan.contents()?;
    let mut a = prepared(wgpu, plan, &before, Label::A).await?;
    let mut b = prepared(wgpu, plan, &before, Label::B).await?;
    phase(Phase::Check);
    for label in Label::BOTH {
        loops_end(wgpu, plan, &before, label).await?;
    }
    let mut report = Report {
        device: wgpu.device().name.clone(),
        api: wgpu.device().api.clone(),
        kind: wgpu.device().kind,
        entries: plan.programs.each_ref().map(|program| program.entry.clone()),
        workgroups: plan.programs.each_ref().map(|program| program.workgroup),
        grids: plan.grids,
        tolerance: Tolerance::of(plan.request.tolerance),
        outputs: compared(plan, &before, &mut *a, &mut *b).await?,
        timings: None,
        ratio: None,
        no_time: None,
    };
    if !report.agrees() {
        report.no_time = Some("the outputs differ".to_owned());
        return Ok(report);
    }
    phase(Phase::Time);
    let (_, clock) = timer::test(wgpu, None).await?;
    let effort = Effort { budget: plan.request.time(), seed: plan.request.seed };
    let timings = side_by_side(&mut [&mut *a, &mut *b], &clock, effort, wgpu, go_on).await?;
    let after = compared(plan, &before, &mut *a, &mut *b).await?;
    if !after.iter().all(Agreement::holds) {
        report.outputs = after;
        report.no_time = Some("the outputs agree before the timing and differ after it".to_owned());
        return Ok(report);
    }
    let mut timings = timings.into_iter();
    match (timings.next(), timings.next()) {
        (Some(Ok(a)), Some(Ok(b))) => {
            let device = wgpu.device();
            report.ratio = Some(Ratio::side_by_side(&a, &b, 1, device.kind, wgpu.clock()));
            report.timings = Some([a, b]);
        }
        (Some(Err(why)), _) => report.no_time = Some(format!("A: {why}")),
        (_, Some(Err(why))) => report.no_time = Some(format!("B: {why}")),
        _ => report.no_time = Some("there are no samples".to_owned()),
    }
    Ok(report)
}

/// Checks a kernel against the limits of the device.
fn within_limits(wgpu: &Wgpu, plan: &Plan, label: Label) -> Result<(), LabError> {
    let program: &Program = &plan.programs[label as usize];
    let device = wgpu.device();
    let caps = &device.caps;
    if program.half && !caps.dtypes.contains(&DType::F16) {
        return Err(LabError::Feature { label, feature: "f16" });
    }
    let own = plan.of(label);
    let uniform = |index: &&usize| plan.bindings[**index].declared.kind == BindingKind::Uniform;
    let largest = |wanted: bool| {
        let of_kind = own.iter().filter(|index| uniform(index) == wanted);
        of_kind.map(|index| plan.bindings[*index].bytes).max().unwrap_or(0)
    };
    let limit = |name: &str| device.limits.get(name).copied().unwrap_or(u64::MAX);
    let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
    let longest = |sizes: [u32; 3]| u64::from(sizes.into_iter().max().unwrap_or(0));
    let few = ": set fewer workgroups, or fewer elements";
    let storage = own.iter().filter(|index| !uniform(index)).count() as u64;
    let points = || own.iter().map(|index| plan.bindings[*index].point());
    let groups = points().map(|point| u64::from(point.group) + 1).max().unwrap_or(0);
    let numbers = points().map(|point| u64::from(point.binding) + 1).max().unwrap_or(0);
    let quantities = [
        ("threads in a workgroup", product(program.workgroup), u64::from(caps.max_invocations), ""),
        ("bytes of workgroup memory", u64::from(program.shared_bytes), u64::from(caps.shared_bytes), ""),
        ("workgroups in one dimension", longest(plan.grids[label as usize]), longest(caps.max_grid), few),
        ("bytes in a storage buffer", largest(false), caps.max_binding.0, ": set fewer elements"),
        ("bytes in a uniform buffer", largest(true), limit("maxUniformBufferBindingSize"), ""),
        ("storage buffers", storage, u64::from(caps.max_storage_buffers.unwrap_or(u32::MAX)), ""),
        ("bind groups", groups, limit("maxBindGroups"), ""),
        ("bindings in a group, counted to the largest number", numbers, limit("maxBindingsPerBindGroup"), ""),
    ];
    let sizes = program.workgroup.into_iter().zip(caps.max_workgroup);
    let sizes = sizes.map(|(size, most)| ("threads in one dimension", u64::from(size), u64::from(most), ""));
    match quantities.into_iter().chain(sizes).find(|(_, value, limit, _)| value > limit) {
        Some((quantity, value, limit, remedy)) => Err(LabError::Limit { label, quantity, value, limit, remedy }),
        None => Ok(()),
    }
}

/// Compiles a kernel and fills its buffers.
async fn prepared(wgpu: &Wgpu, plan: &Plan, before: &[Vec<u8>], label: Label) -> Result<Box<dyn Prepared>, LabError> {
    let program = &plan.programs[label as usize];
    let kernel = kernel(plan, before, label, &program.wgsl);
    wgpu.foreign(&kernel).await.map_err(|error| of_kernel(label, error))
}

/// Returns a kernel with its buffers.
fn kernel<'a>(plan: &'a Plan, before: &'a [Vec<u8>], label: Label, wgsl: &'a str) -> ForeignKernel<'a> {
    let program = &plan.programs[label as usize];
    let bindings = program.bindings.iter().zip(plan.of(label)).map(|(own, index)| Binding {
        group: own.point.group,
        binding: own.point.binding,
        kind: own.kind,
        contents: &before[index],
    });
    ForeignKernel {
        name: label.name(),
        wgsl,
        entry: &program.entry,
        workgroup: program.workgroup,
        shared_bytes: program.shared_bytes,
        grid: plan.grids[label as usize],
        bindings: bindings.collect(),
        constants: &program.constants,
    }
}

/// Executes the variant of a kernel whose loops end.
///
/// # Errors
/// A loop beyond the limit of iterations.
async fn loops_end(wgpu: &Wgpu, plan: &Plan, before: &[Vec<u8>], label: Label) -> Result<(), LabError> {
    let Some(guarded) = &plan.programs[label as usize].guarded else { return Ok(()) };
    let mut kernel = kernel(plan, before, label, &guarded.wgsl);
    // The variant has their values in its text.
    kernel.constants = &[];
    let flag = kernel.bindings.len();
    let BindingPoint { group, binding } = guarded.flag;
    kernel.bindings.push(Binding { group, binding, kind: BindingKind::ReadWrite, contents: &[0; 4] });
    let mut prepared = match wgpu.foreign(&kernel).await {
        Ok(prepared) => prepared,
        // A compiler may reject the variant, and a device may have no further binding.
        Err(BackendError::Compile { .. } | BackendError::Device(_)) => return Ok(()),
        Err(error) => return Err(of_kernel(label, error)),
    };
    prepared.measure(Batch::new(1)).await.map_err(|error| of_kernel(label, error))?;
    match contents(&mut *prepared, flag, 4).await.map_err(|error| of_kernel(label, error))? {
        Some(word) if word == [0; 4] => Ok(()),
        _ => Err(LabError::Endless { label, iterations: plan.request.iterations }),
    }
}

/// Returns the error of a kernel. A message of the compiler names the kernel by itself.
fn of_kernel(label: Label, error: BackendError) -> LabError {
    match error {
        BackendError::Compile { log, .. } => LabError::Rejected { label, line: None, message: log },
        error => LabError::Kernel { label, error },
    }
}

/// Executes both kernels once, and compares their outputs.
async fn compared(
    plan: &Plan,
    before: &[Vec<u8>],
    a: &mut dyn Prepared,
    b: &mut dyn Prepared,
) -> Result<Vec<Agreement>, LabError> {
    let (a, b) = (outputs(plan, Label::A, a).await?, outputs(plan, Label::B, b).await?);
    let tolerance = Tolerance::of(plan.request.tolerance);
    let written = plan.bindings.iter().zip(before).filter(|(binding, _)| binding.is_output());
    let found = written.zip(a.iter().zip(&b)).map(|((binding, before), (a, b))| {
        let name = (binding.point(), &*binding.declared.name);
        Agreement::of(name, binding.layout(), [before, a, b], tolerance)
    });
    Ok(found.collect())
}

/// Executes a kernel once on the contents before, and returns its outputs.
async fn outputs(plan: &Plan, label: Label, prepared: &mut dyn Prepared) -> Result<Vec<Vec<u8>>, LabError> {
    prepared.measure(Batch::new(1)).await.map_err(|error| of_kernel(label, error))?;
    let mut found = Vec::new();
    for (position, index) in plan.of(label).into_iter().enumerate() {
        let binding = &plan.bindings[index];
        let read = contents(prepared, position, binding.bytes).await.map_err(|error| of_kernel(label, error))?;
        let whole = read.ok_or(LabError::Guard { label, point: binding.point() })?;
        if binding.is_output() {
            found.push(whole);
        }
    }
    Ok(found)
}
