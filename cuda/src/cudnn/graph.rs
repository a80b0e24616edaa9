//! A computation as a graph of tensors and operations. It is plain data, which [`Graph::describe`] passes to the library.

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnConvolutionMode_t, cudnnDataType_t, cudnnNanPropagation_t,
};

pub(super) use cudarc::cudnn::sys::{
    cudnnDataType_t as Element, cudnnPointwiseMode_t as Mode, cudnnReduceTensorOp_t as Reduce,
};
use parallax_ir::device::BackendError;
use parallax_schema::case::DType;

use super::api::Api;
use super::descriptor::Descriptor;
use crate::ffi::Object;

/// Position of a tensor in a graph. It is also the tensor's identifier in the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(usize);

/// Element type, layout and storage of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub(super) element: Element,
    pub(super) extents: Vec<i64>,
    /// Distance of neighbours along each extent, in elements.
    pub(super) strides: Vec<i64>,
    pub(super) source: TensorSource,
}

/// Storage of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TensorSource {
    /// The launch argument at this position.
    Argument(usize),
    /// No memory.
    Virtual,
    /// A number passed with the launch.
    Float(f32),
    /// An integer passed with the launch.
    Integer(i32),
    /// Device memory of the plan, uninitialised.
    Own,
    /// Device memory of the plan, filled with this 32-bit integer.
    OwnFilled(i32),
}

/// An operation between tensors.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation {
    /// `c = a·b` over the last two extents. `sizes` holds M, N and K of each batch item, where they differ.
    Gemm { a: Id, b: Id, c: Id, sizes: [Option<Id>; 3] },
    /// `y = mode(x, b)`, or `t ? x : b`. An index counts along `axis`. `precision` is the type of the computation.
    Pointwise { mode: Mode, precision: Element, axis: Option<i64>, x: Id, b: Option<Id>, t: Option<Id>, y: Id },
    /// `y` is the sum or the maximum of `x` along the extents in which `y` is one.
    Reduction { operator: Reduce, x: Id, y: Id },
    /// `y` is `x` with its extents and strides in another order.
    Reshape { x: Id, y: Id },
    /// A convolution, or one of its gradients, between image, kernels and result.
    Convolution { pass: Pass, image: Id, kernels: Id, result: Id, window: Window },
}

/// Output of a convolution among its three tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Result,
    Image,
    Kernels,
}

/// Padding, stride and dilation of a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) padding: Vec<i64>,
    pub(super) stride: Vec<i64>,
    pub(super) dilation: Vec<i64>,
}

/// A graph under construction.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Graph {
    tensors: Vec<Tensor>,
    operations: Vec<Operation>,
}

impl Graph {
    /// Tensors, indexed by identifier.
    pub(super) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    pub(super) fn tensor(&mut self, tensor: Tensor) -> Id {
        self.tensors.push(tensor);
        Id(self.tensors.len() - 1)
    }

    /// Adds a number that the launch passes.
    pub(super) fn float(&mut self, value: f32) -> Id {
        self.scalar(Element::CUDNN_DATA_FLOAT, TensorSource::Float(value))
    }

    /// Adds an integer that the launch passes.
    pub(super) fn integer(&mut self, value: i32) -> Id {
        self.scalar(Element::CUDNN_DATA_INT32, TensorSource::Integer(value))
    }

    fn scalar(&mut self, element: Element, source: TensorSource) -> Id {
        self.tensor(Tensor { element, extents: vec![1; 4], strides: vec![1; 4], source })
    }

    /// Adds a virtual tensor, dense in the order of its extents.
    pub(super) fn between(&mut self, element: Element, extents: &[i64]) -> Id {
        let strides = dense(extents);
        self.tensor(Tensor { element, extents: extents.to_vec(), strides, source: TensorSource::Virtual })
    }

    /// Adds a virtual tensor with the extents and strides of another.
    fn like(&mut self, element: Element, other: Id) -> Id {
        let Tensor { extents, strides, .. } = self.tensors[other.0].clone();
        self.tensor(Tensor { element, extents, strides, source: TensorSource::Virtual })
    }

