//! Pixels of the input between which the pixels of a resized image lie, along one extent.

use std::ops::Range;

use parallax_ir::Shape;

/// Places of outputs among the pixels of the input. Both images cover the same area: the centre of output `y` is at
/// `(y + ½)·extent/outputs − ½`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taps {
    /// Pixels of the input.
    pub extent: u64,
    /// Pixels of the output.
    pub outputs: u64,
    nearest: bool,
}

impl Taps {
    /// Places along rows, and along columns.
    pub fn from_shape(shape: &Shape) -> [Taps; 2] {
        let along = |extent, outputs| Taps { extent, outputs, nearest: shape.has("nearest") };
        [along(shape["h"], shape["oh"]), along(shape["w"], shape["ow"])]
    }

    /// Returns both pixels beside an output, and the weight of the second. At the rims they are the same.
    pub fn of(&self, at: u64) -> (u64, u64, f64) {
        if self.nearest {
            let pixel = at * self.extent / self.outputs;
            return (pixel, pixel, 0.0);
        }
        // The place in units of half an output, which are whole.
        let (place, unit) = (((2 * at + 1) * self.extent).saturating_sub(self.outputs), 2 * self.outputs);
        let first = place / unit;
        (first, (first + 1).min(self.extent - 1), (place % unit) as f64 / unit as f64)
    }

    /// Returns the weight of a pixel in an output; zero for a pixel that is not beside it.
    pub fn weight(&self, pixel: u64, at: u64) -> f64 {
        let (first, second, weight) = self.of(at);
        f64::from(u8::from(first == pixel)) * (1.0 - weight) + f64::from(u8::from(second == pixel)) * weight
    }

    /// Outputs with a weight of a pixel.
    pub fn around(&self, pixel: u64) -> Range<u64> {
        if self.nearest {
            return (pixel * self.outputs).div_ceil(self.extent)..((pixel + 1) * self.outputs).div_ceil(self.extent);
        }
        let (extent, outputs) = (self.extent, self.outputs);
        let first = (2 * outputs * pixel + extent).saturating_sub(outputs) / (2 * extent);
        let end = (outputs * (2 * pixel + 3) + extent - 1) / (2 * extent);
        first..end.min(outputs).max(first)
    }

    /// Largest number of outputs with a weight of a pixel.
    pub fn sharing(&self) -> u64 {
        let distance = if self.nearest { 1 } else { 2 };
        (distance * self.outputs).div_ceil(self.extent)
    }

    /// Number of pixels that an output reads.
    pub fn touched(&self) -> u64 {
        let mut touched = 0;
        let mut next = 0;
        for at in 0..self.outputs {
            let (first, second, weight) = self.of(at);
            let end = 1 + if weight > 0.0 { second } else { first };
            touched += end.saturating_sub(first.max(next));
            next = next.max(end);
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn of(shape: &str) -> [Taps; 2] {
        let case = parse_case(&format!("resize/fwd/n1,c1,{shape}/f32/naive")).expect("valid");
        Taps::from_shape(&case.problem.shape)
    }

    #[test]
    fn the_outputs_of_a_pixel_are_those_that_weigh_it() {
        for size in ["h7,oh3,ow14", "h1,oh5", "h5,oh1", "h13,w6,oh31,ow7", "h8,oh8", "h100,w3,oh7,ow100"] {
            for kind in ["nearest", "bilinear"] {
                for taps in of(&format!("{size},nchw,{kind}")) {
                    let mut sums = vec![0.0; taps.outputs as usize];
                    for pixel in 0..taps.extent {
                        let around = taps.around(pixel);
                        assert!(around.end - around.start <= taps.sharing(), "{size} {kind} {pixel}");
                        for at in 0..taps.outputs {
                            let weight = taps.weight(pixel, at);
                            assert_eq!(weight > 0.0, around.contains(&at), "{size} {kind}: {pixel} in {at}");
                            sums[at as usize] += weight;
                        }
                    }
                    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-12), "{size} {kind}: {sums:?}");
                }
            }
        }
    }

    #[test]
    fn a_doubled_image_has_quarters_between_its_pixels() {
        let [rows, _] = of("h3,oh6,nchw,bilinear");
        let places: Vec<(u64, u64, f64)> = (0..6).map(|at| rows.of(at)).collect();
        assert_eq!(places, [(0, 1, 0.0), (0, 1, 0.25), (0, 1, 0.75), (1, 2, 0.25), (1, 2, 0.75), (2, 2, 0.25)]);
        assert_eq!(rows.touched(), 3);
        let [rows, _] = of("h8,oh2,nchw,nearest");
        assert_eq!((rows.of(0).0, rows.of(1).0, rows.touched()), (0, 4, 2));
    }
}
