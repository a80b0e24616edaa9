//! Calls into a vendor's libraries, as data: operation and operands.

use parallax_schema::case::DType;
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::Bytes;

use super::Access::{Read, Write};
use super::{Conv, Gemm, LibraryEpilogue, Problem, Program, Rearrange, Stage, Variant};

/// Call into a vendor's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// cuBLASLt: a GEMM in the case's element type, accumulated in f32. Arguments: A, B, C, and the bias of the columns if the
    /// epilogue adds one, or both scales if it multiplies by them.
    Gemm(Gemm, LibraryEpilogue),
    /// cuDNN: a convolution or one of its gradients in the case's element type, accumulated in f32. Arguments: see [`ConvPass`].
    Conv(Convolution),
    /// cuDNN: attention or its gradients in the case's element type, accumulated in f32. Arguments: see [`AttentionPass`].
    Attention(Attention),
    /// cuFFT: Fourier transforms in f32. Arguments: input, result.
    Fourier(Fourier),
}

/// Workspace of a GEMM, in device memory: NVIDIA's recommendation for Hopper.
pub const GEMM_WORKSPACE: Bytes = Bytes(32 << 20);

impl Library {
    /// Name of the call in traces and profiles.
    pub fn name(self) -> &'static str {
        match self {
            Library::Gemm(..) => "cublaslt_matmul",
            Library::Conv(Convolution { pass: ConvPass::Forward { .. }, .. }) => "cudnn_forward",
            Library::Conv(Convolution { pass: ConvPass::Image, .. }) => "cudnn_backward_data",
            Library::Conv(Convolution { pass: ConvPass::Kernels, .. }) => "cudnn_backward_filter",
            Library::Attention(Attention { pass: AttentionPass::Forward { .. }, .. }) => "cudnn_attention",
            Library::Attention(Attention { pass: AttentionPass::Backward, .. }) => "cudnn_attention_backward",
            Library::Fourier(Fourier { real: false, .. }) => "cufft_complex",
            Library::Fourier(Fourier { real: true, .. }) => "cufft_real",
        }
    }

    /// Upper limit of its workspace in device memory. For convolutions it has room for Winograd's transforms at the sizes
    /// measured here.
    pub fn most_workspace(self) -> Bytes {
        match self {
            Library::Gemm(..) => GEMM_WORKSPACE,
            Library::Conv(_) => Bytes(256 << 20),
            Library::Attention(attention) => attention.most_workspace(),
            Library::Fourier(fourier) => fourier.most_workspace(),
        }
    }
}

/// Fourier transforms of dense arrays by the vendor's library, without a scale. A complex number is two neighbouring floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fourier {
    /// Transforms.
    pub batch: u64,
    /// Rows of a transform of two dimensions; one for one dimension.
    pub rows: u64,
    /// Elements of a row.
    pub columns: u64,
    /// Whether the input is real. The result is then the first half of the spectrum of each row, and one element more.
    pub real: bool,
    /// Whether the sign in the exponent is positive.
    pub inverse: bool,
}

impl Fourier {
    /// Upper limit of the workspace: room for two copies of the data, and for tables. Lengths with large prime factors are extended
    /// to more than twice as many elements.
    fn most_workspace(&self) -> Bytes {
        Bytes((64 << 20) + 2 * 8 * 4 * self.batch * self.rows * self.columns)
    }
}

/// Convolution by the vendor's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Extents, stride, padding, dilation, groups and layout. The layout of kernels is that of [`Conv::w_dims()`].
    pub conv: Conv,
    /// Tensor that is computed.
    pub pass: ConvPass,
    /// Choice of the engine.
    pub choice: Choice,
}

/// Tensor of a convolution that is computed, and the arguments of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvPass {
    /// Result. Arguments: image, kernels, result, and the bias of the output channels if there is one.
    Forward {
        /// Adds a bias per output channel.
        bias: bool,
        /// Applies ReLU: negative results become zero.
        relu: bool,
    },
    /// Gradient of the image. Arguments: kernels, gradient of the result, gradient of the image.
    Image,
    /// Gradient of the kernels. Arguments: image, gradient of the result, gradient of the kernels.
    Kernels,
}

/// Attention by the vendor's library: `softmax(Q Kᵀ/√d + mask) V` for every head, or its gradients. All tensors are dense:
/// `[batch, heads, rows, dim]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Batch items.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: u64,
    /// Queries per head.
    pub queries: u64,
    /// Keys per head.
    pub keys: u64,
    /// Elements of a query, key and value.
    pub dim: u64,
    /// Causal mask: query `i` sees key `j` if `j <= i + (keys - queries)`.
    pub causal: bool,
    /// Keys up to the causal mask that a query sees; 0 for all.
    pub window: u64,
    /// Whether each batch item has its own number of keys.
    pub padded: bool,
    /// Whether a mask `[queries, keys]` is added to the scaled scores.
    pub biased: bool,
    /// Tensors that are computed.
    pub pass: AttentionPass,
    /// Choice of the engine.
    pub choice: Choice,
}

