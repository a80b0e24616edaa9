//! Host memory that the device copies from or to: mappable buffers.
//!
//! In WebGPU a buffer mappable for writing can only be a copy source, and one mappable for reading only a copy destination. It is
//! mapped while the host accesses it, and never while the queue does.

use std::ops::Range;

use parallax_ir::device::BackendError;
use parallax_ir::{Access, BufferSpec, Inputs, Program};
use parallax_schema::case::Storage;

use crate::gpu::Gpu;
use crate::memory::UPLOAD;
use crate::wait::yield_now;

/// Returns the usage of a mappable buffer: a copy destination where a stage writes it, or else a copy source.
pub fn usage(program: &Program, name: &str) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as U;
    let writes = |arg: &parallax_ir::Arg| arg.buffer == name && arg.access == Access::Write;
    match program.stages.iter().flat_map(|stage| &stage.args).any(writes) {
        true => U::MAP_READ | U::COPY_DST,
        false => U::MAP_WRITE | U::COPY_SRC,
    }
}

/// Whether the buffer is mappable for reading.
pub fn is_read(buffer: &wgpu::Buffer) -> bool {
    buffer.usage().contains(wgpu::BufferUsages::MAP_READ)
}

/// Generates input `index` and writes it to each of these buffers.
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
            // Copies have a multiple of four bytes. The padding lies in the buffer, whose size is rounded up.
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

/// Fills a copy destination with a word, before all later submissions.
pub fn poison(gpu: &Gpu, buffer: &wgpu::Buffer, word: u32) {
    let words = word.to_le_bytes().repeat((UPLOAD.min(buffer.size()) / 4) as usize);
    for offset in (0..buffer.size()).step_by(UPLOAD as usize) {
        let length = UPLOAD.min(buffer.size() - offset) as usize;
        gpu.queue.write_buffer(buffer, offset, &words[..length]);
        // Submits the staged copy, so that a large buffer is not in memory twice.
        gpu.queue.submit([]);
    }
}

/// Copies a range of a buffer mappable for reading. Waits for the work that fills it.
pub async fn read(gpu: &Gpu, buffer: &wgpu::Buffer, range: Range<u64>) -> Result<Vec<u8>, BackendError> {
    // Mappings begin at multiples of eight bytes.
    let start = range.start / 8 * 8;
    let bytes = gpu.map(buffer, start..range.end.next_multiple_of(4)).await?;
    Ok(bytes[(range.start - start) as usize..(range.end - start) as usize].to_vec())
}
