//! GEMMs of NVIDIA's library cuBLASLt, loaded at run time.
//!
//! The library uses column-major order. A dense row-major matrix, read in column-major order, is its transpose. So the row-major
//! GEMM `C = A·B` is requested as `Cᵀ = Bᵀ·Aᵀ`: the operands are swapped, and no matrix is transposed in memory.

mod api;

use std::cell::OnceCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

pub(crate) use api::WANTED;
use api::{Api, Heuristic, api, make};
use cudarc::cublaslt::sys::{
    self, cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use parallax_ir::device::BackendError;
use parallax_ir::{GEMM_WORKSPACE, Gemm, Layout, LibraryEpilogue};
use parallax_schema::case::DType;

use crate::ffi::{Object, Owned};

/// Workspace limit of a GEMM, in bytes of device memory.
pub(crate) const WORKSPACE: u64 = GEMM_WORKSPACE.0;

/// The library, initialised for the device at its first use.
#[derive(Default)]
pub(crate) struct CublasLt {
    open: OnceCell<Rc<Open>>,
}

struct Open {
    api: &'static Api,
    handle: Owned,
}

impl CublasLt {
    /// Returns the library, and initialises it at the first call. The device's context is current.
    fn open(&self) -> Result<Rc<Open>, BackendError> {
        if let Some(open) = self.open.get() {
            return Ok(open.clone());
        }
        let api = api()?;
        // SAFETY: the calls are a pair; the caller made the context current; the argument outlives the call.
        let handle = unsafe { make("setting up", api, api.destroy, |object| (api.create)(object)) }?;
        Ok(self.open.get_or_init(|| Rc::new(Open { api, handle })).clone())
    }

    /// Plans a GEMM with its epilogue, with the first algorithm of the library's heuristic. The device's context is current.
    ///
    /// # Errors
    /// [`BackendError::Refused`] when the library is not installed, or cannot compute this GEMM here.
    pub(crate) fn plan(
        &self,
        dtype: DType,
        wanted: Gemm,
        epilogue: LibraryEpilogue,
    ) -> Result<PlannedGemm, BackendError> {
        let open = self.open()?;
        let api = open.api;
        // f32 inputs use f32 arithmetic, not the tensor cores' 19 bits; 16-bit inputs accumulate in f32.
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F as c_int;
        let scale = sys::cudaDataType::CUDA_R_32F as c_int;
        let create = |object| {
            // SAFETY: the argument outlives the call.
            unsafe { (api.product)(object, compute, scale) }
        };
        // SAFETY: the calls are a pair.
        let product = unsafe { make("describing a product", api, api.product_destroy, create) }?;
        let [first, second, result] = operands(wanted);
        for (attribute, operand) in
            [(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, first), (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, second)]
        {
            set(api, api.product_set, &product, attribute as c_int, &operand.operation())?;
        }
        set(api, api.product_set, &product, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE as c_int, &code(epilogue))?;
        let layout = |Columns { rows, columns, .. }: Columns, storage: c_int| {
            let create = |object| {
                // SAFETY: the argument outlives the call.
                unsafe { (api.layout)(object, storage, rows, columns, rows as i64) }
            };
            // SAFETY: the calls are a pair.
            let layout = unsafe { make("describing a matrix", api, api.layout_destroy, create) }?;
            let (count, apart) = (wanted.batch as i32, (rows * columns) as i64);
            set(api, api.layout_set, &layout, LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as c_int, &count)?;
            set(
                api,
                api.layout_set,
                &layout,
                LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as c_int,
                &apart,
            )?;
            Ok(layout)
        };
        // Codes are summed by the precise mode, in which partial sums of tensor cores are added in f32: fast accumulation is off
        // unless requested.
        let usual = sys::cudaDataType::CUDA_R_8F_E4M3 as c_int;
        // The library has B first.
        let factors = match epilogue {
            LibraryEpilogue::Scaled { e5m2: true } => [usual, sys::cudaDataType::CUDA_R_8F_E5M2 as c_int],
            LibraryEpilogue::Scaled { e5m2: false } => [usual; 2],
            _ => [storage(dtype); 2],
        };
        let layouts = [layout(first, factors[0])?, layout(second, factors[1])?, layout(result, storage(dtype))?];
        let algorithm = algorithm(&open, &product, &layouts).map_err(|error| match error {
            BackendError::Unsupported(why) => {
                BackendError::Refused(format!("{why}: no way to compute {wanted:?} with {epilogue:?} in {dtype:?}"))
            }
            other => other,
        })?;
        Ok(PlannedGemm { layouts, product, algorithm, epilogue, open })
    }
}

/// Returns the heuristic's first algorithm within the workspace.
fn algorithm(open: &Open, product: &Owned, layouts: &[Owned; 3]) -> Result<sys::cublasLtMatmulAlgo_t, BackendError> {
    let api = open.api;
    let create = |object| {
        // SAFETY: the argument outlives the call.
        unsafe { (api.preference)(object) }
    };
    // SAFETY: the calls are a pair.
    let preference = unsafe { make("choosing an algorithm", api, api.preference_destroy, create) }?;
    let limit = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as c_int;
    let bytes = WORKSPACE;
    // SAFETY: the attribute is eight bytes long, which are copied before the call returns.
    let set =
        unsafe { (api.preference_set)(preference.object(), limit, (&raw const bytes).cast(), size_of_val(&bytes)) };
    api.check("limiting the workspace", set)?;

    let nothing = sys::cublasLtMatmulAlgo_t { data: [0; 8] };
    let mut best = Heuristic { algorithm: nothing, workspace: 0, status: 0, waves: 0.0, reserved: [0; 4] };
    let mut found = 0;
    let [first, second, result] = layouts.each_ref().map(|layout| layout.object());
    // SAFETY: all objects are alive, and there is room for the one requested algorithm.
    let status = unsafe {
        (api.heuristic)(
            open.handle.object(),
            product.object(),
            first,
            second,
            result,
            result,
            preference.object(),
            1,
            &mut best,
            &mut found,
        )
    };
    api.check("choosing an algorithm", status)?;
    if found < 1 {
        return Err(BackendError::Unsupported("cuBLASLt knows no algorithm".to_owned()));
    }
    api.check("choosing an algorithm", best.status)?;
    Ok(best.algorithm)
}

/// Sets an attribute of an object.
fn set<T>(
    api: &Api,
    setter: unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> c_int,
    object: &Owned,
    attribute: c_int,
    value: &T,
) -> Result<(), BackendError> {
    // SAFETY: the object is alive; the value has the attribute's size, and is copied before the call returns.
    let status = unsafe { setter(object.object(), attribute, std::ptr::from_ref(value).cast(), size_of::<T>()) };
    api.check("describing a product", status)
}

fn code(epilogue: LibraryEpilogue) -> c_int {
    let code = match epilogue {
        // Scales are attributes of the product.
        LibraryEpilogue::Plain | LibraryEpilogue::Scaled { .. } => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
        LibraryEpilogue::Bias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
        LibraryEpilogue::BiasGelu => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS,
    };
    code as c_int
}

/// A dense matrix in column-major order, as the library sees it. `transposed` selects its transpose as the operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    rows: u64,
    columns: u64,
    transposed: bool,
}

