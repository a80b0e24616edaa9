//! Stages of a variant, as data: an ordered list of self-contained units of work.

use std::borrow::Cow;

use parallax_schema::case::{Cost, DType};
use parallax_schema::units::Bytes;
use serde::{Deserialize, Serialize};

use super::{Access, Authoring, BufferSpec, Collective, Library, TensorMap};

/// Work of a variant for one problem on one device. It is plain data, so that a plan can be printed and tested.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Stages, in the order of a target with one queue.
    pub stages: Vec<Stage>,
}

impl Program {
    /// Returns whether a stage accesses this buffer.
    pub fn uses(&self, buffer: &str) -> bool {
        self.stages.iter().flat_map(|stage| &stage.args).any(|arg| arg.buffer == buffer)
    }

    /// Returns the positions of the buffers that its first `count` stages access.
    pub fn used_by_first(&self, count: usize, specs: &[BufferSpec]) -> Vec<usize> {
        let used = |spec: &BufferSpec| {
            self.stages[..count].iter().flat_map(|stage| &stage.args).any(|arg| arg.buffer == spec.name)
        };
        (0..specs.len()).filter(|index| used(&specs[*index])).collect()
    }

    /// Device memory for calls into the vendor's library, beside the buffers. The calls run one after the other, so the largest
    /// counts.
    pub fn workspace(&self) -> Bytes {
        let most = |stage: &Stage| match stage.work {
            StageOp::Library(library) => library.most_workspace(),
            _ => Bytes(0),
        };
        self.stages.iter().map(most).max().unwrap_or(Bytes(0))
    }

    /// Kernels among the stages.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.stages.iter().filter_map(|stage| stage.kernel_launch())
    }

    /// Returns the distinct results of `make` over all kernels, and the position of each stage's result among them. A backend
    /// compiles a kernel source that several stages share once.
    ///
    /// # Errors
    /// First error of `make`.
    pub fn distinct<T: PartialEq, E>(
        &self,
        mut make: impl FnMut(&Kernel) -> Result<T, E>,
    ) -> Result<(Vec<T>, Vec<Option<usize>>), E> {
        let mut found = Vec::new();
        let mut place = |stage: &Stage| {
            let Some(kernel) = stage.kernel_launch() else { return Ok(None) };
            let made = make(kernel)?;
            let known = found.iter().position(|other| *other == made);
            Ok(Some(known.unwrap_or_else(|| {
                found.push(made);
                found.len() - 1
            })))
        };
        let places = self.stages.iter().map(&mut place).collect::<Result<_, E>>()?;
        Ok((found, places))
    }
}

impl From<Stage> for Program {
    fn from(stage: Stage) -> Program {
        Program { stages: vec![stage] }
    }
}

/// Self-contained unit of work: it names its kernel, its constants and its buffers.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Name in traces and profiles: four GEMMs are four lines.
    pub label: Cow<'static, str>,
    /// Component of a larger whole, where profiles sum by component.
    pub component: Option<&'static str>,
    /// Operation.
    pub work: StageOp,
    /// Arguments. The order is the binding number in WGSL and the parameter's place in CUDA.
    pub args: Vec<Arg>,
    /// Operations and least bytes of this stage alone.
    pub cost: Cost,
    /// Queue (CUDA: stream).
    pub queue: u32,
    /// Earlier stages on other queues that it waits for.
    pub after: Vec<usize>,
}

/// Argument of a stage: a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// Parameter name in the kernel source.
    pub parameter: &'static str,
    /// Buffer of the workload.
    pub buffer: &'static str,
    /// Access to the buffer.
    pub access: Access,
    /// Tensor map that the kernel gets instead of the address. Only CUDA devices with tensor maps support it.
    pub map: Option<TensorMap>,
}

impl Arg {
    /// Passes the buffer as a tensor: in CUDA a parameter `const __grid_constant__ CUtensorMap`.
    pub fn mapped(self, map: TensorMap) -> Arg {
        Arg { map: Some(map), ..self }
    }
}

