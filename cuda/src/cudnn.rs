//! Convolutions by NVIDIA's library cuDNN, loaded at run time.
//!
//! Its heuristic offers algorithms in the order in which it expects them to be fast. Whether the library can carry out one
//! of them on a device shows only when it does, so a plan is one that has run: the first that does, or the fastest of all.

mod api;
mod description;
mod planned;

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use api::WANTED;
use api::{Api, Owned, api};
use cudarc::driver::sys::CUdeviceptr;
use description::Way;
use parallax_core::device::{BackendError, Ledger};
use parallax_core::suite::{Choice, Convolution, DType, Library};
use parallax_core::units::Nanos;
pub(crate) use planned::Planned;

use crate::driver::{CudaContext, CudaStream};
use crate::errors::Context;
use crate::events::{elapsed, event};
use crate::memory::Buffer;

/// Time that a sample of a way's launches takes about, and launches in it at most.
const SAMPLE: Nanos = Nanos(2e6);
const MOST_LAUNCHES: f64 = 50.0;
/// Samples of a way, of which the fastest counts.
const SAMPLES: usize = 5;

/// The library, set up for the device at hand at the first use.
#[derive(Default)]
pub(crate) struct Cudnn {
    open: OnceCell<Rc<Open>>,
}

struct Open {
    api: &'static Api,
    handle: Owned,
}

/// Device memory that a plan is made on: operands, result and bias of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) operands: [CUdeviceptr; 3],
    pub(crate) bias: Option<CUdeviceptr>,
}

/// Where a plan runs, and what counts its workspace.
pub(crate) struct Place<'a> {
    pub(crate) context: &'a Arc<CudaContext>,
    pub(crate) stream: &'a CudaStream,
    pub(crate) ledger: &'a Rc<Ledger>,
}

impl Cudnn {
    /// The device's context is current.
    fn open(&self) -> Result<Rc<Open>, BackendError> {
        if let Some(open) = self.open.get() {
            return Ok(open.clone());
        }
        let api = api()?;
        let handle = api.make("setting up", api.handle)?;
        Ok(self.open.get_or_init(|| Rc::new(Open { api, handle })).clone())
    }

    /// Plan a convolution, by running it on this memory; the result is overwritten. The device's context is current.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] when the library is not installed, or cannot compute this convolution here.
    ///
    /// # Safety
    /// The memory is that of the convolution's arguments, in the given element type, and nothing else uses it.
    pub(crate) unsafe fn plan(
        &self,
        dtype: DType,
        wanted: Convolution,
        memory: Memory,
        place: &Place<'_>,
    ) -> Result<Planned, BackendError> {
        let mut planned = Planned::described(self.open()?, dtype, wanted)?;
        let mut refused = Vec::new();
        let mut best: Option<(Nanos, Way, Option<Buffer>)> = None;
        let mut carried_out = 0;
        for way in planned.offers(dtype)? {
            // SAFETY: the caller vouches for the memory.
            match unsafe { planned.attempt(way, memory, place) } {
                Ok((took, workspace)) => {
                    carried_out += 1;
                    if best.as_ref().is_none_or(|(least, ..)| took < *least) {
                        best = Some((took, way, workspace));
                    }
                    if wanted.choice == Choice::Heuristic {
                        break;
                    }
                }
                // What the library refuses, another way may do. A device that is lost stays so.
                Err(lost @ BackendError::Lost(_)) => return Err(lost),
                Err(error) => refused.push(format!("{}: {error}", way.name(wanted.pass))),
            }
        }
        let Some((_, way, workspace)) = best else {
            let tried = if refused.is_empty() { "its heuristic offers none".to_owned() } else { refused.join("; ") };
            return Err(BackendError::Unsupported(format!(
                "cuDNN has no way to compute {wanted:?} in {dtype:?}: {tried}"
            )));
        };
        planned.take(way, workspace)?;
        planned.chosen = match wanted.choice {
            Choice::Heuristic => "the heuristic's first that runs".to_owned(),
            Choice::Timed => format!("the fastest of {carried_out}"),
        };
        Ok(planned)
    }
}

