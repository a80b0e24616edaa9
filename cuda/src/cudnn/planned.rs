//! A convolution as the library was told of it, and its launch.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use cudarc::cudnn::sys;
use cudarc::driver::sys::CUstream;
use parallax_core::device::BackendError;
use parallax_core::suite::{ConvPass, Convolution, DType};

use super::api::{Api, Calls, Kind, Offer, Owned};
use super::description::{Description, Tensor, Way, math, storage, ways};
use super::{Memory, Open};
use crate::memory::Buffer;

/// Offers that the heuristic is asked for: more than there are algorithms, each with several kinds of arithmetic.
const OFFERS: usize = 24;

/// A planned convolution.
pub(crate) struct Planned {
    first: Owned,
    second: Owned,
    result: Owned,
    bias: Owned,
    convolution: Owned,
    /// What follows: ReLU or nothing.
    activation: Owned,
    pub(super) wanted: Convolution,
    way: Way,
    pub(super) workspace: Option<Buffer>,
    pub(super) chosen: String,
    /// Last, so that the library's handle goes after what was made with it.
    open: Rc<Open>,
}

impl Planned {
    /// What is wanted, described to the library.
    pub(super) fn described(open: Rc<Open>, dtype: DType, wanted: Convolution) -> Result<Planned, BackendError> {
        let (api, told) = (open.api, Description::of(&wanted.conv)?);
        let stored = storage(dtype);
        let tensor = |Tensor { extents, distances }: &Tensor| {
            let tensor = api.make("describing a tensor", api.tensor)?;
            let count = extents.len() as c_int;
            // SAFETY: the object is alive; both arrays have so many elements, which are copied before the call returns.
            let status =
                unsafe { (api.set_tensor)(tensor.object, stored, count, extents.as_ptr(), distances.as_ptr()) };
            api.check("describing a tensor", status)?;
            Ok::<_, BackendError>(tensor)
        };
        let kernels = || {
            let filter = api.make("describing the kernels", api.filter)?;
            let count = told.kernels.len() as c_int;
            // SAFETY: as above.
            let status = unsafe { (api.set_filter)(filter.object, stored, told.order, count, told.kernels.as_ptr()) };
            api.check("describing the kernels", status)?;
            Ok::<_, BackendError>(filter)
        };
        let (first, second, result) = match wanted.pass {
            ConvPass::Forward { .. } => (tensor(&told.image)?, kernels()?, tensor(&told.result)?),
            ConvPass::Image => (kernels()?, tensor(&told.result)?, tensor(&told.image)?),
            ConvPass::Kernels => (tensor(&told.image)?, tensor(&told.result)?, kernels()?),
        };
        let convolution = api.make("describing a convolution", api.convolution)?;
        let (correlation, sums) = (sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION, storage(DType::F32));
        let [padding, stride, dilation] = [&told.padding, &told.stride, &told.dilation].map(|each| each.as_ptr());
        let count = told.padding.len() as c_int;
        // SAFETY: the object is alive; the three arrays have so many elements, which are copied before the call returns.
        let statuses = unsafe {
            let object = convolution.object;
            [
                (api.set_convolution)(object, count, padding, stride, dilation, correlation as c_int, sums),
                (api.set_groups)(object, told.groups),
                (api.set_math)(object, math(dtype)),
            ]
        };
        statuses.into_iter().try_for_each(|status| api.check("describing a convolution", status))?;
        let bias = tensor(&told.bias)?;
        let activation = activation(api, api.activation, wanted.pass)?;
        let way = Way { algorithm: 0, math: math(dtype), fused: false };
        let (workspace, chosen) = (None, String::new());
        Ok(Planned { first, second, result, bias, convolution, activation, wanted, way, workspace, chosen, open })
    }

    fn calls(&self) -> Calls {
        self.open.api.pass(self.wanted.pass)
    }

    /// The ways that the heuristic offers, in its order.
    pub(super) fn offers(&self, dtype: DType) -> Result<Vec<Way>, BackendError> {
        let mut offers = [Offer::default(); OFFERS];
        let mut found = 0;
        // SAFETY: all objects are alive, and there is room for as many offers as are asked for.
        let status = unsafe {
            (self.calls().heuristic)(
                self.open.handle.object,
                self.first.object,
                self.second.object,
                self.convolution.object,
                self.result.object,
                OFFERS as c_int,
                &mut found,
                offers.as_mut_ptr(),
            )
        };
        self.open.api.check("asking the heuristic", status)?;
        let found = usize::try_from(found).unwrap_or(0).min(OFFERS);
        Ok(ways(&offers[..found], self.wanted.pass, dtype))
    }

    /// From here on by this way, in this workspace.
    pub(super) fn take(&mut self, way: Way, workspace: Option<Buffer>) -> Result<(), BackendError> {
        (self.way, self.workspace) = (way, workspace);
        // SAFETY: the object is alive.
        let status = unsafe { (self.open.api.set_math)(self.convolution.object, way.math) };
        self.open.api.check("choosing the arithmetic", status)
    }