/// Argument whose parameter has the buffer's name.
impl From<(&'static str, Access)> for Arg {
    fn from((buffer, access): (&'static str, Access)) -> Arg {
        Arg { parameter: buffer, buffer, access, map: None }
    }
}

/// Argument from parameter, buffer and access.
impl From<(&'static str, &'static str, Access)> for Arg {
    fn from((parameter, buffer, access): (&'static str, &'static str, Access)) -> Arg {
        Arg { parameter, buffer, access, map: None }
    }
}

/// Operation of a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageOp {
    /// Launches a kernel of this project.
    Kernel(Kernel),
    /// Calls the vendor's library on the arguments, in order.
    Library(Library),
    /// Fills its one argument with a repeated 32-bit word.
    Fill(u32),
    /// Fills a part of its one argument with a repeated word.
    FillRange(FillRange),
    /// Copies its first argument to its second, of the same length.
    Copy,
    /// Copies a part of its first argument to a part of its second. One of the two lies in host memory.
    CopyRange(CopyRange),
    /// Copies its first argument to its second, of the same length, through temporary device memory. The memory is allocated and
    /// freed for each copy, in the order of the queue.
    CopyThrough,
    /// Exchanges data between the devices of a group. Its arguments are pairs: it sends the first of each and receives the second,
    /// which may be the same buffer. All pairs are one submission.
    Collective(Collective),
}

/// Kernel launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Authoring of the kernel.
    pub authoring: Authoring,
    /// Kernel source, as in `matmul/tiled`. Any workload may use any source.
    pub text: &'static str,
    /// Entry point, in every dialect.
    pub entry: &'static str,
    /// Element type of the kernel source, if it is not the case's.
    pub elem: Option<DType>,
    /// Named constants of the kernel source.
    pub consts: Consts,
    /// Threads in one workgroup (CUDA: block).
    pub workgroup: [u32; 3],
    /// Workgroups (CUDA: blocks) to launch.
    pub grid: [u32; 3],
    /// Workgroup memory that the kernel source declares (CUDA: static shared memory), in bytes.
    pub shared_bytes: u32,
    /// Launch settings of CUDA.
    pub cuda: CudaLaunch,
}

/// Constants by name.
pub type Consts = Vec<(&'static str, Value)>;

/// Part of a name.
pub type Word = &'static str;

/// Typed constant of a kernel source: `const` in WGSL; `constexpr`, or a macro if it is Boolean, in CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// `u32` (CUDA: `unsigned`).
    U32(u32),
    /// `f32` (CUDA: `float`), finite.
    F32(f32),
    /// `bool`.
    Bool(bool),
    /// Part of a name, where the source has the constant in braces; no constant of the language.
    #[serde(skip)]
    Word(Word),
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::U32(value)
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Value {
        Value::F32(value)
    }
}

impl From<&'static str> for Value {
    fn from(value: &'static str) -> Value {
        Value::Word(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

/// Launch settings that exist only in CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaLaunch {
    /// Blocks in one cluster; one means no cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory, in bytes; the kernel source declares it as `extern __shared__`.
    pub dynamic_shared_bytes: u32,
}

impl Default for CudaLaunch {
    fn default() -> CudaLaunch {
        CudaLaunch { cluster: [1; 3], dynamic_shared_bytes: 0 }
    }
}

/// Parts of two buffers in a copy. All values are multiples of four, the only ones that WebGPU copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// Offset in the buffer that is read.
    pub from: Bytes,
    /// Offset in the buffer that is written.
    pub to: Bytes,
    /// Length.
    pub bytes: Bytes,
}

/// Repeated 32-bit word in a part of a buffer. The part has whole vectors of 16 bytes, unless it reaches the buffer's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillRange {
    /// Word.
    pub word: u32,
    /// Offset of the part.
    pub from: Bytes,
    /// Length of the part.
    pub bytes: Bytes,
}

impl Stage {
    fn new(label: impl Into<Cow<'static, str>>, work: StageOp) -> Stage {
        let (args, cost, after) = (Vec::new(), Cost::default(), Vec::new());
        Stage { label: label.into(), component: None, work, args, cost, queue: 0, after }
    }