    pub(super) fn operation(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Adds the GEMM `a·b` into `c`, with M, N and K of each batch item where they differ.
    pub(super) fn product(&mut self, [a, b, c]: [Id; 3], sizes: [Option<Id>; 3]) {
        self.operation(Operation::Gemm { a, b, c, sizes });
    }

    /// Adds `mode(x, b)` in f32, with the extents of `x`.
    pub(super) fn pointwise(&mut self, mode: Mode, x: Id, b: impl Into<Option<Id>>) -> Id {
        let y = self.like(Element::CUDNN_DATA_FLOAT, x);
        self.pointwise_into(mode, x, b, y);
        y
    }

    /// Adds `mode(x, b)` in f32, into an existing tensor.
    pub(super) fn pointwise_into(&mut self, mode: Mode, x: Id, b: impl Into<Option<Id>>, y: Id) {
        let precision = Element::CUDNN_DATA_FLOAT;
        self.operation(Operation::Pointwise { mode, precision, axis: None, x, b: b.into(), t: None, y });
    }

    /// Adds the integer position of every element of `x` along `axis`, computed in `precision`.
    pub(super) fn index(&mut self, x: Id, axis: i64, precision: Element) -> Id {
        let (mode, y) = (Mode::CUDNN_POINTWISE_GEN_INDEX, self.like(Element::CUDNN_DATA_INT32, x));
        self.operation(Operation::Pointwise { mode, precision, axis: Some(axis), x, b: None, t: None, y });
        y
    }

    /// Adds a sum or difference of integers.
    pub(super) fn integers(&mut self, mode: Mode, x: Id, b: Id) -> Id {
        let (precision, y) = (Element::CUDNN_DATA_INT32, self.like(Element::CUDNN_DATA_INT32, x));
        self.operation(Operation::Pointwise { mode, precision, axis: None, x, b: Some(b), t: None, y });
        y
    }

    /// Adds a truth value for each element of `x`: a comparison or logical operation with `b`.
    pub(super) fn truth(&mut self, mode: Mode, x: Id, b: Id) -> Id {
        let (precision, y) = (Element::CUDNN_DATA_BOOLEAN, self.like(Element::CUDNN_DATA_BOOLEAN, x));
        self.operation(Operation::Pointwise { mode, precision, axis: None, x, b: Some(b), t: None, y });
        y
    }

    /// Adds `t ? x : b`.
    pub(super) fn select(&mut self, t: Id, x: Id, b: Id) -> Id {
        let (precision, y) = (Element::CUDNN_DATA_FLOAT, self.like(Element::CUDNN_DATA_FLOAT, x));
        let mode = Mode::CUDNN_POINTWISE_BINARY_SELECT;
        self.operation(Operation::Pointwise { mode, precision, axis: None, x, b: Some(b), t: Some(t), y });
        y
    }

    /// Adds a reduction of `x` to the extents of `y`.
    pub(super) fn reduce(&mut self, operator: Reduce, x: Id, y: Id) {
        self.operation(Operation::Reduction { operator, x, y });
    }

    /// Adds a virtual transpose of `x` over its last two extents, with this element type.
    pub(super) fn transposed(&mut self, x: Id, element: Element) -> Id {
        let Tensor { mut extents, mut strides, .. } = self.tensors[x.0].clone();
        let last = extents.len() - 1;
        extents.swap(last - 1, last);
        strides.swap(last - 1, last);
        let y = self.tensor(Tensor { element, extents, strides, source: TensorSource::Virtual });
        self.operation(Operation::Reshape { x, y });
        y
    }

    /// Changes the element type of a tensor.
    pub(super) fn of_element(&mut self, tensor: Id, element: Element) {
        self.tensors[tensor.0].element = element;
    }

    /// Returns the graph's descriptors for a device's handle. The handle is `None` where the device is only described.
    pub(super) fn describe(&self, api: &'static Api, handle: Option<Object>) -> Result<Described, BackendError> {
        let tensors = (0..).zip(&self.tensors).map(|(id, tensor)| tensor.describe(api, id));
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        let mut parts = Vec::new();
        let operations = self.operations.iter().map(|operation| operation.describe(api, &tensors, &mut parts));
        let operations = operations.collect::<Result<Vec<_>, _>>()?;
        let graph = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations.iter().collect::<Vec<_>>())?;
        if let Some(handle) = handle {
            graph.handle(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)?;
        }
        let graph = graph.finalized("describing the computation")?;
        Ok(Described { graph, _operations: operations, _parts: parts, _tensors: tensors })
    }
}

