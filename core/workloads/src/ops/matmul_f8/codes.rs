//! Numbers of codes: e4m3, and e5m2 of A's gradients.

use std::sync::LazyLock;

use parallax_ir::Shape;

use crate::minifloat::{E4M3, E5M2, Minifloat};

/// Code of NaN without its sign, in both formats.
pub(super) const NAN: u8 = 0x7F;
/// Code of the infinity of e5m2.
pub(super) const INFINITY: u8 = 0x7C;
/// Sign of a code.
pub(super) const SIGN: u8 = 0x80;

/// Returns whether A has e5m2 codes.
pub(super) fn gradient(shape: &Shape) -> bool {
    shape.has("e5m2")
}

/// Returns the format of A.
pub(super) fn format_of_a(shape: &Shape) -> Minifloat {
    if gradient(shape) { E5M2 } else { E4M3 }
}

/// Returns the number of a code.
pub(super) fn number(format: Minifloat, code: u8) -> f32 {
    let of_exponent = 1 << format.mantissa;
    let (size, steps) = (code & !SIGN, f32::from(code & (of_exponent - 1)));
    let (exponent, first) = (i32::from(size >> format.mantissa), f32::from(of_exponent));
    let lowest = -format.bias - format.mantissa as i32;
    let size = match exponent {
        _ if size == NAN || format == E5M2 && size > INFINITY => f32::NAN,
        _ if format == E5M2 && size == INFINITY => f32::INFINITY,
        0 => steps * power(1 + lowest),
        _ => (steps + first) * power(exponent + lowest),
    };
    if code & SIGN == 0 { size } else { -size }
}

/// Power of two among the normal numbers of f32.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Numbers of all codes.
#[derive(Debug)]
pub(super) struct Numbers([f32; 256]);

impl Numbers {
    fn new(format: Minifloat) -> Numbers {
        Numbers(std::array::from_fn(|code| number(format, code as u8)))
    }

    /// Returns those of A.
    pub(super) fn of_a(shape: &Shape) -> &'static Numbers {
        static OF_GRADIENTS: LazyLock<Numbers> = LazyLock::new(|| Numbers::new(E5M2));
        if gradient(shape) { &OF_GRADIENTS } else { Numbers::of_b() }
    }

    /// Returns those of B.
    pub(super) fn of_b() -> &'static Numbers {
        static USUAL: LazyLock<Numbers> = LazyLock::new(|| Numbers::new(E4M3));
        &USUAL
    }

    /// Returns the four numbers of a word, the first of its lowest byte.
    pub(super) fn decoded(&self, word: u32) -> [f32; 4] {
        word.to_le_bytes().map(|code| self.0[usize::from(code)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::word;

    #[test]
    fn numbers_and_codes_are_those_of_the_formats() {
        for (format, number_of, of) in [
            (E4M3, 0.0, 0),
            (E4M3, 2f32.powi(-9), 1),
            (E4M3, 7.0 * 2f32.powi(-9), 7),
            (E4M3, 2f32.powi(-6), 8),
            (E4M3, 1.0, 0x38),
            (E4M3, -1.5, 0xBC),
            (E4M3, 240.0, 0x77),
            (E4M3, 448.0, 0x7E),
            (E5M2, 2f32.powi(-16), 1),
            (E5M2, 3.0 * 2f32.powi(-16), 3),
            (E5M2, 2f32.powi(-14), 4),
            (E5M2, 1.0, 0x3C),
            (E5M2, -1.5, 0xBE),
            (E5M2, 448.0, 0x5F),
            (E5M2, 57_344.0, 0x7B),
        ] {
            assert_eq!((number(format, of), format.code(f64::from(number_of))), (number_of, of));
        }
        for (format, count) in [(E4M3, 254), (E5M2, 248)] {
            assert!(number(format, NAN).is_nan() && number(format, NAN | SIGN).is_nan());
            assert!(number(format, SIGN).is_sign_negative());
            let finite = (0..=255).filter(|code| number(format, *code).is_finite());
            assert_eq!(finite.clone().count(), count);
            assert!(finite.into_iter().all(|of| format.code(f64::from(number(format, of))) == of));
        }
        assert_eq!([INFINITY, INFINITY | SIGN].map(|code| number(E5M2, code)), [f32::INFINITY, f32::NEG_INFINITY]);
        assert_eq!((0..=255).filter(|code| number(E5M2, *code).is_nan()).count(), 6);
    }

    #[test]
    fn words_have_the_first_code_in_the_lowest_byte() {
        let of = word(|place| [0x38, 0xBC, 0x7E, 1][place as usize]);
        assert_eq!(of, f64::from(0x017E_BC38u32));
        assert_eq!(Numbers::of_b().decoded(0x017E_BC38), [1.0, -1.5, 448.0, 2f32.powi(-9)]);
    }
}