impl Planned {
    /// Run a way: its time, where times are wanted, and its workspace.
    ///
    /// # Safety
    /// As for [`Cudnn::plan`].
    unsafe fn attempt(
        &mut self,
        way: Way,
        memory: Memory,
        Place { context, stream, ledger }: &Place<'_>,
    ) -> Result<(Nanos, Option<Buffer>), BackendError> {
        self.take(way, None)?;
        let bytes = self.workspace_bytes()?;
        let most = Library::Conv(self.wanted).most_workspace();
        if bytes > most.0 {
            return Err(BackendError::Unsupported(format!(
                "needs a workspace of {bytes} bytes, it is given {}",
                most.0
            )));
        }
        let workspace = match bytes {
            0 => None,
            _ => Some(Buffer::new(context, ledger, "the library's workspace", bytes)?),
        };
        self.take(way, workspace)?;
        let (begin, end) = (event(context)?, event(context)?);
        let sample = |launches: usize| {
            begin.record(stream).doing(|| "timing a way of cuDNN's".into())?;
            // SAFETY: the caller vouches for the memory, and the stream is waited for below, whatever happens.
            let queued = (0..launches).try_for_each(|_| unsafe { self.launch(memory, stream.cu_stream()) });
            let recorded = end.record(stream).doing(|| "timing a way of cuDNN's".into());
            stream.synchronize().doing(|| "running a way of cuDNN's".into())?;
            queued.and(recorded)?;
            Ok::<_, BackendError>(Nanos(elapsed(&begin, &end)?.0 / launches as f64))
        };
        // The first launch loads kernels.
        let mut took = sample(1)?;
        if self.wanted.choice == Choice::Timed {
            let launches = (SAMPLE.0 / sample(1)?.0.max(1.0)).clamp(1.0, MOST_LAUNCHES) as usize;
            took = sample(launches)?;
            for _ in 1..SAMPLES {
                let again = sample(launches)?;
                took = if again < took { again } else { took };
            }
        }
        Ok((took, self.workspace.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use parallax_core::suite::{Case, Conv, ConvPass};

    fn case(shape: &str) -> Conv {
        let case: Case = format!("conv2d/fwd/{shape}/f32/direct").parse().expect("valid");
        Conv::of(&case.problem.shape)
    }

    /// Objects and numbers need no device: where the library is, it must understand what it is told.
    #[test]
    fn the_library_understands_the_descriptions() {
        let Ok(api) = api() else { return };
        for shape in ["n2,c6,m4,h7,w8,k3,kw2,s2,p1,l2,g2,nchw", "n1,c8,h9,k3,p1,g8,nhwc"] {
            for pass in [ConvPass::Forward { bias: true, relu: true }, ConvPass::Image, ConvPass::Kernels] {
                let wanted = Convolution { conv: case(shape), pass, choice: Choice::Heuristic };
                // Stands for the handle, which only a device has: any object will do, and nothing asks it anything.
                let handle = api.make("standing in", api.activation).expect("an object");
                let open = Rc::new(Open { api, handle });
                let planned = Planned::described(open, DType::BF16, wanted);
                let planned = planned.unwrap_or_else(|error| panic!("{shape} {pass:?}: {error}"));
                assert!(planned.told()[1].starts_with("cuDNN "), "{:?}", planned.told());
            }
        }
    }

    /// Where there is a device and a library, they must give the convolution; where not, they must say so.
    #[test]
    fn the_librarys_convolution_is_the_convolution() {
        let conv = case("n2,c3,m5,h7,w6,k3,s2,p1,nchw");
        let device = match Device::open(0) {
            Ok(device) => device,
            Err(error) => return assert!(error.to_string().len() > 40, "not a sentence: {error}"),
        };
        let stream = device.context.new_stream().expect("a stream");
        // Small whole numbers, whose products are exact in f32.
        let numbers = |dims: Vec<u64>, most: u64| (0..dims.iter().product()).map(|i: u64| (i % most) as f32).collect();
        let (x, w): (Vec<f32>, Vec<f32>) = (numbers(conv.x_dims(), 7), numbers(conv.w_dims(), 5));
        let bytes = |data: &[f32]| data.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        let ledger = Rc::default();
        let elements = [conv.x_dims(), conv.w_dims(), conv.out_dims()].map(|dims| dims.iter().product::<u64>());
        let buffers = elements.map(|len| Buffer::new(&device.context, &ledger, "test", 4 * len).expect("memory"));
        buffers[0].write(0, &bytes(&x)).expect("written");
        buffers[1].write(0, &bytes(&w)).expect("written");
        device.context.synchronize().expect("written");
        let memory = Memory { operands: buffers.each_ref().map(Buffer::pointer), bias: None };
        let mut want = vec![0.0f32; elements[2] as usize];
        for (want, place) in want.iter_mut().zip(0..) {
            let ([image, m], at) = conv.of_out(place);
            for (tap, c) in conv.every_tap().flat_map(|tap| (0..3).map(move |c| (tap, c))) {
                let Some(under) = conv.under(at, tap) else { continue };
                *want += x[conv.x_at([image, c], under) as usize] * w[conv.w_at([m, c], tap) as usize];
            }
        }
        let library = Cudnn::default();
        for choice in [Choice::Heuristic, Choice::Timed] {
            let wanted = Convolution { conv, pass: ConvPass::Forward { bias: false, relu: false }, choice };
            let place = Place { context: &device.context, stream: &stream, ledger: &ledger };
            // SAFETY: the buffers have the sizes of the convolution.
            let planned = match unsafe { library.plan(DType::F32, wanted, memory, &place) } {
                Ok(planned) => planned,
                Err(error) => return assert!(matches!(error, BackendError::Unsupported(_)), "{error}"),
            };
            // SAFETY: as above, and the stream is waited for.
            unsafe { planned.launch(memory, stream.cu_stream()) }.expect("launched");
            stream.synchronize().expect("done");
            let got = buffers[2].read(0..4 * elements[2]).expect("read");
            let got = got.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().expect("four bytes")));
            // Winograd's ways are not exact.
            for (got, want) in got.zip(&want) {
                assert!((got - want).abs() <= 1e-3 * want.abs().max(1.0), "{got} for {want} by {:?}", planned.told());
            }
        }
    }
}
