//! The form that a workload fills in.
//!
//! A workload is data and pure functions, never an object with state: what problems exist, which buffers they need,
//! what they cost at least, what the right answer is, how far off is still right, and in which ways it can be computed.

use crate::case::{Axis, DType, Direction, Problem, Shape};
use crate::input::{Fill, Inputs};
use crate::profiler::{Caps, Dialect};
use crate::units::{Bytes, Flops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An operation with a definition. The file stem names it everywhere; the registry supplies it.
pub struct Workload {
    /// The file stem, set by the registry.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Extents and options of a shape, in the order in which they are printed.
    pub axes: &'static [Axis],
    /// Directions that are defined.
    pub directions: &'static [Direction],
    /// Element types that are defined (a device may support fewer).
    pub dtypes: &'static [DType],
    /// What its speed is told in.
    pub rate: Rate,
    /// Shapes to measure, each as the shape part of a case string; asked for the presets that are meant for figures.
    pub shapes: fn(Preset) -> &'static [&'static str],
    /// Small shapes that are awkward for every tile: ones, primes, non-multiples.
    pub awkward: &'static [&'static str],
    /// Rejects shapes for which the operation is undefined, with the reason.
    pub validate: fn(&Shape) -> Result<(), String>,
    /// All buffers, in binding order: the position is the WGSL binding number.
    pub buffers: fn(&Problem) -> Vec<BufferSpec>,
    /// The least work that any way of computing the result must do.
    pub cost: fn(&Problem) -> Cost,
    /// How far an output may be from the reference.
    pub tolerance: fn(&Problem) -> Tolerance,
    /// One row of one output in f64: `reference(problem, inputs, output, row, out)`.
    ///
    /// `output` counts the buffers with role [`Role::Output`]; `row` counts slices of `row_len` elements of it.
    /// The plainest loops that could work; no cleverness shared with any kernel.
    pub reference: fn(&Problem, &Inputs, usize, u64, &mut [f64]),
    /// A plain multi-threaded f32 implementation: host inputs in buffer order, outputs in buffer order.
    pub cpu: fn(&Problem, &[HostBuffer], &mut [Vec<f32>]),
    /// Ways to compute it on a GPU, naive first.
    pub variants: &'static [Variant],
    /// Order in which to fall back when a requested variant cannot run, best first.
    pub fallback: &'static [&'static str],
}

/// What the speed of a workload is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Operations per second: each byte is used many times.
    Flops,
    /// Bytes per second, counting the least that must move.
    Bytes,
}

/// A ready-made choice of shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// A minute on anything.
    #[default]
    Quick,
    /// A few minutes on a GPU.
    Standard,
    /// Everything, for a large GPU.
    Full,
    /// Small shapes that are awkward for every tile: for `verify`, not for figures.
    Awkward,
}

impl Preset {
    /// Every preset with its name.
    pub const ALL: [(&'static str, Preset); 4] = [
        ("quick", Preset::Quick),
        ("standard", Preset::Standard),
        ("full", Preset::Full),
        ("awkward", Preset::Awkward),
    ];

    /// The name used in flags and URL queries.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, p)| *p == self).map(|(name, _)| *name).expect("listed")
    }
}

/// What a buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Elem {
    /// The case's element type.
    Real,
    /// Always f32, whatever the case's element type.
    F32,
    /// Unsigned 32-bit integers.
    U32,
}

impl Elem {
    /// The concrete storage type in a case of element type `dtype`.
    pub fn storage(self, dtype: DType) -> Storage {
        match (self, dtype) {
            (Elem::U32, _) => Storage::U32,
            (Elem::F32, _) | (Elem::Real, DType::F32) => Storage::F32,
            (Elem::Real, DType::F16) => Storage::F16,
            (Elem::Real, DType::BF16) => Storage::BF16,
        }
    }
}

/// A concrete element type in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// Unsigned integer.
    U32,
}

impl Storage {
    /// Size of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Storage::F32 | Storage::U32 => 4,
            Storage::F16 | Storage::BF16 => 2,
        }
    }
}

