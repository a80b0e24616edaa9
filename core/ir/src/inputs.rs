//! Seeded inputs, bit-identical on every platform.
//!
//! Values are counter-based: element `i` of a buffer is a pure function of (seed, buffer, i). Any slice can be computed without
//! the rest, and a 10 GB tensor needs no 10 GB on the host. Only integer arithmetic and single correctly rounded multiplications
//! occur. Transcendental functions are avoided, because their last bit differs between platforms.

use std::collections::TryReserveError;
use std::ops::{Bound, RangeBounds};
use std::sync::OnceLock;

use half::{bf16, f16};
use parallax_schema::case::{DType, Storage};

use super::{BufferSpec, Draw, Fill, HostBuffer, Place, Problem, Shape, StressInput, Tolerance, splitmix64};
use crate::parallel::*;

/// Random stream of one buffer. It depends on the seed and the buffer's name, not on the buffer's position.
fn stream(seed: u64, name: &str) -> u64 {
    name.bytes().fold(splitmix64(seed ^ 0x5041_5241_4C4C_4158), |h, b| splitmix64(h ^ u64::from(b)))
}

/// Input values of one problem.
#[derive(Clone)]
pub struct Inputs {
    shape: Shape,
    dtype: DType,
    /// One entry per buffer of the problem; `None` for outputs and scratch.
    sources: Vec<Option<Input>>,
    /// Stress input in use, if any.
    stress: Option<&'static StressInput>,
}

#[derive(Clone)]
struct Input {
    spec: BufferSpec,
    /// Position of its first element among the contents: that of a row, for inputs of a rank.
    first: u64,
    contents: Contents,
    /// Values of a buffer that is small enough to keep. Computed at the first access to a single element.
    kept: OnceLock<Vec<f64>>,
}

/// Largest number of elements of a kept buffer (32 MiB as doubles). A reference reads each element many times.
const KEEP: u64 = 4 << 20;

#[derive(Clone)]
enum Contents {
    Seeded {
        stream: u64,
        fill: Fill,
    },
    Given(Vec<u8>),
    /// First elements of the buffer, repeated with period `PERIOD`.
    Repeated(Vec<u8>),
}

/// Period of repeated inputs in elements. It is a prime, so that equal data never meet at a distance of a power of two.
const PERIOD: u64 = 65_537;

/// Bytes that a thread fills at a time. Drawing elements one by one takes far longer than copying them.
const PART: usize = 64 << 10;

/// Input of the caller whose length does not fit the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("input `{name}` has {got} bytes, the case needs {want}")]
pub struct WrongLength {
    /// Name of the buffer.
    pub name: &'static str,
    /// Bytes given.
    pub got: u64,
    /// Bytes needed.
    pub want: u64,
}

impl Inputs {
    /// Returns inputs from a seed, one for each buffer that is filled before the first stage.
    pub fn seeded(shape: &Shape, dtype: DType, buffers: Vec<BufferSpec>, seed: u64) -> Inputs {
        let input = |spec: BufferSpec| {
            let contents = Contents::Seeded { stream: stream(seed, spec.name), fill: spec.role.fill()? };
            Some(Input { spec, first: 0, contents, kept: OnceLock::new() })
        };
        Inputs { shape: shape.clone(), dtype, sources: buffers.into_iter().map(input).collect(), stress: None }
    }

    /// Returns seeded inputs that repeat after 65 537 elements. They are computed in negligible time. They serve probes of
    /// hundreds of megabytes, which only need data other than zeros.
    pub fn repeated(shape: &Shape, dtype: DType, buffers: Vec<BufferSpec>, seed: u64) -> Inputs {
        let mut inputs = Inputs::seeded(shape, dtype, buffers, seed);
        for buffer in 0..inputs.sources.len() {
            let Some(Input { spec, .. }) = &inputs.sources[buffer] else { continue };
            if spec.len <= PERIOD {
                continue;
            }
            let mut block = vec![0; (PERIOD * spec.elem.storage(dtype).bytes()) as usize];
            inputs.write(buffer, 0, &mut block);
            inputs.sources[buffer].as_mut().expect("just seen").contents = Contents::Repeated(block);
        }
        inputs
    }

