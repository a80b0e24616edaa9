//! Floats of 8 bits ("OFP8", Open Compute Project 2023): a sign, an exponent and a mantissa.

/// A format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minifloat {
    /// Bits of the mantissa.
    pub mantissa: u32,
    /// Bias of the exponent.
    pub bias: i32,
    /// Largest number.
    pub most: f64,
}

/// Four bits of exponent and three of mantissa. It has no infinities.
pub const E4M3: Minifloat = Minifloat { mantissa: 3, bias: 7, most: 448.0 };
/// Five bits of exponent and two of mantissa.
pub const E5M2: Minifloat = Minifloat { mantissa: 2, bias: 15, most: 57_344.0 };

impl Minifloat {
    /// Returns the code nearest to a number within the range, halves to even.
    pub fn code(self, x: f64) -> u8 {
        let sign = u8::from(x.is_sign_negative()) << 7;
        let size = x.abs();
        // Exponent of the number's step: subnormal numbers have that of the least normal one.
        let exponent = (1 - self.bias..).find(|e| size < 2f64.powi(e + 1)).expect("within the range");
        let steps = (size / 2f64.powi(exponent - self.mantissa as i32)).round_ties_even() as i32;
        // A mantissa that rounds up to two carries into the exponent.
        sign | (((exponent + self.bias - 1) << self.mantissa) + steps) as u8
    }
}
