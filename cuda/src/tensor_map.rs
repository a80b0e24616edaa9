//! Tensor maps of the driver: a kernel receives one instead of a buffer's address.

use std::ffi::c_void;

use cudarc::driver::sys;
use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType as Type, CUtensorMapFloatOOBfill as Fill, CUtensorMapInterleave as Interleave,
    CUtensorMapL2promotion as Promotion, CUtensorMapSwizzle,
};
use parallax_ir::device::BackendError;
use parallax_ir::{Swizzle, TensorMap};
use parallax_schema::case::Storage;
use parallax_schema::units::Bytes;

use crate::driver::cuTensorMapEncodeTiled;
use crate::errors::Context;

/// Encodes a tensor map of a buffer of `bytes` bytes at this address. The map contains the address, so every set of buffers has its
/// own.
///
/// # Errors
/// [`BackendError::Unsupported`] with the violated rule.
pub(crate) fn encode(
    map: &TensorMap,
    element: Storage,
    pointer: sys::CUdeviceptr,
    bytes: u64,
) -> Result<Box<CUtensorMap>, BackendError> {
    map.check(element, Bytes(bytes)).map_err(|why| BackendError::Unsupported(format!("a tensor map: {why}")))?;
    if !pointer.is_multiple_of(16) {
        return Err(BackendError::Unsupported(format!("a tensor map of a buffer at {pointer:#x}, no multiple of 16")));
    }
    let Encoded { rank, dims, strides, tile } = innermost_first(map);
    let element_strides = [1; MOST_AXES];
    let mut encoded = Box::new(CUtensorMap { opaque: [0; 16] });
    // SAFETY: the lists are at least as long as the rank, and are only read. The driver only stores the address.
    unsafe {
        cuTensorMapEncodeTiled(
            &mut *encoded,
            data_type(element),
            rank,
            std::ptr::with_exposed_provenance_mut::<c_void>(pointer as usize),
            dims.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            element_strides.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    }
    .doing(|| format!("making a tensor map of {map:?}"))?;
    Ok(encoded)
}

const MOST_AXES: usize = 5;

/// Rank and lists in the driver's order, innermost first.
#[derive(Debug, PartialEq, Eq)]
struct Encoded {
    rank: u32,
    dims: [u64; MOST_AXES],
    strides: [u64; MOST_AXES],
    tile: [u32; MOST_AXES],
}

fn innermost_first(map: &TensorMap) -> Encoded {
    fn reversed<T: Copy>(list: &[T], rest: T) -> [T; MOST_AXES] {
        let mut all = [rest; MOST_AXES];
        all.iter_mut().zip(list.iter().rev()).for_each(|(to, from)| *to = *from);
        all
    }
    Encoded {
        rank: map.dims.len() as u32,
        dims: reversed(&map.dims, 1),
        strides: reversed(&map.strides, 0),
        tile: reversed(&map.tile, 1),
    }
}

fn data_type(element: Storage) -> Type {
    match element {
        Storage::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Storage::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Storage::BF16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Storage::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
    }
}

fn swizzle(swizzle: Swizzle) -> CUtensorMapSwizzle {
    match swizzle {
        Swizzle::None => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_counts_axes_from_the_fastest() {
        let map = TensorMap::dense(&[3, 5, 8], Storage::F32, &[1, 4, 8], Swizzle::None);
        let want = Encoded { rank: 3, dims: [8, 5, 3, 1, 1], strides: [32, 160, 0, 0, 0], tile: [8, 4, 1, 1, 1] };
        assert_eq!(innermost_first(&map), want);
    }

    #[test]
    fn what_cannot_be_is_refused_before_the_driver_is_asked() {
        let map = TensorMap::dense(&[3, 8], Storage::F32, &[1, 8], Swizzle::None);
        let said = encode(&map, Storage::F32, 256, 95).expect_err("too short").to_string();
        assert!(said.contains("reaches to 96.0 B"), "{said}");
        assert!(encode(&map, Storage::F32, 8, 96).is_err_and(|error| error.to_string().contains("0x8")));
    }
}
