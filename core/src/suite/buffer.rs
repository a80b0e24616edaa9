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