/// Who writes a buffer.
#[derive(Clone, Copy)]
pub enum Role {
    /// Filled before the run by a pure function of the seed and the index.
    Input(Fill),
    /// Written by the kernel and checked, in rows of so many elements.
    Output {
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Written and read by the stages of a variant; contents are nobody else's business.
    Scratch,
}

/// One buffer of a workload.
#[derive(Clone)]
pub struct BufferSpec {
    /// Name in the WGSL binding, the CUDA parameter and the NumPy file.
    pub name: &'static str,
    /// What it holds.
    pub elem: Elem,
    /// Extents of the array, slowest first; dense and row-major.
    pub dims: Vec<u64>,
    /// Length in elements: the product of the extents.
    pub len: u64,
    /// Who writes it.
    pub role: Role,
}

impl BufferSpec {
    fn new(name: &'static str, elem: Elem, dims: &[u64], role: Role) -> Self {
        BufferSpec { name, elem, dims: dims.to_vec(), len: dims.iter().product(), role }
    }

    /// An input filled by `fill`.
    pub fn input(name: &'static str, elem: Elem, dims: &[u64], fill: Fill) -> Self {
        BufferSpec::new(name, elem, dims, Role::Input(fill))
    }

    /// An output, checked in rows along its fastest extent.
    pub fn output(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Output { row_len: *dims.last().expect("at least one extent") })
    }

    /// Scratch memory.
    pub fn scratch(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Scratch)
    }

    /// Size in a case of element type `dtype`.
    pub fn bytes(&self, dtype: DType) -> Bytes {
        Bytes(self.len * self.elem.storage(dtype).bytes())
    }
}

/// The least work a problem needs: operations, and bytes that must cross device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Operations by the field's accepted rule for the workload.
    pub flops: Flops,
    /// Every input element that must be read, once.
    pub read: Bytes,
    /// Every output element, written once.
    pub written: Bytes,
}

impl Cost {
    /// Bytes read plus bytes written.
    pub fn moved(&self) -> Bytes {
        Bytes(self.read.0 + self.written.0)
    }
}

/// An output element `x` with reference `r` is right when `|x - r| <= abs + rel * |r|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Absolute part, in units of the output.
    pub abs: f64,
    /// Relative part.
    pub rel: f64,
    /// Why these numbers.
    pub reason: &'static str,
}

/// Host memory handed to the CPU implementation; 16-bit floats arrive widened.
#[derive(Debug, Clone, PartialEq)]
pub enum HostBuffer {
    /// Floating-point data.
    F32(Vec<f32>),
    /// Integer data.
    U32(Vec<u32>),
}

impl HostBuffer {
    /// The floats of this buffer.
    ///
    /// # Panics
    /// When it holds integers: the workload's buffer list and its CPU code disagree.
    pub fn f32(&self) -> &[f32] {
        match self {
            HostBuffer::F32(data) => data,
            HostBuffer::U32(_) => panic!("buffer holds u32, asked for f32"),
        }
    }

    /// The integers of this buffer.
    ///
    /// # Panics
    /// When it holds floats: the workload's buffer list and its CPU code disagree.
    pub fn u32(&self) -> &[u32] {
        match self {
            HostBuffer::U32(data) => data,
            HostBuffer::F32(_) => panic!("buffer holds f32, asked for u32"),
        }
    }
}

/// One way to compute a workload.
pub struct Variant {
    /// Last part of the case string.
    pub name: &'static str,
    /// What it does and what it changes against the variant before it.
    pub about: &'static str,
    /// How it is carried out.
    pub how: How,
}