    /// Returns the inputs of a rank of a group: its row of each buffer on the devices of the group.
    pub fn of_rank(&self, rank: u64) -> Inputs {
        let part = |input: &Input| {
            let spec = input.spec.of_rank();
            let row = if input.spec.place == Place::EachRank { rank * spec.len } else { 0 };
            Input { first: input.first + row, spec, contents: input.contents.clone(), kept: OnceLock::new() }
        };
        Inputs { sources: self.sources.iter().map(|input| input.as_ref().map(part)).collect(), ..self.clone() }
    }

    /// Applies a stress input.
    pub(super) fn with_stress(mut self, problem: &Problem, stress: &'static StressInput) -> Inputs {
        for (name, with) in (stress.fills)(problem) {
            let of_that_name = |input: &&mut Input| input.spec.name == name;
            let input =
                self.sources.iter_mut().flatten().find(of_that_name).expect("a hard set fills inputs of the form");
            if let Contents::Seeded { fill, .. } = &mut input.contents {
                *fill = with;
            }
        }
        self.stress = Some(stress);
        self
    }

    /// Tolerance of an output computed from these inputs, against the reference.
    pub fn tolerance(&self, problem: &Problem, output: usize) -> Tolerance {
        self.stress.map_or(problem.form().tolerance, |stress| stress.tolerance)(problem, output)
    }

    /// Replaces one input by the caller's little-endian bytes, in the buffer's storage type.
    pub fn replace(&mut self, buffer: usize, bytes: Vec<u8>) -> Result<(), WrongLength> {
        let dtype = self.dtype;
        let input = self.sources[buffer].as_mut().expect("an input buffer");
        let want = input.spec.bytes(dtype).0;
        if bytes.len() as u64 != want {
            return Err(WrongLength { name: input.spec.name, got: bytes.len() as u64, want });
        }
        input.contents = Contents::Given(bytes);
        input.kept = OnceLock::new();
        Ok(())
    }

    /// Computes the values of all buffers that are small enough to keep, on all processors. Without this call, the first access to an
    /// element computes those of its buffer, on one.
    pub fn keep(&self) {
        for (buffer, input) in self.sources.iter().enumerate() {
            if input.as_ref().is_some_and(|input| input.spec.len <= KEEP && input.kept.get().is_none()) {
                // Outside the lock: a thread that waits for it must not be one that computes.
                let values = self.whole(buffer);
                self.input(buffer).kept.get_or_init(|| values);
            }
        }
    }

    fn input(&self, buffer: usize) -> &Input {
        self.sources[buffer].as_ref().expect("an input buffer")
    }

    /// Returns one element as seen by the device: rounded to the storage type, then widened.
    pub fn at(&self, buffer: usize, index: u64) -> f64 {
        let input = self.input(buffer);
        if input.spec.len > KEEP {
            return self.make(input, index);
        }
        input.kept.get_or_init(|| (0..input.spec.len).map(|i| self.make(input, i)).collect())[index as usize]
    }