    /// Returns a launch of an entry point of a kernel source, with one thread by default.
    pub fn kernel(label: impl Into<Cow<'static, str>>, text: &'static str, entry: &'static str) -> Stage {
        let (consts, cuda) = (Vec::new(), CudaLaunch::default());
        let (authoring, workgroup, grid) = (Authoring::Handwritten, [1; 3], [1; 3]);
        let kernel = Kernel { authoring, text, entry, elem: None, consts, workgroup, grid, shared_bytes: 0, cuda };
        Stage::new(label, StageOp::Kernel(kernel))
    }

    /// Returns a call into the vendor's library.
    pub fn library(label: impl Into<Cow<'static, str>>, library: Library) -> Stage {
        Stage::new(label, StageOp::Library(library))
    }

    /// Returns a stage that fills a buffer with a 32-bit word.
    pub fn fill(label: impl Into<Cow<'static, str>>, buffer: &'static str, word: u32) -> Stage {
        Stage::new(label, StageOp::Fill(word)).args([(buffer, Access::Write)])
    }

    /// Returns a stage that fills a part of a buffer with a word.
    pub fn fill_range(label: impl Into<Cow<'static, str>>, buffer: &'static str, part: FillRange) -> Stage {
        Stage::new(label, StageOp::FillRange(part)).args([(buffer, Access::Write)])
    }

    /// Returns a copy of one buffer to another of the same length.
    pub fn copy(label: impl Into<Cow<'static, str>>, from: &'static str, to: &'static str) -> Stage {
        Stage::new(label, StageOp::Copy).args([(from, Access::Read), (to, Access::Write)])
    }