impl Columns {
    /// Returns the `cublasOperation_t`: not transposed, or transposed.
    fn operation(self) -> c_int {
        c_int::from(self.transposed)
    }
}

/// Returns the operands of `Cᵀ = Bᵀ·Aᵀ` in the library's order: B's memory, A's, then C's.
fn operands(Gemm { m, n, k, layout, .. }: Gemm) -> [Columns; 3] {
    let plain = |rows, columns| Columns { rows, columns, transposed: false };
    let transposed = |rows, columns| Columns { rows, columns, transposed: true };
    let first = if layout == Layout::Nt { transposed(k, n) } else { plain(n, k) };
    let second = if layout == Layout::Tn { transposed(m, k) } else { plain(k, m) };
    [first, second, plain(n, m)]
}

fn storage(dtype: DType) -> c_int {
    let storage = match dtype {
        DType::F32 => sys::cudaDataType::CUDA_R_32F,
        DType::F16 => sys::cudaDataType::CUDA_R_16F,
        DType::BF16 => sys::cudaDataType::CUDA_R_16BF,
    };
    storage as c_int
}

/// A planned GEMM.
pub(crate) struct PlannedGemm {
    product: Owned,
    layouts: [Owned; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    epilogue: LibraryEpilogue,
    /// Last field, so that the library's handle is dropped after the objects made with it.
    open: Rc<Open>,
}

impl PlannedGemm {
    /// The library's version, for messages.
    pub(crate) fn version(&self) -> String {
        // SAFETY: takes nothing and returns a number.
        let version = unsafe { (self.open.api.version)() };
        format!("cuBLASLt {}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Number of buffers of a launch: the matrices, and those of the epilogue.
    pub(crate) fn buffers(&self) -> usize {
        3 + self.attributes().len()
    }

    /// Attributes that hold the addresses of the epilogue's buffers: the column vector, or the scales of A and of B. The library has
    /// B first.
    fn attributes(&self) -> &'static [Attribute] {
        match self.epilogue {
            LibraryEpilogue::Plain => &[],
            LibraryEpilogue::Bias | LibraryEpilogue::BiasGelu => &[Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER],
            LibraryEpilogue::Scaled { .. } => {
                &[Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER]
            }
        }
    }

    /// Queues `c = a·b` on the stream, with the epilogue's buffers.
    ///
    /// # Safety
    /// The context is current. The pointers are device addresses of the plan's matrices, of the epilogue's buffers and of
    /// [`WORKSPACE`] bytes. The memory stays alive until the stream has been synchronised.
    pub(crate) unsafe fn launch(
        &self,
        [a, b, c]: [CUdeviceptr; 3],
        of_epilogue: impl IntoIterator<Item = CUdeviceptr>,
        workspace: CUdeviceptr,
        stream: CUstream,
    ) -> Result<(), BackendError> {
        for (attribute, pointer) in self.attributes().iter().zip(of_epilogue) {
            set(self.open.api, self.open.api.product_set, &self.product, *attribute as c_int, &pointer)?;
        }
        let (one, zero) = (1.0f32, 0.0f32);
        let [first, second, result] = self.layouts.each_ref().map(|layout| layout.object());
        // SAFETY: all objects are alive; the scale factors are on the host, which is the default, and read before the call returns;
        // the caller guarantees the rest.
        let status = unsafe {
            (self.open.api.matmul)(
                self.open.handle.object(),
                self.product.object(),
                (&raw const one).cast(),
                b,
                first,
                a,
                second,
                (&raw const zero).cast(),
                c,
                result,
                c,
                result,
                &self.algorithm,
                workspace,
                WORKSPACE as usize,
                stream,
            )
        };
        self.open.api.check("multiplying", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::memory::Buffer;

    /// Returns the GEMM in column-major order, as the library computes it: `columns[j * rows + i]` is row i of column j.
    fn by_columns(first: (&[f64], Columns), second: (&[f64], Columns), result: Columns) -> Vec<f64> {
        let at = |(data, of): (&[f64], Columns), row, column| match of.transposed {
            false => data[(column * of.rows + row) as usize],
            true => data[(row * of.rows + column) as usize],
        };
        let depth = if first.1.transposed { first.1.rows } else { first.1.columns };
        let mut out = vec![0.0; (result.rows * result.columns) as usize];
        for j in 0..result.columns {
            for i in 0..result.rows {
                out[(j * result.rows + i) as usize] = (0..depth).map(|l| at(first, i, l) * at(second, l, j)).sum();
            }
        }
        out
    }

    #[test]
    fn a_product_by_columns_of_the_swapped_operands_is_the_product_by_rows() {
        let (m, n, k) = (2, 3, 4);
        let a = |i: u64, l: u64| (i * k + l) as f64;
        let b = |l: u64, j: u64| ((l * n + j) * (l * n + j)) as f64;
        let by_row = |rows, columns, at: &dyn Fn(u64, u64) -> f64| -> Vec<f64> {
            (0..rows * columns).map(|e| at(e / columns, e % columns)).collect()
        };
        let want = by_row(m, n, &|i, j| (0..k).map(|l| a(i, l) * b(l, j)).sum());
        for order in [Layout::Nn, Layout::Nt, Layout::Tn] {
            let left = if order == Layout::Tn { by_row(k, m, &|l, i| a(i, l)) } else { by_row(m, k, &a) };
            let right = if order == Layout::Nt { by_row(n, k, &|j, l| b(l, j)) } else { by_row(k, n, &b) };
            let [first, second, result] = operands(Gemm::new(m, n, k).layout(order));
            assert_eq!(by_columns((&right, first), (&left, second), result), want, "{order:?}");
        }
    }

    /// With a device and a library, the result is the GEMM. Without them, the error is a sentence.
    #[test]
    fn the_librarys_product_is_the_product() {
        let (m, n, k) = (37, 53, 29);
        let device = match Device::open(0) {
            Ok(device) => device,
            Err(error) => return assert!(error.to_string().len() > 40, "not a sentence: {error}"),
        };
        let stream = device.context.new_stream().expect("a stream");
        let library = CublasLt::default();
        let gemm = match library.plan(DType::F32, Gemm::new(m, n, k), LibraryEpilogue::Plain) {
            Ok(gemm) => gemm,
            Err(error) => return assert!(matches!(error, BackendError::Refused(_)), "{error}"),
        };
        // Small integers, whose products are exact in f32.
        let a: Vec<f32> = (0..m * k).map(|x| (x % 7) as f32).collect();
        let b: Vec<f32> = (0..k * n).map(|x| (x % 5) as f32).collect();
        let bytes = |data: &[f32]| data.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        let ledger = Rc::default();
        let buffer = |bytes| Buffer::new(&device.context, &ledger, "test", bytes).expect("memory");
        let buffers = [4 * m * k, 4 * k * n, 4 * m * n].map(buffer);
        let workspace = buffer(WORKSPACE);
        buffers[0].write(0, &bytes(&a)).expect("written");
        buffers[1].write(0, &bytes(&b)).expect("written");
        device.context.synchronize().expect("written");
        // SAFETY: buffers and workspace have the sizes of the plan, and live until the stream was synchronised.
        unsafe { gemm.launch(buffers.each_ref().map(Buffer::pointer), [], workspace.pointer(), stream.cu_stream()) }
            .expect("launched");
        stream.synchronize().expect("done");
        let term = |i: u64, j: u64, l: u64| a[(i * k + l) as usize] * b[(l * n + j) as usize];
        let row = |i: u64| (0..n).map(move |j| (0..k).map(|l| term(i, j, l)).sum::<f32>());
        let want: Vec<f32> = (0..m).flat_map(row).collect();
        assert_eq!(buffers[2].read(0..4 * m * n).expect("read"), bytes(&want));
    }
}
