//! Contents of buffers before an execution.

use parallax_ir::{Draw, splitmix64};
use parallax_shaders::BindingKind;

use crate::error::LabError;
use crate::layout::Scalar;
use crate::npy::{self, Array, NpyError};
use crate::plan::PlannedBinding;
use crate::program::Reflected;
use crate::request::{BindingPoint, Request, Source};

/// Number of values that a seeded integer may have.
const INTEGERS: u64 = 256;

/// Returns the contents of a binding.
///
/// # Errors
/// A file that does not fit; too little memory.
pub(crate) fn of(binding: &PlannedBinding, request: &Request) -> Result<Vec<u8>, LabError> {
    let wrong = |why: String| LabError::Contents { point: binding.point(), why };
    let too_much = || wrong(format!("{} bytes do not fit into the memory of the host", binding.bytes));
    let size = usize::try_from(binding.bytes).map_err(|_| too_much())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| too_much())?;
    bytes.resize(size, 0);
    let (layout, elements) = binding.layout();
    let point = binding.point();
    match &binding.source {
        Source::Zeros => {}
        Source::Seeded => {
            let stream = splitmix64(request.seed ^ splitmix64(u64::from(point.group) << 32 | u64::from(point.binding)));
            // Integers of a uniform buffer mostly are lengths.
            let length = (binding.declared.kind == BindingKind::Uniform).then_some(request.elements as f64);
            let mut index = 0;
            layout.each(elements, 0, &mut |offset, scalar| {
                let drawn = drawn(scalar, Draw::new(stream, index));
                let value = length.filter(|_| !scalar.is_float()).unwrap_or(drawn);
                store(&mut bytes, offset, scalar, value);
                index += 1;
            });
        }
        Source::Values(values) => {
            if values.is_empty() {
                return Err(wrong("its list of values is empty".to_owned()));
            }
            let mut values = values.iter().cycle();
            layout.each(elements, 0, &mut |offset, scalar| {
                store(&mut bytes, offset, scalar, values.next().copied().unwrap_or_default());
            });
        }
        Source::File(file) => {
            let array = array(&binding.declared, file)?;
            let wanted = layout.scalars(elements);
            let found = array.bytes.len() as u64 / array.scalar.bytes();
            if found != wanted {
                return Err(wrong(format!("its file has {found} numbers, the type has {wanted}")));
            }
            let mut numbers = array.bytes.chunks_exact(array.scalar.bytes() as usize);
            layout.each(elements, 0, &mut |offset, scalar| {
                if let (Some(number), Some(slot)) = (numbers.next(), slot(&mut bytes, offset, scalar)) {
                    slot.copy_from_slice(number);
                }
            });
        }
    }
    Ok(bytes)
}

fn drawn(scalar: Scalar, draw: Draw) -> f64 {
    match scalar {
        Scalar::F32 | Scalar::F16 => draw.normal(),
        Scalar::U32 => draw.below(INTEGERS) as f64,
        Scalar::I32 => draw.below(INTEGERS) as f64 - (INTEGERS / 2) as f64,
    }
}

fn slot(bytes: &mut [u8], offset: u64, scalar: Scalar) -> Option<&mut [u8]> {
    let offset = usize::try_from(offset).ok()?;
    bytes.get_mut(offset..offset + scalar.bytes() as usize)
}

fn store(bytes: &mut [u8], offset: u64, scalar: Scalar, value: f64) {
    if let Some(slot) = slot(bytes, offset, scalar) {
        scalar.store(value, slot);
    }
}

/// Reads a file for a binding, whose scalars must have the file's type.
fn array<'a>(declared: &Reflected, file: &'a [u8]) -> Result<Array<'a>, LabError> {
    let point = declared.point;
    let wanted = scalar_of(declared);
    let array = npy::read(file).map_err(|error| match (error, &wanted) {
        (NpyError::Dtype(got), Ok(wanted)) => LabError::Dtype { point, wanted: *wanted, got },
        (error, _) => LabError::Contents { point, why: error.to_string() },
    })?;
    let wanted = wanted?;
    match array.scalar == wanted {
        true => Ok(array),
        false => Err(LabError::Dtype { point, wanted, got: array.scalar.descr().to_owned() }),
    }
}

/// Returns the only type of a binding's scalars.
fn scalar_of(declared: &Reflected) -> Result<Scalar, LabError> {
    let mut found: Vec<Scalar> = Vec::new();
    declared.layout.each(1, 0, &mut |_, scalar| {
        if !found.contains(&scalar) {
            found.push(scalar);
        }
    });
    let point: BindingPoint = declared.point;
    match found[..] {
        [only] => Ok(only),
        _ => {
            let why = "it has scalars of several types, and a file has one: give its values".to_owned();
            Err(LabError::Contents { point, why })
        }
    }
}

/// Returns the number of elements of an array sized at run time that a file fills.
///
/// # Errors
/// A file of another type, or with a part of an element.
pub(crate) fn elements(declared: &Reflected, file: &[u8]) -> Result<u64, LabError> {
    let array = array(declared, file)?;
    let found = array.bytes.len() as u64 / array.scalar.bytes();
    let fixed = declared.layout.scalars(0);
    let each = declared.layout.scalars(1) - fixed;
    match found.checked_sub(fixed) {
        Some(rest) if rest > 0 && rest % each.max(1) == 0 => Ok(rest / each.max(1)),
        _ => {
            let why =
                format!("{found} numbers of its file are no whole number of elements of `{}`", declared.type_name);
            Err(LabError::Contents { point: declared.point, why })
        }
    }
}
