//! Winograd's F(2×2, 3×3): tiles of 2 × 2 results of a 3 × 3 kernel, with 16 multiplications instead of 36.
//!
//! Matrices: Lavin and Gray (2016), "Fast Algorithms for Convolutional Neural Networks": `Y = Aᵀ((G g Gᵀ) ∘ (Bᵀ d B))A` for a
//! kernel `g` and a tile `d` of 4 × 4 pixels. Summed over channels before the last step, the 16 elementwise multiplications are 16
//! GEMMs. Intermediates are f32 for every element type.

use parallax_ir::Access::{Read, Write};
use parallax_ir::conv::Conv;
use parallax_ir::{BufferSpec, Elem, Gemm, Layout, Problem, Program, Stage, indexable, spread};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Caps;

use super::super::linear::stages::{GemmKind, Stages};
use super::stages::Gather;

/// Multiplications of a tile, and results of it per dimension.
const PRODUCTS: u64 = 16;
const SQUARE: u64 = 2;
/// Threads of a workgroup.
const THREADS: u64 = 256;

/// Convolution by Winograd tiles.
#[derive(Clone, Copy)]
pub(super) struct Squares {
    conv: Conv,
    dtype: DType,
}

impl Squares {
    /// Tiles of a problem.
    ///
    /// # Errors
    /// Reason why the problem is unsupported.
    pub(super) fn new(p: &Problem) -> Result<Squares, String> {
        let conv = Conv::new(&p.shape);
        if conv.kernel != [1, 3, 3] || conv.image[0] != 1 || conv.stride != 1 || conv.dilation != 1 {
            return Err("winograd computes kernels of 3 × 3 in two dimensions, without stride or dilation".to_owned());
        }
        let squares = Squares { conv, dtype: p.dtype };
        squares.elements().into_iter().try_for_each(indexable)?;
        Ok(squares)
    }

    /// Ratio of counted multiplications to computed ones.
    pub(super) fn fewer(p: &Problem) -> f64 {
        Conv::new(&p.shape).fewer_by_squares(SQUARE)
    }

    /// Number of tiles down and across one image.
    fn extents(&self) -> [u64; 2] {
        let [_, height, width] = self.conv.out();
        [height, width].map(|extent| extent.div_ceil(SQUARE))
    }

    /// Number of tiles of all images.
    fn count(&self) -> u64 {
        self.conv.images * self.extents().iter().product::<u64>()
    }

    /// Elements of the transformed kernels, pixels and results.
    fn elements(&self) -> [u64; 3] {
        let [c, m] = self.conv.channels;
        [m * self.conv.group_channels()[0], c * self.count(), m * self.count()].map(|elements| PRODUCTS * elements)
    }

    /// Buffers between the stages.
    pub(super) fn scratch(&self) -> [BufferSpec; 3] {
        let [kernels, pixels, sums] = self.elements();
        [("kernels", kernels), ("pixels", pixels), ("products", sums)]
            .map(|(name, elements)| BufferSpec::scratch(name, Elem::F32, &[PRODUCTS, elements / PRODUCTS]))
    }

    /// GEMM of one tile position over all tiles, in the stored layout.
    fn gemm(&self) -> Gemm {
        let ([c, m], squares) = (self.conv.group_channels(), self.count());
        let gemm = match self.conv.last {
            true => Gemm::new(squares, m, c).layout(Layout::Nt),
            false => Gemm::new(m, squares, c),
        };
        gemm.batch(PRODUCTS * self.conv.groups)
    }

    /// Stage with one thread per item.
    fn stage(&self, name: &'static str, text: &'static str, count: u64) -> Stage {
        let [down, across] = self.extents();
        Stage::kernel(name, text, name)
            .consts(&[("TILES_Y", down), ("TILES_X", across), ("THREADS", THREADS)].map(|(n, v)| (n, v as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread(count.div_ceil(THREADS)))
    }

    /// Program of the four stages.
    pub(super) fn program(&self, gather: Gather, caps: &Caps) -> Program {
        let ([kernels, pixels, sums], plain) = (self.elements(), Gather { bias: false, relu: false, ..gather });
        let bytes = |dims: Vec<u64>| dims.iter().product::<u64>() * Elem::Real.storage(self.dtype).bytes();
        let [x, w, out] = [self.conv.x_dims(), self.conv.w_dims(), self.conv.out_dims()].map(bytes);
        let of_kernels = plain
            .sides(self.stage("conv2d_winograd_kernels", "conv2d/winograd_kernels", kernels / PRODUCTS))
            .args([("w", "w", Read), ("kernels", "kernels", Write)])
            .cost(Cost::new(2 * kernels, w, 4 * kernels));
        let of_pixels = plain
            .sides(self.stage("conv2d_winograd_pixels", "conv2d/winograd_pixels", pixels / PRODUCTS))
            .args([("source", "x", Read), ("pixels", "pixels", Write)])
            .cost(Cost::new(2 * pixels, x, 4 * pixels));
        let names = if self.conv.last { ["pixels", "kernels", "products"] } else { ["kernels", "pixels", "products"] };
        let gemms = Stages { dtype: DType::F32, caps, kind: GemmKind::Tiles }.gemm(self.gemm(), names).elem(DType::F32);
        let of_sums = gather
            .sides(self.stage("conv2d_winograd_results", "conv2d/winograd_results", sums / PRODUCTS))
            .args([("products", "products", Read), ("result", "out", Write)])
            .cost(Cost::new(2 * sums, 4 * sums, out));
        let mut results = of_sums;
        if gather.bias {
            results.args.push(("bias", Read).into());
        }
        Program { stages: vec![of_kernels, of_pixels, gemms, results] }
    }
}