/// Tensors of attention that are computed, and the arguments of the call. Two optional arguments follow the others: the numbers
/// of keys of the batch items (u32), and the mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionPass {
    /// Result. Arguments: queries, keys, values, result, and last the log-sum-exp of every row of scores (f32).
    Forward {
        /// Whether the log-sum-exp is an argument.
        lse: bool,
    },
    /// Gradients. Arguments: queries, keys, values, result, gradient of the result, log-sum-exp of every row of scores (f32),
    /// gradients of queries, of keys, of values.
    Backward,
}

impl Attention {
    /// Number of the call's arguments.
    pub fn buffers(&self) -> usize {
        let always = match self.pass {
            AttentionPass::Forward { lse } => 4 + usize::from(lse),
            AttentionPass::Backward => 9,
        };
        always + usize::from(self.padded) + usize::from(self.biased)
    }

    /// Upper limit of the workspace. It has room for query gradients in f32 and one number per row. It also has room for key
    /// gradients of every query head, and for an engine's own data.
    fn most_workspace(&self) -> Bytes {
        let rows = self.batch * self.heads * self.queries;
        let keys = self.batch * self.heads * self.keys * self.dim;
        match self.pass {
            AttentionPass::Forward { .. } => Bytes(64 << 20),
            AttentionPass::Backward => Bytes((64 << 20) + 8 * rows * (self.dim + 1) + 8 * keys),
        }
    }

    /// Checks whether the library can compute it in this element type. Its fused engines need 16-bit elements and rows of whole
    /// 16 bytes. A causal mask must leave every query a key. With a number of keys per batch item, its causal mask differs from
    /// ours.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn available(&self, dtype: DType) -> Result<(), String> {
        if dtype == DType::F32 {
            return Err("cuDNN computes attention in f16 and bf16 only".to_owned());
        }
        if !self.dim.is_multiple_of(8) || self.dim > 256 {
            return Err(format!("cuDNN takes heads of up to 256 elements, a multiple of 8, not of {}", self.dim));
        }
        if self.causal && self.queries > self.keys {
            return Err("cuDNN's causal mask needs a key for every query".to_owned());
        }
        if self.causal && self.padded && self.queries != self.keys {
            return Err("cuDNN aligns the causal mask to each batch item's own last key".to_owned());
        }
        if self.window > 0 && self.padded {
            return Err("cuDNN's window needs a key for every query: lengths may leave some without".to_owned());
        }
        Ok(())
    }
}

/// Choice among the library's engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// First engine in the order of the library's heuristic that can compute it.
    Heuristic,
    /// Fastest of the engines that the heuristic offers, timed when the case is prepared.
    Timed,
}

/// Returns the two cuDNN variants of a specification, from its programs with either choice.
pub fn by_cudnn(heuristic: Make, timed: Make) -> [Variant; 2] {
    [
        Variant::kernel(
            "vendor",
            "the vendor's library, cuDNN, by the engine that its heuristic puts first; stages that it has no call for are ours",
            heuristic,
        ),
        Variant::kernel(
            "vendor_tuned",
            "the same by the fastest of the engines that the heuristic offers, timed when the case is prepared",
            timed,
        ),
    ]
    .map(|variant| variant.only_in(&[Dialect::Cuda]))
}

type Make = fn(&Problem, &Caps) -> Program;

impl Convolution {
    /// Returns a stage on these buffers: first and second operand, and the result.
    pub fn stage(self, [a, b, result]: [&'static str; 3]) -> Stage {
        let bias = match self.pass {
            ConvPass::Forward { bias: true, .. } => Some(("bias", Read)),
            _ => None,
        };
        let call = Library::Conv(self);
        Stage::library(call.name(), call).args([(a, Read), (b, Read), (result, Write)].into_iter().chain(bias))
    }
}

/// Returns a stage that transposes the kernels of a depthwise convolution with channels last. Our channels are the last index of
/// kernels and images; the library's are the first of kernels. The direction is `[taps, channels]` to `[channels, taps]`, or the
/// reverse.
pub fn transposed_kernels(
    conv: &Conv,
    to_library: bool,
    dtype: DType,
    caps: &Caps,
    buffers: [&'static str; 2],
) -> Stage {
    let (taps, channels) = (conv.taps(), conv.channels[1]);
    let [rows, columns] = if to_library { [taps, channels] } else { [channels, taps] };
    let order = Rearrange {
        extents: [1, rows, columns, 1],
        from: [0, columns, 1],
        to: [0, 1, rows],
        first_from: 0,
        first_to: 0,
    };
    order.stage(dtype, caps, buffers).label("turned")
}
