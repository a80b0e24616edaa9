//! Host memory that the device copies from or to: buffers that the host maps.
//!
//! WebGPU maps a buffer for writing, and then it can only be copied from, or for reading, and then it can only be copied
//! to. It is mapped while the host touches it and never while the queue does.

use std::ops::Range;

use parallax_core::device::BackendError;
use parallax_core::suite::{Access, BufferSpec, Inputs, Program, Storage};

use crate::gpu::Gpu;
use crate::memory::UPLOAD;
use crate::wait::yield_now;

/// How such a buffer is made: for the device to copy to where a stage writes it, else to copy from.
pub fn usage(program: &Program, name: &str) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as U;
    let writes = |arg: &parallax_core::suite::Arg| arg.buffer == name && arg.access == Access::Write;
    match program.stages.iter().flat_map(|stage| &stage.args).any(writes) {
        true => U::MAP_READ | U::COPY_DST,
        false => U::MAP_WRITE | U::COPY_SRC,
    }
}

/// Whether the host maps a buffer to read it.
pub fn is_read(buffer: &wgpu::Buffer) -> bool {
    buffer.usage().contains(wgpu::BufferUsages::MAP_READ)
}

/// Make input `index` and write it to each of these buffers.
pub async fn write<'a>(
    gpu: &Gpu,
    inputs: &Inputs,
    (index, spec, storage): (usize, &BufferSpec, Storage),
    buffers: impl Iterator<Item = &'a wgpu::Buffer>,
) -> Result<(), BackendError> {
    let (bytes, size) = (spec.len * storage.bytes(), storage.bytes());
    for buffer in buffers {
        gpu.open(buffer, wgpu::MapMode::Write, 0..buffer.size()).await?;
        let mut piece = vec![0; UPLOAD.min(bytes.next_multiple_of(4)) as usize];
        for offset in (0..bytes).step_by(UPLOAD as usize) {
            let length = UPLOAD.min(bytes - offset) as usize;
            inputs.write(index, offset / size, &mut piece[..length]);
            // Copies come in multiples of four bytes; the buffer is rounded up, so the padding falls into it.
            let padded = length.next_multiple_of(4);
            piece[length..padded].fill(0);
            let view = buffer.get_mapped_range_mut(offset..offset + padded as u64);
            view.map_err(|e| BackendError::Device(e.to_string()))?.copy_from_slice(&piece[..padded]);
            yield_now().await;
        }
        buffer.unmap();
        gpu.incident()?;
    }
    Ok(())
}

/// Fill a buffer that the device copies to with a word, before all that is submitted later.
pub fn poison(gpu: &Gpu, buffer: &wgpu::Buffer, word: u32) {
    let words = word.to_le_bytes().repeat((UPLOAD.min(buffer.size()) / 4) as usize);
    for offset in (0..buffer.size()).step_by(UPLOAD as usize) {
        let length = UPLOAD.min(buffer.size() - offset) as usize;
        gpu.queue.write_buffer(buffer, offset, &words[..length]);
        // Hands the staged copy over, so that a large buffer is not held twice.
        gpu.queue.submit([]);
    }
}

/// Copy a range of a buffer that the host maps to read it; this waits for the work that fills it.
pub async fn read(gpu: &Gpu, buffer: &wgpu::Buffer, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
    // Mappings begin at multiples of eight bytes.
    let start = range.start / 8 * 8;
    let bytes = gpu.map(buffer, start..range.end.next_multiple_of(4)).await?;
    Ok(bytes[(range.start - start) as usize..(range.end - start) as usize].to_vec())
}
