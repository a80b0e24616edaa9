//! Windows of a pooling along one extent of an image.

use std::ops::Range;

use parallax_ir::Shape;

/// Windows along an extent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    /// Number of pixels of the image.
    pub extent: u64,
    /// Number of windows.
    pub outputs: u64,
    kernel: u64,
    stride: u64,
    pad: u64,
    adaptive: bool,
}

impl Windows {
    /// Windows along rows, and along columns.
    pub fn from_shape(shape: &Shape) -> [Windows; 2] {
        let (stride, pad, adaptive) = (shape["s"], shape["p"], shape.has("adaptive"));
        let along = |extent: u64, kernel: u64, wanted: u64| {
            let fixed = (extent + 2 * pad).checked_sub(kernel).map_or(0, |room| room / stride + 1);
            Windows { extent, outputs: if adaptive { wanted } else { fixed }, kernel, stride, pad, adaptive }
        };
        [along(shape["h"], shape["k"], shape["oh"]), along(shape["w"], shape["kw"], shape["ow"])]
    }

    /// Pixels of the image in a window.
    pub fn window(&self, at: u64) -> Range<u64> {
        if self.adaptive {
            return at * self.extent / self.outputs..((at + 1) * self.extent).div_ceil(self.outputs);
        }
        let begin = at * self.stride;
        begin.saturating_sub(self.pad)..(begin + self.kernel - self.pad).min(self.extent)
    }

    /// Number of pixels of an average, including the border.
    pub fn divisor(&self, at: u64) -> u64 {
        if self.adaptive { self.window(at).end - self.window(at).start } else { self.kernel }
    }

    /// Largest number of pixels of a window.
    pub fn most(&self) -> u64 {
        if self.adaptive { self.extent.div_ceil(self.outputs.max(1)) + 1 } else { self.kernel }
    }

    /// Largest number of windows that share a pixel.
    pub fn sharing(&self) -> u64 {
        if self.adaptive { self.outputs.div_ceil(self.extent) + 1 } else { self.kernel.div_ceil(self.stride) }
    }

    /// Windows that contain a pixel, from the candidates near it.
    pub fn around(self, pixel: u64) -> impl Iterator<Item = u64> {
        let guess = if self.adaptive { pixel * self.outputs / self.extent } else { (pixel + self.pad) / self.stride };
        let reach = self.sharing() + 1;
        let near = guess.saturating_sub(reach)..(guess + reach + 1).min(self.outputs);
        near.filter(move |at| self.window(*at).contains(&pixel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn pixels_are_found_in_all_of_their_windows() {
        for shape in ["h7,k3,s2,p1", "h13,k5,s3,p2", "h9,k2", "h9,k4,s7", "h7,oh3,ow4", "h5,oh7,ow12", "h56,oh1,ow7"] {
            let kind = if shape.contains("oh") { "adaptive" } else { "max" };
            let case = parse_case(&format!("pool/fwd/n1,c1,{shape},nchw,{kind}/f32/naive")).expect("valid");
            for windows in Windows::from_shape(&case.problem.shape) {
                assert!((0..windows.outputs).all(|at| !windows.window(at).is_empty()), "{shape}");
                assert!((0..windows.outputs).all(|at| windows.window(at).count() as u64 <= windows.most()), "{shape}");
                for pixel in 0..windows.extent {
                    let all = (0..windows.outputs).filter(|at| windows.window(*at).contains(&pixel));
                    let found: Vec<u64> = windows.around(pixel).collect();
                    assert_eq!(found, all.collect::<Vec<_>>(), "{shape}: {pixel}");
                    assert!(found.len() as u64 <= windows.sharing(), "{shape}: {pixel}");
                }
            }
        }
    }
}