/// A graph's descriptors, which refer to each other. The graph is dropped first.
pub(super) struct Described {
    pub(super) graph: Descriptor,
    _operations: Vec<Descriptor>,
    _parts: Vec<Descriptor>,
    _tensors: Vec<Descriptor>,
}

/// Alignment of every tensor's memory, in bytes: that of the suite's buffers.
const ALIGNMENT: i64 = 16;

impl Tensor {
    /// Bytes of device memory from the first element to the last.
    pub(super) fn bytes(&self) -> u64 {
        let last: i64 = self.extents.iter().zip(&self.strides).map(|(extent, stride)| (extent - 1) * stride).sum();
        let element = match self.element {
            Element::CUDNN_DATA_HALF | Element::CUDNN_DATA_BFLOAT16 => 2,
            _ => 4,
        };
        (last.max(0) as u64 + 1) * element
    }

    fn describe(&self, api: &'static Api, id: i64) -> Result<Descriptor, BackendError> {
        let tensor = Descriptor::new(api, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
        tensor.choice(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, self.element as u32)?;
        tensor.integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &self.extents)?;
        tensor.integers(Name::CUDNN_ATTR_TENSOR_STRIDES, &self.strides)?;
        tensor.integers(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[id])?;
        tensor.integers(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT])?;
        match self.source {
            TensorSource::Virtual => tensor.flag(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, true)?,
            TensorSource::Float(_) | TensorSource::Integer(_) => {
                tensor.flag(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, true)?
            }
            TensorSource::Argument(_) | TensorSource::Own | TensorSource::OwnFilled(_) => {}
        }
        tensor.finalized("describing a tensor")
    }
}

