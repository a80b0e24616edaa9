//! Layouts of buffers: the scalars of a WGSL type, with their offsets.

use std::fmt;

use half::f16;
use naga::{ArraySize, Handle, Module, ScalarKind, Type, TypeInner};
use serde::Serialize;

/// Type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
}

impl Scalar {
    fn of(scalar: naga::Scalar) -> Option<Scalar> {
        match (scalar.kind, scalar.width) {
            (ScalarKind::Float, 4) => Some(Scalar::F32),
            (ScalarKind::Float, 2) => Some(Scalar::F16),
            (ScalarKind::Sint, 4) => Some(Scalar::I32),
            (ScalarKind::Uint, 4) => Some(Scalar::U32),
            _ => None,
        }
    }

    /// Name in WGSL.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::F32 => "f32",
            Scalar::F16 => "f16",
            Scalar::I32 => "i32",
            Scalar::U32 => "u32",
        }
    }

    /// Type string of NumPy.
    pub fn descr(self) -> &'static str {
        match self {
            Scalar::F32 => "<f4",
            Scalar::F16 => "<f2",
            Scalar::I32 => "<i4",
            Scalar::U32 => "<u4",
        }
    }

    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        if self == Scalar::F16 { 2 } else { 4 }
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F16)
    }

    /// Returns the value of little-endian bytes, which may be more than its own.
    pub(crate) fn load(self, bytes: &[u8]) -> f64 {
        let word = |bytes: &[u8]| bytes.first_chunk().copied().unwrap_or_default();
        match self {
            Scalar::F32 => f64::from(f32::from_le_bytes(word(bytes))),
            Scalar::F16 => f16::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default()).to_f64(),
            Scalar::I32 => f64::from(i32::from_le_bytes(word(bytes))),
            Scalar::U32 => f64::from(u32::from_le_bytes(word(bytes))),
        }
    }

    /// Stores a value as little-endian bytes, rounded to the type. Integers saturate.
    pub(crate) fn store(self, value: f64, slot: &mut [u8]) {
        match self {
            Scalar::F32 => slot.copy_from_slice(&(value as f32).to_le_bytes()),
            Scalar::F16 => slot.copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            Scalar::I32 => slot.copy_from_slice(&(value as i32).to_le_bytes()),
            Scalar::U32 => slot.copy_from_slice(&(value as u32).to_le_bytes()),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Layout of a type in memory. An array without a count is sized at run time; it is the whole type or its last member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Scalar.
    Scalar(Scalar),
    /// Elements at a constant distance: an array, a vector or a matrix.
    Array {
        /// Number of elements.
        count: Option<u32>,
        /// Distance in bytes.
        stride: u32,
        /// Layout of one element.
        element: Box<Layout>,
    },
    /// Structure.
    Struct {
        /// Offset and layout of each member.
        members: Vec<(u32, Layout)>,
        /// Size in bytes, without elements of an array that is sized at run time.
        span: u32,
    },
}

/// Layouts of a module's types.
pub(crate) struct Layouts<'a> {
    module: &'a Module,
    /// Whether a type had an atomic.
    pub atomic: bool,
}

impl<'a> Layouts<'a> {
    /// Returns an empty collection.
    pub fn new(module: &'a Module) -> Layouts<'a> {
        Layouts { module, atomic: false }
    }

    /// Returns the layout of a type.
    ///
    /// # Errors
    /// Reason for a type that no host can fill.
    pub fn of(&mut self, ty: Handle<Type>) -> Result<Layout, &'static str> {
        match &self.module.types[ty].inner {
            TypeInner::Atomic(of) => {
                self.atomic = true;
                Ok(Layout::Scalar(scalar(*of)?))
            }
            TypeInner::Scalar(of) => Ok(Layout::Scalar(scalar(*of)?)),
            TypeInner::Vector { size, scalar } => vector(*size, *scalar),
            TypeInner::Matrix { columns, rows, scalar } => {
                let padded = if *rows == naga::VectorSize::Bi { 2 } else { 4 };
                let element = Box::new(vector(*rows, *scalar)?);
                Ok(Layout::Array { count: Some(*columns as u32), stride: padded * u32::from(scalar.width), element })
            }
            TypeInner::Array { base, size, stride } => {
                let count = match size {
                    ArraySize::Constant(count) => Some(count.get()),
                    ArraySize::Dynamic => None,
                    ArraySize::Pending(_) => return Err("the length of an array is an override"),
                };
                Ok(Layout::Array { count, stride: *stride, element: Box::new(self.of(*base)?) })
            }
            TypeInner::Struct { members, span } => {
                let member = |member: &naga::StructMember| Ok::<_, &'static str>((member.offset, self.of(member.ty)?));
                let members = members.iter().map(member).collect::<Result<_, _>>()?;
                Ok(Layout::Struct { members, span: *span })
            }
            _ => Err("it is no buffer: textures, samplers and acceleration structures are not supported"),
        }
    }
}

fn scalar(scalar: naga::Scalar) -> Result<Scalar, &'static str> {
    Scalar::of(scalar).ok_or("its scalars are neither f32, f16, i32 nor u32")
}

