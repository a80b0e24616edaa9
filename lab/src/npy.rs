//! Reader of arrays in NumPy's format, with the scalars of WGSL.

use crate::layout::Scalar;

/// Array of a file. Its shape does not count: buffers are flat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Array<'a> {
    /// Type of the elements.
    pub scalar: Scalar,
    /// Elements, little-endian.
    pub bytes: &'a [u8],
}

/// Reason for which a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NpyError {
    /// Another format.
    #[error("it is not a NumPy array file (numpy.save writes them)")]
    Format,
    /// Fortran order.
    #[error("the array is in Fortran order; save numpy.ascontiguousarray of it")]
    Order,
    /// Missing bytes.
    #[error("the array ends early")]
    Short,
    /// Element type without a counterpart in WGSL.
    #[error("its dtype is {0}")]
    Dtype(String),
}

/// Returns the value of a key in the header's dictionary, up to the next comma outside brackets.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let from = header.split_once(&format!("'{key}'"))?.1.trim_start().strip_prefix(':')?.trim_start();
    let end = match from.strip_prefix('(') {
        Some(_) => from.find(')')? + 1,
        None => from.find([',', '}'])?,
    };
    Some(from[..end].trim())
}

/// Returns the beginning of a dtype in one line.
fn shown(descr: &str) -> String {
    descr.chars().take(40).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Reads an array.
pub(crate) fn read(file: &[u8]) -> Result<Array<'_>, NpyError> {
    let (length, start) = match file {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 10),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12)
        }
        _ => return Err(NpyError::Format),
    };
    let end = length.checked_add(start).filter(|end| *end <= file.len()).ok_or(NpyError::Format)?;
    let header = std::str::from_utf8(&file[start..end]).map_err(|_| NpyError::Format)?;
    let of = |key| value(header, key).ok_or(NpyError::Format);
    let descr = of("descr")?.trim_matches(['\'', '"']);
    let scalars = [Scalar::F32, Scalar::F16, Scalar::I32, Scalar::U32];
    let scalar = scalars.into_iter().find(|scalar| scalar.descr() == descr);
    let scalar = scalar.ok_or_else(|| NpyError::Dtype(shown(descr)))?;
    let shape = of("shape")?.trim_matches(['(', ')']);
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let extents: Vec<u64> = extents.map(|e| e.parse().map_err(|_| NpyError::Format)).collect::<Result<_, _>>()?;
    match of("fortran_order")? {
        "False" => {}
        "True" if extents.len() < 2 => {}
        "True" => return Err(NpyError::Order),
        _ => return Err(NpyError::Format),
    }
    let bytes = extents.iter().try_fold(scalar.bytes(), |all, extent| all.checked_mul(*extent));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(NpyError::Short)?;
    file[end..].get(..bytes).map(|bytes| Array { scalar, bytes }).ok_or(NpyError::Short)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as `numpy.save` writes it.
    pub(crate) fn file(descr: &str, order: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes].concat()
    }

    #[test]
    fn arrays_of_wgsl_types_are_read() {
        for (descr, shape, scalar, bytes) in [
            ("<f4", "(2, 3)", Scalar::F32, 24),
            ("<f2", "(3,)", Scalar::F16, 6),
            ("<i4", "()", Scalar::I32, 4),
            ("<u4", "(0, 5)", Scalar::U32, 0),
        ] {
            let file = file(descr, "False", shape, &[1; 24]);
            assert_eq!(read(&file), Ok(Array { scalar, bytes: &[1; 24][..bytes] }), "{descr} {shape}");
        }
    }

    /// Every damaged file, and bytes at random, are read or refused in one line.
    #[test]
    fn arbitrary_bytes_never_panic() {
        let whole = file("<f4", "False", "(2, 3)", &[7; 24]);
        let mut state = 38_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for round in 0..20_000 {
            let mut bytes = match round % 2 {
                0 => whole.clone(),
                _ => [b"\x93NUMPY".as_slice(), &[1 + (next() % 3) as u8, 0]].concat(),
            };
            bytes.extend((0..next() % 40).map(|_| next() as u8));
            for _ in 0..=next() % 4 {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            }
            bytes.truncate(bytes.len() - next() % bytes.len());
            match read(&bytes) {
                Ok(array) => assert!(array.bytes.len() <= bytes.len()),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!said.chars().any(char::is_control) && said.len() < 200, "{said:?}");
                }
            }
        }
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let long = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes(), b"{"].concat();
        for (file, want) in [
            (file("<f8", "False", "(1,)", &[0; 8]), NpyError::Dtype("<f8".to_owned())),
            (file("<f4", "True", "(1, 2)", &[0; 8]), NpyError::Order),
            (file("<f4", "False", "(3,)", &[0; 8]), NpyError::Short),
            (file("<f4", "False", "(4294967296, 4294967296)", &[0; 8]), NpyError::Short),
            (file("<f4", "False", "(-1,)", &[0; 8]), NpyError::Format),
            (file("<f4", "No", "(1,)", &[0; 8]), NpyError::Format),
            (b"PK\x03\x04".to_vec(), NpyError::Format),
            (Vec::new(), NpyError::Format),
            (long, NpyError::Format),
        ] {
            assert_eq!(read(&file), Err(want));
        }
    }
}
