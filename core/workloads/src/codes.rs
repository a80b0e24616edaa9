//! Codes of 8 bits with a scale that is a power of two: formats, scales and codes in f64, and by bits on the host.

use parallax_ir::{Problem, Stage};

use crate::minifloat::{E4M3, E5M2, Minifloat};

/// Codes in a word.
pub const PACKED: u64 = 4;
/// Exponent of the least scale.
const LEAST: i32 = -100;

/// A format of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Format {
    /// The float format; `None` for whole numbers.
    float: Option<Minifloat>,
    /// Largest number.
    most: f64,
}

const INT8_CODES: Format = Format { float: None, most: 127.0 };
const E5M2_CODES: Format = Format { float: Some(E5M2), most: E5M2.most };
const E4M3_CODES: Format = Format { float: Some(E4M3), most: E4M3.most };

impl Format {
    /// Returns the format that the shape names; e4m3 if it names none.
    pub fn of(p: &Problem) -> Format {
        if p.shape.has("int8") {
            INT8_CODES
        } else if p.shape.has("e5m2") {
            E5M2_CODES
        } else {
            E4M3_CODES
        }
    }

    /// Exponent of the scale for a largest magnitude.
    fn exponent(self, largest: f64) -> i32 {
        (LEAST..).find(|k| self.most * 2f64.powi(*k) >= largest).expect("a power of two")
    }

    /// Code of a number within the range.
    fn code(self, x: f64) -> u8 {
        match self.float {
            Some(float) => float.code(x),
            None => x.round_ties_even() as i8 as u8,
        }
    }

    /// Returns the scale of a group: NaN if a number is not finite.
    pub fn scale(self, numbers: &[f64]) -> f64 {
        if numbers.iter().any(|x| !x.is_finite()) {
            return f64::NAN;
        }
        2f64.powi(self.exponent(numbers.iter().fold(0f64, |largest, x| largest.max(x.abs()))))
    }

    /// Returns the words of a group's codes by its scale. Codes are zero where the scale is NaN.
    pub fn words(self, numbers: &[f64], scale: f64) -> impl Iterator<Item = f64> {
        let code = move |x: &f64| if scale.is_nan() { 0 } else { self.code(x / scale) };
        let word = move |four: &[f64]| four.iter().rev().fold(0u32, |word, x| word << 8 | u32::from(code(x)));
        numbers.chunks_exact(PACKED as usize).map(move |four| f64::from(word(four)))
    }

    /// Writes the words of a group's codes, and returns its scale, as the kernels do.
    pub fn round(self, numbers: &[f32], words: &mut [f32]) -> f32 {
        let largest = numbers.iter().fold(0, |largest, x| (x.to_bits() & 0x7FFF_FFFF).max(largest));
        let Some(scale) = scale_of(largest, self.most as f32) else {
            words.fill(0.0);
            return f32::NAN;
        };
        let inverse = 1.0 / scale;
        for (word, four) in words.iter_mut().zip(numbers.chunks_exact(PACKED as usize)) {
            let code = |x: &f32| match self.float {
                Some(Minifloat { mantissa, bias, .. }) => code_of(x * inverse, mantissa, bias),
                None => (x * inverse).round_ties_even() as i32 as u32 & 0xFF,
            };
            *word = f32::from_bits(four.iter().rev().fold(0, |word, x| word << 8 | code(x)));
        }
        scale
    }

    /// Adds the constants of the format to a stage.
    pub fn stage(self, stage: Stage) -> Stage {
        let (mantissa, bias) = self.float.map_or((0, 0), |float| (float.mantissa, float.bias));
        stage.consts(&[("WHOLE_NUMBERS", self.float.is_none())]).consts(&[
            ("MANTISSA", mantissa),
            ("BIAS", bias as u32),
            ("MOST_BITS", (self.most as f32).to_bits()),
            ("LEAST_SCALE", (127 + LEAST) as u32),
        ])
    }
}