    /// Returns a copy of a part of one buffer to a part of another, between host and device.
    pub fn copy_range(label: impl Into<Cow<'static, str>>, [from, to]: [&'static str; 2], part: CopyRange) -> Stage {
        Stage::new(label, StageOp::CopyRange(part)).args([(from, Access::Read), (to, Access::Write)])
    }

    /// Returns a copy of one buffer to another of the same length, through memory that is allocated each time.
    pub fn copy_through(label: impl Into<Cow<'static, str>>, from: &'static str, to: &'static str) -> Stage {
        Stage { work: StageOp::CopyThrough, ..Stage::copy(label, from, to) }
    }

    /// Returns an exchange between devices.
    pub fn collective(label: impl Into<Cow<'static, str>>, collective: Collective) -> Stage {
        Stage::new(label, StageOp::Collective(collective))
    }

    /// Returns the kernel that it launches, if any.
    pub fn kernel_launch(&self) -> Option<&Kernel> {
        match &self.work {
            StageOp::Kernel(kernel) => Some(kernel),
            _ => None,
        }
    }

    /// Returns the entry point, or the name of the operation if it has none.
    pub fn entry(&self) -> &'static str {
        match self.work {
            StageOp::Kernel(Kernel { entry, .. }) => entry,
            StageOp::Library(library) => library.name(),
            StageOp::Fill(_) | StageOp::FillRange(_) => "fill",
            StageOp::Copy | StageOp::CopyRange(_) | StageOp::CopyThrough => "copy",
            StageOp::Collective(collective) => collective.name(),
        }
    }

    /// Sets the arguments, in order: (buffer, access), or (parameter, buffer, access) if the names differ.
    pub fn args<A: Into<Arg>>(self, args: impl IntoIterator<Item = A>) -> Stage {
        Stage { args: args.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the name.
    pub fn label(self, label: impl Into<Cow<'static, str>>) -> Stage {
        Stage { label: label.into(), ..self }
    }

    /// Sets a name made from the present one.
    pub fn renamed(self, name: impl FnOnce(&str) -> String) -> Stage {
        let label = name(&self.label);
        self.label(label)
    }

    /// Sets the component.
    pub fn component(self, component: &'static str) -> Stage {
        Stage { component: Some(component), ..self }
    }

    /// Replaces buffers: each pair is a name and its replacement.
    pub fn on_buffers(mut self, names: &[(&'static str, &'static str)]) -> Stage {
        for arg in &mut self.args {
            arg.buffer = names.iter().find(|(name, _)| *name == arg.buffer).map_or(arg.buffer, |(_, other)| other);
        }
        self
    }

    /// Sets its operations and least bytes.
    pub fn cost(self, cost: Cost) -> Stage {
        Stage { cost, ..self }
    }

    /// Sets its queue, and earlier stages of other queues that it waits for.
    pub fn queue(self, queue: u32, after: &[usize]) -> Stage {
        Stage { queue, after: after.to_vec(), ..self }
    }

    /// Adds constants.
    ///
    /// # Panics
    /// A stage that launches no kernel: a mistake in the workload. The methods below panic likewise.
    pub fn consts<V: Copy + Into<Value>>(self, consts: &[(&'static str, V)]) -> Stage {
        self.change(|kernel| kernel.consts.extend(consts.iter().map(|(name, value)| (*name, (*value).into()))))
    }

    /// Sets the element type of the kernel source, if it is not the case's.
    pub fn elem(self, elem: DType) -> Stage {
        self.change(|kernel| kernel.elem = Some(elem))
    }

    /// Sets the number of threads in a workgroup.
    pub fn threads(self, workgroup: [u32; 3]) -> Stage {
        self.change(|kernel| kernel.workgroup = workgroup)
    }

    /// Sets the number of workgroups.
    pub fn grid(self, grid: [u32; 3]) -> Stage {
        self.change(|kernel| kernel.grid = grid)
    }

    /// Sets the workgroup memory that the kernel source declares.
    pub fn shared(self, bytes: u32) -> Stage {
        self.change(|kernel| kernel.shared_bytes = bytes)
    }

    /// Sets the launch settings of CUDA.
    pub fn cuda(self, cuda: CudaLaunch) -> Stage {
        self.change(|kernel| kernel.cuda = cuda)
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut Kernel)) -> Stage {
        match &mut self.work {
            StageOp::Kernel(kernel) => change(kernel),
            _ => panic!("`{}` launches no kernel, so it has no launch to describe", self.label),
        }
        self
    }
}

/// Spreads `count` workgroups over two grid dimensions, so that neither exceeds the portable limit of 65 535.
///
/// The kernel computes the flat index as `group.y * grid.x + group.x` and must ignore indices past `count`.
pub fn spread(count: u64) -> [u32; 3] {
    const LIMIT: u64 = 65_535;
    if count <= LIMIT {
        return [count as u32, 1, 1];
    }
    let rows = count.div_ceil(LIMIT);
    [count.div_ceil(rows) as u32, u32::try_from(rows).unwrap_or(u32::MAX), 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_share_what_is_alike_and_only_kernels_have_it() {
        let kernel = |size: u32| Stage::kernel("x", "matmul/tiled", "matmul_tiled").consts(&[("M", size)]);
        let fill = Stage::fill("zeros", "out", 0);
        let program = Program { stages: vec![kernel(1), fill, kernel(2), kernel(1)] };
        let sizes = |kernel: &Kernel| Ok::<_, ()>(kernel.consts.clone());
        let (found, places) = program.distinct(sizes).expect("nothing fails");
        assert_eq!(found, [vec![("M", Value::U32(1))], vec![("M", Value::U32(2))]]);
        assert_eq!(places, [Some(0), None, Some(1), Some(0)]);
        assert_eq!(program.distinct(|_| Err::<(), _>("no text")), Err("no text"));
        assert!(program.uses("out") && !program.uses("x"));
    }

    #[test]
    fn parameters_may_have_other_names_than_buffers() {
        let args = Stage::copy("c", "a", "b").args([("from", "a", Access::Read), ("to", "b", Access::Write)]).args;
        assert_eq!(args[1], Arg { parameter: "to", buffer: "b", access: Access::Write, map: None });
        assert_eq!(Arg::from(("a", Access::Read)).parameter, "a");
    }

    #[test]
    fn spread_covers_every_group_within_the_portable_limit() {
        for count in [1, 7, 65_535, 65_536, 833_334, 4_000_000_000] {
            let [x, y, z] = spread(count);
            assert!(x <= 65_535 && y <= 65_535 && z == 1, "{count}: {x} {y} {z}");
            let launched = u64::from(x) * u64::from(y);
            assert!(launched >= count && launched - count < u64::from(y), "{count}: {x} x {y}");
        }
    }
}