    /// Returns the elements of a range, each as by [`Inputs::at`]; `..` is all of them.
    pub fn values(&self, buffer: usize, range: impl RangeBounds<u64>) -> Vec<f64> {
        let first = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.input(buffer).spec.len,
        };
        (first..end).map(|at| self.at(buffer, at)).collect()
    }

    /// Returns all elements of a buffer, each as by [`Inputs::at`], computed on all processors. For callers that start with it,
    /// not for one of many running threads.
    pub fn whole(&self, buffer: usize) -> Vec<f64> {
        let input = self.input(buffer);
        (0..input.spec.len).into_par_iter().map(|at| self.make(input, at)).collect()
    }

    fn make(&self, input: &Input, index: u64) -> f64 {
        let index = input.first + index;
        let storage = input.spec.elem.storage(self.dtype);
        match &input.contents {
            Contents::Seeded { stream, fill } => round_to(storage, fill(&self.shape, Draw::new(*stream, index))),
            Contents::Given(bytes) => {
                let size = storage.bytes() as usize;
                load(storage, &bytes[index as usize * size..][..size])
            }
            Contents::Repeated(block) => {
                let size = storage.bytes() as usize;
                load(storage, &block[(index % PERIOD) as usize * size..][..size])
            }
        }
    }

    /// Writes elements `start..` as little-endian bytes into `out`, as many as fit, on all processors. They are not kept for
    /// later variants, because they may exceed the host's memory.
    pub fn write(&self, buffer: usize, start: u64, out: &mut [u8]) {
        let Input { spec, first, contents, kept } = self.input(buffer);
        let storage = spec.elem.storage(self.dtype);
        let size = storage.bytes() as usize;
        if let (Contents::Seeded { .. }, Some(values)) = (contents, kept.get()) {
            let values = &values[start as usize..][..out.len() / size];
            let parts = out.par_chunks_mut(PART).zip(values.par_chunks(PART / size));
            parts.for_each(|(out, values)| {
                out.chunks_exact_mut(size).zip(values).for_each(|(slot, value)| store(storage, *value, slot));
            });
            return;
        }
        let start = first + start;
        match contents {
            Contents::Given(bytes) => {
                out.copy_from_slice(&bytes[start as usize * size..][..out.len()]);
            }
            Contents::Repeated(block) => {
                let mut from = (start % PERIOD) as usize * size;
                let mut rest = out;
                while !rest.is_empty() {
                    let n = rest.len().min(block.len() - from);
                    let (now, later) = rest.split_at_mut(n);
                    now.copy_from_slice(&block[from..from + n]);
                    (rest, from) = (later, 0);
                }
            }
            Contents::Seeded { stream, fill } => {
                out.par_chunks_mut(PART).enumerate().for_each(|(part, out)| {
                    let first = start + (part * PART / size) as u64;
                    for (slot, index) in out.chunks_exact_mut(size).zip(first..) {
                        store(storage, fill(&self.shape, Draw::new(*stream, index)), slot);
                    }
                });
            }
        }
    }

    /// Returns a whole input, widened to f32 or u32.
    ///
    /// # Errors
    /// Insufficient memory.
    pub fn host(&self, buffer: usize) -> Result<HostBuffer, TryReserveError> {
        fn filled<T: Copy + Send>(len: u64, make: impl Fn(u64) -> T + Sync + Send) -> Result<Vec<T>, TryReserveError> {
            let mut all = Vec::new();
            all.try_reserve_exact(len as usize)?;
            all.par_extend((0..len as usize).into_par_iter().map(|i| make(i as u64)));
            Ok(all)
        }
        let input = self.input(buffer);
        let len = input.spec.len;
        Ok(match input.spec.elem.storage(self.dtype) {
            Storage::U32 => HostBuffer::U32(filled(len, |i| self.make(input, i) as u32)?),
            _ => HostBuffer::F32(filled(len, |i| self.make(input, i) as f32)?),
        })
    }
}

/// Rounds a value to a storage type. 16-bit types are rounded by way of f32, as by processors with hardware rounding, and by
/// kernels that compute in f32. Direct rounding differs if the f32 value lies midway between two 16-bit values.
pub fn round_to(storage: Storage, value: f64) -> f64 {
    match storage {
        Storage::F32 => f64::from(value as f32),
        Storage::F16 => f16::from_f32(value as f32).to_f64(),
        Storage::BF16 => bf16::from_f32(value as f32).to_f64(),
        Storage::U32 => f64::from(value as u32),
    }
}

/// Stores one value as little-endian bytes.
fn store(storage: Storage, value: f64, slot: &mut [u8]) {
    match storage {
        Storage::F32 => slot.copy_from_slice(&(value as f32).to_le_bytes()),
        Storage::F16 => slot.copy_from_slice(&f16::from_f32(value as f32).to_le_bytes()),
        Storage::BF16 => slot.copy_from_slice(&bf16::from_f32(value as f32).to_le_bytes()),
        Storage::U32 => slot.copy_from_slice(&(value as u32).to_le_bytes()),
    }
}