impl Operation {
    /// Returns the descriptor of the operation. `parts` receives the descriptors that it refers to, except tensors.
    fn describe(
        &self,
        api: &'static Api,
        tensors: &[Descriptor],
        parts: &mut Vec<Descriptor>,
    ) -> Result<Descriptor, BackendError> {
        let given = |operation: &Descriptor, of: &[(Name, Id)]| {
            of.iter().try_for_each(|(name, id)| operation.descriptors(*name, &[&tensors[id.0]]))
        };
        let precision =
            |part: &Descriptor, name, element: Element| part.choice(name, Type::CUDNN_TYPE_DATA_TYPE, element as u32);
        let float = Element::CUDNN_DATA_FLOAT;
        let (operation, part) = match self {
            Operation::Gemm { a, b, c, sizes } => {
                let part = Descriptor::new(api, Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?;
                precision(&part, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, float)?;
                let part = part.finalized("describing a product")?;
                let operation = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?;
                operation.descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[&part])?;
                let operands = [
                    (Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a),
                    (Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b),
                    (Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c),
                ];
                given(&operation, &operands)?;
                let names = [
                    Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                    Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                    Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
                ];
                for (name, size) in names.into_iter().zip(sizes) {
                    given(&operation, &size.map(|size| (name, size)).into_iter().collect::<Vec<_>>())?;
                }
                (operation, Some(part))
            }
            Operation::Pointwise { mode, precision: computed, axis, x, b, t, y } => {
                let part = Descriptor::new(api, Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
                part.choice(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, *mode as u32)?;
                precision(&part, Name::CUDNN_ATTR_POINTWISE_MATH_PREC, *computed)?;
                if let Some(axis) = axis {
                    part.integers(Name::CUDNN_ATTR_POINTWISE_AXIS, &[*axis])?;
                }
                if *mode == Mode::CUDNN_POINTWISE_RELU_FWD {
                    let keep = cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN as u32;
                    let (name, kind) = (Name::CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, Type::CUDNN_TYPE_NAN_PROPOGATION);
                    part.choice(name, kind, keep)?;
                    part.double(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0.0)?;
                    part.double(Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, f64::from(f32::MAX))?;
                    part.double(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0)?;
                }
                let part = part.finalized("describing a pointwise operation")?;
                let operation = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
                operation.descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&part])?;
                let operands = [
                    (Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Some(*x)),
                    (Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b),
                    (Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t),
                    (Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, Some(*y)),
                ];
                let operands: Vec<_> = operands.into_iter().filter_map(|(name, id)| Some((name, id?))).collect();
                given(&operation, &operands)?;
                (operation, Some(part))
            }
            Operation::Reduction { operator, x, y } => {
                let part = Descriptor::new(api, Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?;
                let kind = Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
                part.choice(Name::CUDNN_ATTR_REDUCTION_OPERATOR, kind, *operator as u32)?;
                precision(&part, Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, float)?;
                let part = part.finalized("describing a reduction")?;
                let operation = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)?;
                operation.descriptors(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &[&part])?;
                let operands = [
                    (Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x),
                    (Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y),
                ];
                given(&operation, &operands)?;
                (operation, Some(part))
            }
            Operation::Reshape { x, y } => {
                let operation = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)?;
                let operands =
                    [(Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x), (Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y)];
                given(&operation, &operands)?;
                (operation, None)
            }
            Operation::Convolution { pass, image, kernels, result, window } => {
                let part = window.describe(api)?;
                let (kind, names) = names_of(*pass);
                let operation = Descriptor::new(api, kind)?;
                let [of_window, of_image, of_kernels, of_result, alpha, beta] = names;
                operation.descriptors(of_window, &[&part])?;
                given(&operation, &[(of_image, *image), (of_kernels, *kernels), (of_result, *result)])?;
                operation.float(alpha, 1.0)?;
                operation.float(beta, 0.0)?;
                (operation, Some(part))
            }
        };
        parts.extend(part);
        operation.finalized("describing an operation")
    }
}

impl Window {
    fn describe(&self, api: &'static Api) -> Result<Descriptor, BackendError> {
        let window = Descriptor::new(api, Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
        let correlation = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION as u32;
        window.integers(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[self.padding.len() as i64])?;
        let sums = cudnnDataType_t::CUDNN_DATA_FLOAT as u32;
        window.choice(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, sums)?;
        let mode = Type::CUDNN_TYPE_CONVOLUTION_MODE;
        window.choice(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, mode, correlation)?;
        window.integers(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &self.padding)?;
        window.integers(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &self.padding)?;
        window.integers(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &self.stride)?;
        window.integers(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &self.dilation)?;
        window.finalized("describing a window")
    }
}

/// Returns the operation of a pass, and the attribute names of its window, image, kernels, result and both scale factors.
fn names_of(pass: Pass) -> (Kind, [Name; 6]) {
    match pass {
        Pass::Result => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        Pass::Image => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        Pass::Kernels => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    }
}

/// Returns the strides of a dense tensor, with the last extent innermost.
pub(super) fn dense(extents: &[i64]) -> Vec<i64> {
    (0..extents.len()).map(|axis| extents[axis + 1..].iter().product()).collect()
}

/// Returns the library's name of an element type.
pub(super) fn element(dtype: DType) -> Element {
    match dtype {
        DType::F32 => Element::CUDNN_DATA_FLOAT,
        DType::F16 => Element::CUDNN_DATA_HALF,
        DType::BF16 => Element::CUDNN_DATA_BFLOAT16,
    }
}
