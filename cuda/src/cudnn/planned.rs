//! A graph with its engine, its device memory and its launch.

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use parallax_ir::device::BackendError;

use super::descriptor::Descriptor;
use super::engines::Engine;
use super::graph::{Described, Graph, TensorSource};
use super::{Open, PlanContext};
use crate::memory::Buffer;

/// Alignment of tensors in the plan's own memory, in bytes.
const ALIGNMENT: u64 = 256;

/// A graph in the library's form, with the graph's own memory.
pub(super) struct Wired {
    pub(super) described: Described,
    /// Identifier and storage of each tensor that is in memory or passed with the launch.
    bound: Vec<(i64, Bound)>,
    arguments: usize,
    /// Memory of the tensors that are not arguments.
    own: Option<Buffer>,
    /// Last field, so that the library's handle is dropped after the objects made with it.
    open: Rc<Open>,
}

/// Storage of a tensor in a launch.
enum Bound {
    Argument(usize),
    Own(CUdeviceptr),
    /// A number on the host, read at the launch.
    Number(Box<[u8; 4]>),
}

impl Wired {
    /// Passes a graph to the library, and allocates its tensors that are not arguments.
    pub(super) fn new(open: Rc<Open>, graph: &Graph, place: &PlanContext<'_>) -> Result<Wired, BackendError> {
        let described = graph.describe(open.api, Some(open.handle.object()))?;
        let own = |source| matches!(source, TensorSource::Own | TensorSource::OwnFilled(_));
        let mut bytes = 0u64;
        let mut offsets = Vec::new();
        for tensor in graph.tensors() {
            offsets.push(bytes);
            if own(tensor.source) {
                bytes += tensor.bytes().next_multiple_of(ALIGNMENT);
            }
        }
        let memory = match bytes {
            0 => None,
            _ => Some(Buffer::new(place.context, place.ledger, "tensors of the library's own", bytes)?),
        };
        let first = memory.as_ref().map_or(0, Buffer::pointer);
        let mut bound = Vec::new();
        for ((id, tensor), offset) in (0..).zip(graph.tensors()).zip(offsets) {
            let what = match tensor.source {
                TensorSource::Virtual => continue,
                TensorSource::Argument(position) => Bound::Argument(position),
                TensorSource::Float(value) => Bound::Number(Box::new(value.to_ne_bytes())),
                TensorSource::Integer(value) => Bound::Number(Box::new(value.to_ne_bytes())),
                TensorSource::Own => Bound::Own(first + offset),
                TensorSource::OwnFilled(value) => {
                    let count = tensor.bytes().div_ceil(4);
                    let words: Vec<u8> = (0..count).flat_map(|_| value.to_ne_bytes()).collect();
                    memory.as_ref().expect("allocated for it").write(offset, &words)?;
                    Bound::Own(first + offset)
                }
            };
            bound.push((id, what));
        }
        let arguments = bound.iter().filter(|(_, what)| matches!(what, Bound::Argument(_))).count();
        Ok(Wired { described, bound, arguments, own: memory, open })
    }