/// Loads one little-endian value.
///
/// # Panics
/// `bytes` that are not exactly one element long.
pub fn load(storage: Storage, bytes: &[u8]) -> f64 {
    match storage {
        Storage::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect("4 bytes"))),
        Storage::F16 => f16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f64(),
        Storage::BF16 => bf16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f64(),
        Storage::U32 => f64::from(u32::from_le_bytes(bytes.try_into().expect("4 bytes"))),
    }
}

/// Returns values as little-endian bytes of a storage type.
pub fn bytes_of(storage: Storage, values: impl ExactSizeIterator<Item = f64>) -> Vec<u8> {
    let size = storage.bytes() as usize;
    let mut out = vec![0; values.len() * size];
    for (slot, value) in out.chunks_exact_mut(size).zip(values) {
        store(storage, value, slot);
    }
    out
}

/// Returns floats as little-endian bytes of the storage type of real elements under `dtype`.
pub fn encode(dtype: DType, values: &[f32]) -> Vec<u8> {
    bytes_of(crate::Elem::Real.storage(dtype), values.iter().map(|x| f64::from(*x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Elem, normal};

    #[test]
    fn kept_values_are_those_of_single_draws() {
        const AXES: &[Axis] = &[Axis::extent("n", "elements")];
        let shape = Shape::parse(AXES, "n70001").expect("valid");
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let made = || {
                let spec = BufferSpec::input("x", Elem::Real, &[70_001], normal);
                Inputs::seeded(&shape, dtype, vec![spec], 7)
            };
            let (drawn, kept) = (made(), made());
            kept.keep();
            assert!(drawn.sources[0].as_ref().is_some_and(|input| input.kept.get().is_none()));
            let size = Elem::Real.storage(dtype).bytes() as usize;
            for (start, count) in [(0, 70_001), (69_990, 11), (32_767, 33_000)] {
                let bytes = |inputs: &Inputs| {
                    let mut bytes = vec![0; count * size];
                    inputs.write(0, start, &mut bytes);
                    bytes
                };
                assert_eq!(bytes(&kept), bytes(&drawn), "{dtype:?} from {start}");
            }
            assert_eq!(kept.values(0, ..), drawn.values(0, ..));
        }
    }

    #[test]
    fn inputs_of_a_rank_are_its_row() {
        const AXES: &[Axis] = &[Axis::extent("n", "elements")];
        let shape = Shape::parse(AXES, "n70000").expect("valid");
        let spec = BufferSpec::input("x", Elem::Real, &[70_000], normal).on_each_rank(3);
        let alone = BufferSpec::input("y", Elem::Real, &[5], normal);
        let seeded = Inputs::seeded(&shape, DType::F16, vec![spec.clone(), alone.clone()], 7);
        let repeated = Inputs::repeated(&shape, DType::F16, vec![spec.clone(), alone], 7);
        let mut given = seeded.clone();
        given
            .replace(0, (0..spec.len).flat_map(|i| f16::from_f32((i % 2000) as f32).to_le_bytes()).collect())
            .expect("fits");
        for inputs in [seeded, repeated, given] {
            let whole = inputs.whole(0);
            for rank in 0..3 {
                let own = inputs.of_rank(rank);
                let row = &whole[rank as usize * 70_000..][..70_000];
                assert_eq!(own.whole(0), row, "rank {rank}");
                assert_eq!(own.whole(1), inputs.whole(1));
                let bytes = |inputs: &Inputs, start: u64| {
                    let mut bytes = vec![0; 100];
                    inputs.write(0, start, &mut bytes);
                    bytes
                };
                assert_eq!(bytes(&own, 69_950), bytes(&inputs, rank * 70_000 + 69_950));
                own.keep();
                assert_eq!(bytes(&own, 3), bytes(&inputs, rank * 70_000 + 3), "kept");
            }
        }
    }

    #[test]
    fn normal_draws_have_zero_mean_and_unit_variance() {
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|i| Draw::new(stream(1, "x"), i).normal()).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
        assert!(draws.iter().all(|x| x.abs() < 3.47));
    }
}