/// Scale of a group by the bits of its largest magnitude, or `None` where a number is not finite.
fn scale_of(bits: u32, most: f32) -> Option<f32> {
    if bits >= f32::INFINITY.to_bits() {
        return None;
    }
    // Both are a mantissa times a power of two: the exponents are subtracted, and one is added if the group's mantissa is larger.
    let (of, mantissa) = ((bits >> 23) as i32, 0x7F_FFFF);
    let above = i32::from(bits & mantissa > most.to_bits() & mantissa);
    let exponent = (of - (most.to_bits() >> 23) as i32 + above).max(LEAST);
    Some(f32::from_bits(((exponent + 127) as u32) << 23))
}

/// Code of a float format by the bits of a number within its range.
fn code_of(x: f32, mantissa: u32, bias: i32) -> u32 {
    let (size, sign) = (x.abs(), x.to_bits() >> 24 & 0x80);
    let least_normal = f32::from_bits(((128 - bias) as u32) << 23);
    if size < least_normal {
        return sign | (size * f32::from_bits(((126 + bias + mantissa as i32) as u32) << 23)).round_ties_even() as u32;
    }
    let dropped = 23 - mantissa;
    let bits = size.to_bits();
    let rounded = bits + (1 << (dropped - 1)) - 1 + (bits >> dropped & 1);
    sign | ((rounded >> dropped) - (((127 - bias) as u32) << mantissa))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of a code.
    fn decoded(code: u8, mantissa: u32, bias: i32) -> f64 {
        let (exponent, steps) = (i32::from(code & 0x7F) >> mantissa, i32::from(code) & ((1 << mantissa) - 1));
        let steps = if exponent == 0 { steps } else { steps + (1 << mantissa) };
        let size = f64::from(steps) * 2f64.powi(exponent.max(1) - bias - mantissa as i32);
        if code & 0x80 != 0 { -size } else { size }
    }

    #[test]
    fn codes_are_those_of_the_formats() {
        let e4m3 = E4M3_CODES;
        for (x, code) in [
            (0.0, 0),
            (-0.0, 0x80),
            (448.0, 0x7E),
            (1.0, 0x38),
            (-1.5, 0xBC),
            (2f64.powi(-6), 0x08),
            (2f64.powi(-9), 1),
            (2f64.powi(-10), 0),
            (3.0 * 2f64.powi(-10), 2),
            (1.0625, 0x38),
            (1.1875, 0x3A),
            (0.99, 0x38),
        ] {
            assert_eq!(e4m3.code(x), code, "{x}");
        }
        let e5m2 = E5M2_CODES;
        assert_eq!([57_344.0, 1.0, 2f64.powi(-16), 2f64.powi(-14)].map(|x| e5m2.code(x)), [0x7B, 0x3C, 1, 4]);
        let int8 = INT8_CODES;
        assert_eq!([127.0, -127.0, 0.5, 1.5, -0.4].map(|x| int8.code(x)), [127, 0x81, 0, 2, 0]);
    }

    #[test]
    fn each_code_is_the_nearest_by_either_way() {
        for format in [E4M3, E5M2] {
            let Minifloat { mantissa, bias, most } = format;
            for code in (0..=255).filter(|code| decoded(*code, mantissa, bias).abs() <= most) {
                let x = decoded(code, mantissa, bias);
                assert_eq!(format.code(x), code, "{x}");
                for near in
                    [x, x * 1.03, x * 0.97, x + 2f64.powi(-12)].map(|x| (x as f32).clamp(-most as f32, most as f32))
                {
                    assert_eq!(u32::from(format.code(f64::from(near))), code_of(near, mantissa, bias), "{near}");
                }
            }
        }
    }

    #[test]
    fn a_scale_is_the_least_by_which_no_code_saturates() {
        for format in [E4M3_CODES, E5M2_CODES, INT8_CODES] {
            for largest in [0.0, 1.0, 1.75, 1.7578125, 1.984375, 1.9921875, 448.0, 449.0, 1e-38, 1e-30, 3e38] {
                let exponent = format.exponent(f64::from(largest));
                let found = scale_of(f32::to_bits(largest), format.most as f32).expect("finite");
                assert_eq!(f64::from(found), 2f64.powi(exponent), "{largest} in {format:?}");
            }
            assert_eq!([f32::INFINITY, f32::NAN].map(|x| scale_of(x.to_bits(), format.most as f32)), [None; 2]);
        }
    }
}