    /// What the way needs beside the arguments.
    pub(super) fn workspace_bytes(&self) -> Result<u64, BackendError> {
        let mut bytes = 0;
        // SAFETY: all objects are alive, and the number has a place.
        let status = unsafe {
            (self.calls().workspace)(
                self.open.handle.object,
                self.first.object,
                self.second.object,
                self.convolution.object,
                self.result.object,
                self.way.algorithm,
                &mut bytes,
            )
        };
        self.open.api.check("asking for the workspace", status)?;
        Ok(bytes as u64)
    }

    /// The library's version, and by which way it computes, for people.
    pub(crate) fn told(&self) -> [String; 2] {
        let workspace = self.workspace.as_ref().map_or(0, Buffer::bytes);
        let way = self.way.name(self.wanted.pass);
        [self.open.api.told_version(), format!("cuDNN {way}, {workspace} bytes of workspace, {}", self.chosen)]
    }

    /// Arguments that a launch is given.
    pub(crate) fn buffers(&self) -> usize {
        if matches!(self.wanted.pass, ConvPass::Forward { bias: true, .. }) { 4 } else { 3 }
    }

    /// The call that computes it.
    pub(crate) fn call(&self) -> &'static str {
        match self.wanted.pass {
            ConvPass::Forward { .. } if self.way.fused => "cudnnConvolutionBiasActivationForward",
            ConvPass::Forward { .. } => "cudnnConvolutionForward",
            ConvPass::Image => "cudnnConvolutionBackwardData",
            ConvPass::Kernels => "cudnnConvolutionBackwardFilter",
        }
    }

    /// Queue it on the stream.
    ///
    /// # Safety
    /// The context is current. The memory is that of the plan's arguments, in the order of [`ConvPass`], with a bias where
    /// there is one, and stays alive, as this does, until the stream has been waited for.
    pub(crate) unsafe fn launch(&self, memory: Memory, stream: CUstream) -> Result<(), BackendError> {
        let (api, handle, way) = (self.open.api, self.open.handle.object, self.way);
        let (one, zero) = (1.0f32, 0.0f32);
        let [one, zero] = [&raw const one, &raw const zero].map(<*const f32>::cast::<c_void>);
        let [a, b, c] = memory.operands;
        let (place, bytes) = self.workspace.as_ref().map_or((0, 0), |buffer| (buffer.pointer(), buffer.bytes()));
        let [first, second, result] = [&self.first, &self.second, &self.result].map(|operand| operand.object);
        let (convolution, activation) = (self.convolution.object, self.activation.object);
        // SAFETY: all objects are alive; the factors are on the host, and read before the calls return; the workspace is as
        // large as the library asked for; the caller vouches for the rest. The fused call's second tensor counts nothing.
        unsafe {
            api.check("choosing the stream", (api.stream)(handle, stream))?;
            if let (true, Some(bias)) = (way.fused, memory.bias) {
                let status = (api.fused)(
                    handle,
                    one,
                    first,
                    a,
                    second,
                    b,
                    convolution,
                    way.algorithm,
                    place,
                    bytes as usize,
                    zero,
                    result,
                    c,
                    self.bias.object,
                    bias,
                    activation,
                    result,
                    c,
                );
                return api.check("convolving with bias and activation", status);
            }
            let status = (self.calls().run)(
                handle,
                one,
                first,
                a,
                second,
                b,
                convolution,
                way.algorithm,
                place,
                bytes as usize,
                zero,
                result,
                c,
            );
            api.check("convolving", status)?;
            if let Some(bias) = memory.bias {
                api.check("adding the bias", (api.add)(handle, one, self.bias.object, bias, one, result, c))?;
            }
            if let ConvPass::Forward { relu: true, .. } = self.wanted.pass {
                api.check("applying ReLU", (api.activate)(handle, activation, one, result, c, zero, result, c))?;
            }
        }
        Ok(())
    }
}

/// What follows a forward pass.
fn activation(api: &Api, kind: Kind, pass: ConvPass) -> Result<Owned, BackendError> {
    use sys::cudnnActivationMode_t as Mode;
    let relu = matches!(pass, ConvPass::Forward { relu: true, .. });
    let mode = if relu { Mode::CUDNN_ACTIVATION_RELU } else { Mode::CUDNN_ACTIVATION_IDENTITY };
    // As PyTorch asks for it: the fused call may know no other way.
    let numbers = sys::cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
    let activation = api.make("describing an activation", kind)?;
    // SAFETY: the object is alive.
    let status = unsafe { (api.set_activation)(activation.object, mode as c_int, numbers as c_int, 0.0) };
    api.check("describing an activation", status)?;
    Ok(activation)
}
