//! Buffers: what they hold, who writes them, how stages touch them.

use super::{DType, Fill};
use crate::units::Bytes;

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
    /// Whether every pattern of bits is a value: no element then shows by itself that nobody wrote it.
    pub fn is_integer(self) -> bool {
        match self {
            Storage::U32 => true,
            Storage::F32 | Storage::F16 | Storage::BF16 => false,
        }
    }

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
    /// Filled like an input, changed by the execution, and checked. The contents are put back outside the timing: before
    /// the execution that is checked and before every measured batch.
    InOut {
        /// Contents before the execution.
        fill: Fill,
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Written by the kernel and checked, in rows of so many elements.
    Output {
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Written once by the set-up's stages, checked like an output, and read by the timed stages.
    Setup {
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Written and read by the stages of a variant; contents are nobody else's business.
    Scratch,
}

impl Role {
    /// What fills the buffer before the first stage, where that is the seed's or the caller's business.
    pub fn fill(self) -> Option<Fill> {
        match self {
            Role::Input(fill) | Role::InOut { fill, .. } => Some(fill),
            Role::Output { .. } | Role::Setup { .. } | Role::Scratch => None,
        }
    }

    /// Elements of a row, for what is checked against the reference.
    pub fn row_len(self) -> Option<u64> {
        match self {
            Role::InOut { row_len, .. } | Role::Output { row_len } | Role::Setup { row_len } => Some(row_len),
            Role::Input(_) | Role::Scratch => None,
        }
    }

    /// Whether the buffer is poisoned before an execution that is checked: whatever that execution alone writes.
    pub fn poisoned(self) -> bool {
        matches!(self, Role::Output { .. } | Role::Scratch)
    }

    /// Whether the contents are put back before each measured batch.
    pub fn restored(self) -> bool {
        matches!(self, Role::InOut { .. })
    }
}

/// Where a buffer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Place {
    /// On the device.
    #[default]
    Device,
    /// In the host's ordinary memory.
    HostPageable,
    /// In host memory that the device can reach by itself.
    HostPinned,
    /// On each device of a group.
    EachRank,
}

impl Place {
    /// Whether it is memory of the host.
    pub fn is_host(self) -> bool {
        matches!(self, Place::HostPageable | Place::HostPinned)
    }
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
    /// Where it lives.
    pub place: Place,
}

impl BufferSpec {
    fn new(name: &'static str, elem: Elem, dims: &[u64], role: Role) -> Self {
        // A length beyond what can be counted stays recognisable, and `Problem::new` refuses it.
        let len = dims.iter().fold(1u64, |len, extent| len.saturating_mul(*extent));
        BufferSpec { name, elem, dims: dims.to_vec(), len, role, place: Place::default() }
    }

    /// An input filled by `fill`.
    pub fn input(name: &'static str, elem: Elem, dims: &[u64], fill: Fill) -> Self {
        BufferSpec::new(name, elem, dims, Role::Input(fill))
    }

    /// An output, checked in rows along its fastest extent.
    pub fn output(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Output { row_len: last(dims) })
    }

    /// An input that the execution changes, checked in rows along its fastest extent.
    pub fn in_out(name: &'static str, elem: Elem, dims: &[u64], fill: Fill) -> Self {
        BufferSpec::new(name, elem, dims, Role::InOut { fill, row_len: last(dims) })
    }

    /// What the set-up computes, checked in rows along its fastest extent.
    pub fn setup(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Setup { row_len: last(dims) })
    }

    /// Scratch memory.
    pub fn scratch(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Scratch)
    }

    /// The same at another place.
    pub fn at(self, place: Place) -> Self {
        BufferSpec { place, ..self }
    }

    /// Size in a case of element type `dtype`.
    pub fn bytes(&self, dtype: DType) -> Bytes {
        Bytes(self.len.saturating_mul(self.elem.storage(dtype).bytes()))
    }
}

fn last(dims: &[u64]) -> u64 {
    *dims.last().expect("at least one extent")
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

/// How a stage touches a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only loads.
    Read,
    /// Stores, perhaps loads too.
    Write,
}
