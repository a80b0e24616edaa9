//! Random source of an input element.

use super::Shape;

/// Pure function from a shape and a draw to a value. Integers below 2⁵³ are exact.
pub type Fill = fn(&Shape, Draw) -> f64;

/// Random source of one element.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    /// Position in the buffer, in elements.
    pub index: u64,
    stream: u64,
    bits: u64,
}

impl Draw {
    /// Returns the source of element `index` of a random stream.
    pub fn new(stream: u64, index: u64) -> Draw {
        Draw { index, stream, bits: splitmix64(stream.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15))) }
    }

    /// Returns the source of the element at the same place within the first `period` elements, for periodic inputs.
    pub fn repeating(self, period: u64) -> Draw {
        Draw::new(self.stream, self.index % period)
    }

    /// Returns the source of another element of the stream, for inputs whose elements depend on each other.
    pub fn of(self, index: u64) -> Draw {
        Draw::new(self.stream, index)
    }

    /// Returns 64 uniform bits.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Uniform integer in 0..n.
    pub fn below(self, n: u64) -> u64 {
        ((u128::from(self.bits) * u128::from(n)) >> 64) as u64
    }

    /// Uniform number in [0, 1) with 24 bits.
    pub fn uniform(self) -> f64 {
        (self.bits >> 40) as f64 / f64::from(1 << 24)
    }

    /// Nearly standard normal number: the sum of four 16-bit uniforms, centred, scaled to unit variance (range ±3.46).
    pub fn normal(self) -> f64 {
        let sum: i64 = (0..4).map(|k| ((self.bits >> (16 * k)) & 0xFFFF) as i64).sum();
        // Four uniforms on 0..=65535 have variance 4 (2³² - 1) / 12; 37 837.2 is its square root.
        (2 * (sum - 131_070)) as f64 / (2.0 * 37_837.226_9)
    }
}

/// Fill of most inputs: normal numbers.
pub fn normal(_: &Shape, draw: Draw) -> f64 {
    draw.normal()
}

/// Finaliser of Steele, Lea and Flood's SplitMix64 (2014): a bijection with full avalanche.
pub fn splitmix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