    /// Returns the variant pack of a launch: the tensors on these arguments, and the workspace.
    fn pack(&self, arguments: &[CUdeviceptr], workspace: CUdeviceptr) -> Result<Descriptor, BackendError> {
        let on_device = |pointer: CUdeviceptr| std::ptr::with_exposed_provenance_mut::<c_void>(pointer as usize);
        let address = |what: &Bound| match what {
            Bound::Argument(position) => on_device(arguments[*position]),
            Bound::Own(pointer) => on_device(*pointer),
            Bound::Number(bytes) => bytes.as_ptr().cast_mut().cast(),
        };
        let ids: Vec<i64> = self.bound.iter().map(|(id, _)| *id).collect();
        let addresses: Vec<*mut c_void> = self.bound.iter().map(|(_, what)| address(what)).collect();
        let pack = Descriptor::new(self.open.api, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.integers(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)?;
        pack.addresses(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &addresses)?;
        pack.addresses(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[on_device(workspace)])?;
        pack.finalized("describing the arguments")
    }
}

/// An execution plan: an engine's compiled kernels, and their workspace.
pub(super) struct Execution {
    plan: Descriptor,
    pub(super) name: String,
    pub(super) workspace: Option<Buffer>,
    /// The engine that the plan refers to.
    _engine: Engine,
}

impl Execution {
    /// Creates the plan of an engine, with at most `most` bytes of memory.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] where the engine cannot compute the graph or needs more memory.
    pub(super) fn new(
        wired: &Wired,
        engine: Engine,
        most: u64,
        place: &PlanContext<'_>,
    ) -> Result<Execution, BackendError> {
        let plan = Descriptor::new(wired.open.api, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.handle(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, wired.open.handle.object())?;
        plan.descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[&engine.config])?;
        let plan = plan.finalized("making the kernels")?;
        let bytes = plan.integer(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let bytes = u64::try_from(bytes).unwrap_or(0);
        let own = wired.own.as_ref().map_or(0, Buffer::bytes);
        if bytes + own > most {
            return Err(BackendError::Unsupported(format!("{} bytes of workspace are more than {most}", bytes + own)));
        }
        let workspace = match bytes {
            0 => None,
            _ => Some(Buffer::new(place.context, place.ledger, "the library's workspace", bytes)?),
        };
        let name = engine.name.clone();
        Ok(Execution { plan, name, workspace, _engine: engine })
    }
}

/// A graph and its execution plan.
pub(crate) struct Planned {
    execution: Execution,
    chosen: String,
    /// Variant pack of each set of arguments seen so far.
    packs: RefCell<Vec<(Vec<CUdeviceptr>, Descriptor)>>,
    wired: Rc<Wired>,
}

impl Planned {
    pub(super) fn new(wired: Rc<Wired>, execution: Execution) -> Planned {
        Planned { execution, chosen: String::new(), packs: RefCell::default(), wired }
    }

    /// Sets the reason for the choice of the engine.
    pub(super) fn chosen(self, chosen: String) -> Planned {
        Planned { chosen, ..self }
    }

    /// The library's version, and the engine with the reason for its choice, for messages.
    pub(crate) fn sentences(&self) -> [String; 2] {
        let bytes = self.execution.workspace.as_ref().map_or(0, Buffer::bytes);
        let own = self.wired.own.as_ref().map_or(0, Buffer::bytes);
        let Execution { name, .. } = &self.execution;
        let version = self.wired.open.api.version();
        [version, format!("cuDNN {name}, {} bytes of workspace, {}", bytes + own, self.chosen)]
    }

    /// Number of arguments of a launch.
    pub(crate) fn buffers(&self) -> usize {
        self.wired.arguments
    }

    /// Queues the plan on the stream.
    ///
    /// # Safety
    /// The context is current. The memory is that of the plan's arguments, in order, with the size of their extents. The memory and
    /// `self` stay alive until the stream has been synchronised.
    pub(crate) unsafe fn launch(&self, arguments: &[CUdeviceptr], stream: CUstream) -> Result<(), BackendError> {
        let mut packs = self.packs.borrow_mut();
        let known = packs.iter().position(|(known, _)| known == arguments);
        let at = match known {
            Some(at) => at,
            None => {
                let workspace = self.execution.workspace.as_ref().map_or(0, Buffer::pointer);
                packs.push((arguments.to_vec(), self.wired.pack(arguments, workspace)?));
                packs.len() - 1
            }
        };
        let (open, plan, pack) = (&self.wired.open, self.execution.plan.object(), packs[at].1.object());
        // SAFETY: handle and descriptors are alive; the call reads the numbers on the host before it returns; the workspace has the
        // size that the library requested; the caller guarantees the rest.
        unsafe {
            open.api.check("choosing the stream", (open.api.set_stream)(open.handle.object(), stream))?;
            open.api.check("launching", (open.api.execute)(open.handle.object(), plan, pack))
        }
    }
}