fn vector(size: naga::VectorSize, of: naga::Scalar) -> Result<Layout, &'static str> {
    let element = Box::new(Layout::Scalar(scalar(of)?));
    Ok(Layout::Array { count: Some(size as u32), stride: u32::from(of.width), element })
}

impl Layout {
    /// Returns the layout and the distance of the elements that are sized at run time, and the offset of the first one.
    pub(crate) fn runtime(&self) -> Option<(&Layout, u32, u32)> {
        match self {
            Layout::Array { count: None, stride, element } => Some((element, *stride, 0)),
            Layout::Struct { members, .. } => {
                let (offset, last) = members.last()?;
                last.runtime().map(|(element, stride, inner)| (element, stride, offset + inner))
            }
            _ => None,
        }
    }

    /// Number of elements of the outermost array; one for another type.
    pub(crate) fn items(&self, elements: Option<u64>) -> u64 {
        match (elements, self) {
            (Some(elements), _) => elements,
            (None, Layout::Array { count: Some(count), .. }) => u64::from(*count),
            (None, _) => 1,
        }
    }

    /// Size in bytes, with this number of elements of the array that is sized at run time.
    pub(crate) fn bytes(&self, elements: u64) -> u64 {
        match self {
            Layout::Scalar(scalar) => scalar.bytes(),
            Layout::Array { count, stride, element } => match (count, &**element) {
                // A vector of three has no fourth element.
                (Some(count), Layout::Scalar(scalar)) if u64::from(*stride) == scalar.bytes() => {
                    u64::from(*count) * scalar.bytes()
                }
                (count, _) => count.map_or(elements, u64::from).saturating_mul(u64::from(*stride)),
            },
            Layout::Struct { span, .. } => match self.runtime() {
                // A structure is no shorter than its span, as a binding.
                Some((_, stride, offset)) => {
                    let end = elements.saturating_mul(u64::from(stride)).saturating_add(u64::from(offset));
                    end.max(u64::from(*span))
                }
                None => u64::from(*span),
            },
        }
    }

    /// Number of scalars, with this number of elements of the array that is sized at run time.
    pub(crate) fn scalars(&self, elements: u64) -> u64 {
        match self {
            Layout::Scalar(_) => 1,
            Layout::Array { count, element, .. } => {
                count.map_or(elements, u64::from).saturating_mul(element.scalars(elements))
            }
            Layout::Struct { members, .. } => {
                members.iter().fold(0, |sum: u64, (_, member)| sum.saturating_add(member.scalars(elements)))
            }
        }
    }

    /// Calls `visit` with the offset and the type of each scalar, in order.
    pub(crate) fn each(&self, elements: u64, from: u64, visit: &mut dyn FnMut(u64, Scalar)) {
        match self {
            Layout::Scalar(scalar) => visit(from, *scalar),
            Layout::Array { count, stride, element } => {
                for index in 0..count.map_or(elements, u64::from) {
                    element.each(elements, from + index * u64::from(*stride), visit);
                }
            }
            Layout::Struct { members, .. } => {
                for (offset, member) in members {
                    member.each(elements, from + u64::from(*offset), visit);
                }
            }
        }
    }

    /// Returns the type of its scalars, if all have one type and no padding is between them.
    pub(crate) fn dense(&self) -> Option<Scalar> {
        match self {
            Layout::Scalar(scalar) => Some(*scalar),
            Layout::Array { stride, element, .. } => element.dense().filter(|_| element.bytes(0) == u64::from(*stride)),
            Layout::Struct { members, span } => {
                let mut end = 0;
                let mut of = None;
                for (offset, member) in members {
                    let scalar = member.dense()?;
                    if u64::from(*offset) != end || of.is_some_and(|of| of != scalar) {
                        return None;
                    }
                    of = Some(scalar);
                    end += member.bytes(0);
                }
                of.filter(|_| self.runtime().is_some() || end == u64::from(*span))
            }
        }
    }
}

/// Returns the name of a type in WGSL.
pub(crate) fn type_name(module: &Module, ty: Handle<Type>) -> String {
    let scalar = |scalar: &naga::Scalar| Scalar::of(*scalar).map_or("?", Scalar::name);
    let ty = &module.types[ty];
    match &ty.inner {
        TypeInner::Scalar(scalar) if scalar.kind == ScalarKind::Bool => "bool".to_owned(),
        TypeInner::Scalar(of) => scalar(of).to_owned(),
        TypeInner::Atomic(of) => format!("atomic<{}>", scalar(of)),
        TypeInner::Vector { size, scalar: of } => format!("vec{}<{}>", *size as u32, scalar(of)),
        TypeInner::Matrix { columns, rows, scalar: of } => {
            format!("mat{}x{}<{}>", *columns as u32, *rows as u32, scalar(of))
        }
        TypeInner::Array { base, size, .. } => match size {
            ArraySize::Constant(count) => format!("array<{}, {count}>", type_name(module, *base)),
            _ => format!("array<{}>", type_name(module, *base)),
        },
        _ => ty.name.clone().unwrap_or_else(|| "?".to_owned()),
    }
}
