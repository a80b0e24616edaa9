//! The format e4m3: a sign, four bits of exponent and three of mantissa.

use crate::minifloat::E4M3;

/// Code of one.
pub(super) const ONE: u8 = 0x38;
/// Code of the largest number.
pub(super) const LARGEST: u8 = 0x7E;
/// Code of NaN without its sign.
pub(super) const NAN: u8 = 0x7F;
/// Sign of a code.
pub(super) const SIGN: u8 = 0x80;

/// Returns the number of a code.
pub(super) fn number(code: u8) -> f32 {
    let (exponent, steps) = (i32::from(code & !SIGN) >> 3, f32::from(code & 7));
    let size = match (code & !SIGN, exponent) {
        (NAN, _) => f32::NAN,
        (_, 0) => steps * power(1 - E4M3.bias - 3),
        _ => (steps + 8.0) * power(exponent - E4M3.bias - 3),
    };
    if code & SIGN == 0 { size } else { -size }
}

/// Power of two among the normal numbers of f32.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Numbers of all codes.
static NUMBERS: std::sync::LazyLock<[f32; 256]> =
    std::sync::LazyLock::new(|| std::array::from_fn(|code| number(code as u8)));

/// Returns the four numbers of a word, the first of its lowest byte.
pub(super) fn decoded(word: u32) -> [f32; 4] {
    word.to_le_bytes().map(|code| NUMBERS[usize::from(code)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::word;

    #[test]
    fn numbers_and_codes_are_those_of_the_format() {
        for (number_of, of) in [
            (0.0, 0),
            (2f32.powi(-9), 1),
            (7.0 * 2f32.powi(-9), 7),
            (2f32.powi(-6), 8),
            (1.0, ONE),
            (-1.5, 0xBC),
            (240.0, 0x77),
            (448.0, LARGEST),
        ] {
            assert_eq!((number(of), E4M3.code(f64::from(number_of))), (number_of, of));
        }
        assert!(number(NAN).is_nan() && number(NAN | SIGN).is_nan());
        assert!(number(SIGN).is_sign_negative());
        assert_eq!(E4M3.code(E4M3.most), LARGEST);
        let finite = (0..=255).filter(|code| number(*code).is_finite());
        assert_eq!(finite.clone().count(), 254);
        assert!(finite.into_iter().all(|of| E4M3.code(f64::from(number(of))) == of));
    }

    #[test]
    fn words_have_the_first_code_in_the_lowest_byte() {
        let of = word(|place| [ONE, 0xBC, LARGEST, 1][place as usize]);
        assert_eq!(of, f64::from(0x017E_BC38u32));
        assert_eq!(decoded(0x017E_BC38), [1.0, -1.5, 448.0, 2f32.powi(-9)]);
    }
}
