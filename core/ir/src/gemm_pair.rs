//! Two GEMMs of the same A by warpgroups in one stage, whose epilogue combines the sums of the same element.

use parallax_schema::device::Caps;

use super::Access::Write;
use super::gemm::WAVE;
use super::gemm_wgmma::{Partition, SHARED_TILE};
use super::{Arg, Gemm, Stage};

impl Gemm {
    /// Returns a stage whose blocks compute the same columns of `a·b` for two matrices `b`, half a tile each. The kernel source
    /// combines the sums of an element, and has the parameters `a`, `b`, `other` and `c`. Devices are those of
    /// [`Gemm::wgmma_available`].
    pub fn pair(
        &self,
        caps: &Caps,
        text: &'static str,
        entry: &'static str,
        [a, b, other, c]: [&'static str; 4],
    ) -> Stage {
        let tile = SHARED_TILE;
        let units = caps.compute_units.map_or(WAVE, u64::from);
        let tiles = self.m.div_ceil(tile.rows) * self.n.div_ceil(tile.columns / 2);
        let partition = Partition { tile, cluster: 1, blocks: tiles.min(units) };
        let [of_a, of_b] = self.operands(&partition, [a, b]);
        let [_, of_other] = self.operands(&partition, [a, other]);
        let c = Arg::from(("c", c, Write)).mapped(self.map_of_c());
        self.by_warpgroups(partition, text, entry, 1).consts(&[("PARTS", 1_u32)]).args([
            of_a,
            of_b,
            Arg { parameter: "other", ..of_other },
            c,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::typical;

    #[test]
    fn blocks_have_half_a_tile_of_each_matrix() {
        let stage =
            |m, n| Gemm::new(m, n, 64).pair(&typical::cuda(), "mlp_glu/pair", "mlp_glu_pair", ["a", "b", "other", "c"]);
        assert_eq!(stage(128, 128).kernel_launch().expect("a kernel").grid[0], 1);
        assert_eq!(stage(256, 520).kernel_launch().expect("a kernel").grid[0], 10);
        assert_eq!(stage(8192, 8192).kernel_launch().expect("a kernel").grid[0], 132);
        let parameters: Vec<&str> = stage(128, 128).args.iter().map(|arg| arg.parameter).collect();
        assert_eq!(parameters, ["a", "b", "other", "c"]);
    }
}
