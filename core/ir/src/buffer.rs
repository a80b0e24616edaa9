//! Buffers: contents, roles, and accesses by stages.

use parallax_schema::case::{DType, Storage};
use parallax_schema::units::Bytes;

use super::Fill;

/// Element type of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Elem {
    /// Element type of the case.
    Real,
    /// f32 for every element type of the case.
    F32,
    /// Unsigned 32-bit integers.
    U32,
}

impl Elem {
    /// Returns the storage type in a case of element type `dtype`.
    pub fn storage(self, dtype: DType) -> Storage {
        match (self, dtype) {
            (Elem::U32, _) => Storage::U32,
            (Elem::F32, _) | (Elem::Real, DType::F32) => Storage::F32,
            (Elem::Real, DType::F16) => Storage::F16,
            (Elem::Real, DType::BF16) => Storage::BF16,
        }
    }
}

/// Role of a buffer.
#[derive(Clone, Copy)]
pub enum Role {
    /// Input, filled before the run by a pure function of the seed and the index.
    Input(Fill),
    /// Input that the execution changes, and that is checked. The contents are restored outside the timing: before the checked
    /// execution and before every measured batch.
    InOut {
        /// Contents before the execution.
        fill: Fill,
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Output of the kernel, checked in rows of `row_len` elements.
    Output {
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Output of the set-up's stages, which run once. It is checked like an output and read by the timed stages.
    Setup {
        /// Elements in one row; divides the buffer's length.
        row_len: u64,
    },
    /// Scratch memory, written and read by the stages of a variant alone.
    Scratch,
}

impl Role {
    /// Returns the function that fills the buffer before the first stage, for inputs.
    pub fn fill(self) -> Option<Fill> {
        match self {
            Role::Input(fill) | Role::InOut { fill, .. } => Some(fill),
            Role::Output { .. } | Role::Setup { .. } | Role::Scratch => None,
        }
    }

    /// Elements of a row, for buffers that are checked against the reference.
    pub fn row_len(self) -> Option<u64> {
        match self {
            Role::InOut { row_len, .. } | Role::Output { row_len } | Role::Setup { row_len } => Some(row_len),
            Role::Input(_) | Role::Scratch => None,
        }
    }

    /// Returns whether the buffer is poisoned before a checked execution. True if that execution alone writes it.
    pub fn poisoned(self) -> bool {
        matches!(self, Role::Output { .. } | Role::Scratch)
    }

    /// Returns whether the contents are restored before each measured batch.
    pub fn restored(self) -> bool {
        matches!(self, Role::InOut { .. })
    }
}

/// Place of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Place {
    /// On the device.
    #[default]
    Device,
    /// In the host's pageable memory.
    HostPageable,
    /// In host memory that the device can access directly.
    HostPinned,
    /// On the devices of a group, one row of the slowest extent on each.
    EachRank,
}

impl Place {
    /// Returns whether it is host memory.
    pub fn is_host(self) -> bool {
        matches!(self, Place::HostPageable | Place::HostPinned)
    }
}

/// Buffer of a workload.
#[derive(Clone)]
pub struct BufferSpec {
    /// Name in the WGSL binding, the CUDA parameter and the NumPy file.
    pub name: &'static str,
    /// Element type.
    pub elem: Elem,
    /// Extents of the array, slowest first; dense and row-major.
    pub dims: Vec<u64>,
    /// Length in elements: the product of the extents.
    pub len: u64,
    /// Role.
    pub role: Role,
    /// Place.
    pub place: Place,
}

impl BufferSpec {
    fn new(name: &'static str, elem: Elem, dims: &[u64], role: Role) -> Self {
        // An uncountable length stays recognisable, and `Problem::new` refuses it.
        let len = dims.iter().fold(1u64, |len, extent| len.saturating_mul(*extent));
        BufferSpec { name, elem, dims: dims.to_vec(), len, role, place: Place::default() }
    }

    /// Returns an input filled by `fill`.
    pub fn input(name: &'static str, elem: Elem, dims: &[u64], fill: Fill) -> Self {
        BufferSpec::new(name, elem, dims, Role::Input(fill))
    }

    /// Returns an output, checked in rows along its fastest extent.
    pub fn output(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Output { row_len: last(dims) })
    }

    /// Returns an input that the execution changes, checked in rows along its fastest extent.
    pub fn in_out(name: &'static str, elem: Elem, dims: &[u64], fill: Fill) -> Self {
        BufferSpec::new(name, elem, dims, Role::InOut { fill, row_len: last(dims) })
    }

    /// Returns an output of the set-up, checked in rows along its fastest extent.
    pub fn setup(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Setup { row_len: last(dims) })
    }

    /// Returns scratch memory.
    pub fn scratch(name: &'static str, elem: Elem, dims: &[u64]) -> Self {
        BufferSpec::new(name, elem, dims, Role::Scratch)
    }

    /// Sets the place.
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

/// Host memory for the CPU implementation; 16-bit floats are widened.
#[derive(Debug, Clone, PartialEq)]
pub enum HostBuffer {
    /// Floating-point data.
    F32(Vec<f32>),
    /// Integer data.
    U32(Vec<u32>),
}

impl HostBuffer {
    /// Returns the floats of this buffer.
    ///
    /// # Panics
    /// A buffer of integers: the workload's buffer list and its CPU code disagree.
    pub fn f32(&self) -> &[f32] {
        match self {
            HostBuffer::F32(data) => data,
            HostBuffer::U32(_) => panic!("buffer is u32, requested as f32"),
        }
    }

    /// Returns the integers of this buffer.
    ///
    /// # Panics
    /// A buffer of floats: the workload's buffer list and its CPU code disagree.
    pub fn u32(&self) -> &[u32] {
        match self {
            HostBuffer::U32(data) => data,
            HostBuffer::F32(_) => panic!("buffer is f32, requested as u32"),
        }
    }
}

/// Access of a stage to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads only.
    Read,
    /// Stores, possibly with loads.
    Write,
}
