//! Time of transfers between host and device.

use parallax_ir::device::{BackendError, Transfer};
use parallax_schema::units::Nanos;
use web_time::Instant;

use crate::gpu::Gpu;
use crate::memory::TrackedBuffer;

/// Returns the host time of one transfer of `bytes`, rounded up to four.
///
/// Upload: from `writeBuffer` until the queue has completed it. Download: from the submission of a copy into a mappable buffer
/// until this code can read its last byte. In a page the download includes the copy into the page's memory. An identical transfer
/// before the clock starts excludes first touches.
///
/// # Errors
/// [`BackendError::Unsupported`] when one buffer cannot be that large.
pub async fn time(gpu: &Gpu, way: Transfer, bytes: u64) -> Result<Nanos, BackendError> {
    use wgpu::BufferUsages as U;
    let limit = gpu.device.limits().max_buffer_size / 4 * 4;
    if bytes > limit {
        let why = format!("moving {bytes} bytes in one piece, as a buffer has {limit} at most");
        return Err(BackendError::Unsupported(why));
    }
    let size = bytes.next_multiple_of(16).max(16);
    let data = host_bytes(size)?;
    let buffer = |label, usage| TrackedBuffer::new(&gpu.ledger, &gpu.device, label, size, usage);
    match way {
        Transfer::Upload => {
            let target = gpu.make(|| buffer("upload", U::COPY_DST)).await?;
            upload(gpu, &target.buffer, &data).await?;
            let began = Instant::now();
            upload(gpu, &target.buffer, &data).await?;
            Ok(Nanos(began.elapsed().as_nanos() as f64))
        }
        Transfer::Download => {
            let make =
                || (buffer("download", U::COPY_SRC | U::COPY_DST), buffer("downloaded", U::MAP_READ | U::COPY_DST));
            let (source, target) = gpu.make(make).await?;
            upload(gpu, &source.buffer, &data).await?;
            drop(data);
            download(gpu, &source.buffer, &target.buffer).await?;
            let time = download(gpu, &source.buffer, &target.buffer).await?;
            Ok(time)
        }
    }
}

/// Returns touched host memory. A page cannot always allocate as much as its device.
fn host_bytes(size: u64) -> Result<Vec<u8>, BackendError> {
    let too_much = || BackendError::OutOfMemory(format!("{size} bytes on the host"));
    let size = usize::try_from(size).map_err(|_| too_much())?;
    let mut data = Vec::new();
    data.try_reserve_exact(size).map_err(|_| too_much())?;
    data.resize(size, 0x5A);
    Ok(data)
}

async fn upload(gpu: &Gpu, target: &wgpu::Buffer, data: &[u8]) -> Result<(), BackendError> {
    gpu.queue.write_buffer(target, 0, data);
    // Submits the write without other work.
    gpu.queue.submit([]);
    gpu.done().await
}

async fn download(gpu: &Gpu, source: &wgpu::Buffer, target: &wgpu::Buffer) -> Result<Nanos, BackendError> {
    let size = source.size();
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(source, 0, target, 0, size);
    let commands = encoder.finish();
    let began = Instant::now();
    gpu.queue.submit([commands]);
    let view = gpu.mapped(target, 0..size).await?;
    let last = std::hint::black_box(view[view.len() - 1]);
    let time = Nanos(began.elapsed().as_nanos() as f64);
    drop(view);
    target.unmap();
    if last == 0x5A { Ok(time) } else { Err(BackendError::Device("a download brought other bytes back".to_owned())) }
}