/// How a variant is carried out.
pub enum How {
    /// Launches of kernels from the workload's kernel files.
    Kernel {
        /// Dialects in which it exists.
        dialects: &'static [Dialect],
        /// Why it cannot compute this problem on this device, if so. Size limits are checked by the plan.
        available: fn(&Problem, &Caps) -> Result<(), String>,
        /// The launches, for a device on which it is available.
        program: fn(&Problem, &Caps) -> Program,
    },
    /// Chooses another variant by problem and device, and says why.
    Select(fn(&Problem, &Caps) -> (&'static str, String)),
}

/// The launches of a variant for one problem on one device: plain data, so that a plan can be printed and tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Named integers, `const NAME: u32` in WGSL and `#define NAME` in CUDA.
    pub consts: Vec<(&'static str, u32)>,
    /// Launches, in order.
    pub stages: Vec<Stage>,
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Entry point in both dialects, and the label in traces.
    pub entry: &'static str,
    /// Buffers that it touches, in parameter order for CUDA. WGSL uses the workload's binding numbers.
    pub uses: Vec<(&'static str, Access)>,
    /// Threads in one workgroup (CUDA: block).
    pub workgroup: [u32; 3],
    /// Workgroups (CUDA: blocks) to launch.
    pub grid: [u32; 3],
    /// Workgroup memory that the text declares (CUDA: static shared memory), in bytes.
    pub shared_bytes: u32,
    /// Operations of this stage alone, where a variant has several; zero when nobody counted.
    pub flops: Flops,
    /// What only CUDA knows.
    pub cuda: CudaLaunch,
}

impl Stage {
    /// A stage with no CUDA extras.
    pub fn new(
        entry: &'static str,
        uses: &[(&'static str, Access)],
        workgroup: [u32; 3],
        grid: [u32; 3],
        shared_bytes: u32,
    ) -> Self {
        let cuda = CudaLaunch::default();
        Stage { entry, uses: uses.to_vec(), workgroup, grid, shared_bytes, flops: Flops(0), cuda }
    }

    /// The same with its operations counted.
    pub fn counting(self, flops: Flops) -> Self {
        Stage { flops, ..self }
    }
}

/// Launch settings that exist only in CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CudaLaunch {
    /// Blocks in one cluster; zero means no cluster.
    pub cluster: u32,
    /// Dynamic shared memory, in bytes.
    pub dynamic_shared_bytes: u32,
    /// A call into the vendor's library in place of a kernel of our own.
    pub library: Option<Library>,
}

/// A call into a vendor's library, as data. The buffers are the stage's `uses`, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// cuBLASLt: `C = A·B`, all row-major and dense, in the case's element type, accumulated in f32. Uses: A, B, C.
    Gemm {
        /// Rows of A and C.
        m: u64,
        /// Columns of B and C.
        n: u64,
        /// Columns of A, rows of B.
        k: u64,
    },
}

/// How a stage touches a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only loads.
    Read,
    /// Stores, perhaps loads too.
    Write,
}

/// Spread `count` workgroups over two grid dimensions so that neither exceeds the portable limit of 65 535.
///
/// The kernel recovers the flat index as `group.y * grid.x + group.x` and must ignore indices past `count`.
pub fn spread(count: u64) -> [u32; 3] {
    const LIMIT: u64 = 65_535;
    if count <= LIMIT {
        return [count as u32, 1, 1];
    }
    let rows = count.div_ceil(LIMIT);
    [count.div_ceil(rows) as u32, u32::try_from(rows).unwrap_or(u32::MAX), 1]
}

/// A workload file's function that fills in the form.
type Make = fn() -> Workload;

include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// Every workload, in name order.
pub fn all() -> &'static [Workload] {
    static ALL: std::sync::OnceLock<Vec<Workload>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| TABLE.iter().map(|(name, make)| Workload { name, ..make() }).collect())
}

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Workload> {
    all().iter().find(|w| w.name == name)
}

impl Workload {
    /// The shapes of a preset.
    pub fn preset(&self, preset: Preset) -> &'static [&'static str] {
        match preset {
            Preset::Awkward => self.awkward,
            figures => (self.shapes)(figures),
        }
    }

    /// The variant of that name.
    pub fn variant(&self, name: &str) -> Option<&'static Variant> {
        self.variants.iter().find(|v| v.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
