//! Scale of the loss of a training in f16.
//!
//! Gradients below 2⁻²⁴ are zero in f16. A scaled loss has scaled gradients, which are divided by the scale in f32 before the optimiser
//! takes them. The scale is a power of two, so that the division is exact. A step whose gradients overflow is left out, and the scale
//! is halved; after 200 steps without an overflow it is doubled.

use anyhow::bail;
use parallax_model::data::{Weights, WeightsError};
use parallax_model::layers::Arrays;
use parallax_model::network::LOSS_GRADIENT;
use parallax_schema::case::DType;

/// First scale in f16.
pub const FIRST: u32 = 1 << 16;
/// Largest scale.
pub const LARGEST: u32 = 1 << 24;
/// Steps without an overflow before the scale is doubled.
const GROWTH: usize = 200;

/// Scale of the loss, with the steps that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossScale {
    scale: u32,
    /// Steps since the last change of the scale.
    steady: usize,
    /// Steps without an update.
    pub skipped: usize,
}

/// Keys of a checkpoint.
const KEYS: [&str; 3] = ["loss_scale", "steady_steps", "skipped_steps"];

impl LossScale {
    /// Returns the first scale of a training; none for a type with the range of f32.
    pub fn new(dtype: DType, first: Option<u32>) -> Option<LossScale> {
        let scale = first.or_else(|| (dtype == DType::F16).then_some(FIRST))?;
        Some(LossScale { scale, steady: 0, skipped: 0 })
    }

    /// Returns the scale.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    /// Puts the scale into arrays, before the gradients are computed.
    pub fn apply(&self, arrays: &mut Arrays) {
        arrays.set_f32(LOSS_GRADIENT, &[self.scale as f32]);
    }

    /// Divides gradients by the scale, and adapts it. Returns whether the optimiser may take them.
    ///
    /// # Errors
    /// Gradients that overflow without a scale.
    pub fn unscale<'a>(
        &mut self,
        gradients: impl IntoIterator<Item = &'a String>,
        arrays: &mut Arrays,
    ) -> anyhow::Result<bool> {
        let inverse = (self.scale as f32).recip();
        for name in gradients {
            let mut values = arrays.f32(name);
            if !values.iter().all(|value| value.is_finite()) {
                return self.overflowed();
            }
            values.iter_mut().for_each(|value| *value *= inverse);
            arrays.set_f32(name, &values);
        }
        self.steady += 1;
        if self.steady == GROWTH {
            (self.scale, self.steady) = ((2 * self.scale).min(LARGEST), 0);
        }
        Ok(true)
    }

    fn overflowed(&mut self) -> anyhow::Result<bool> {
        if self.scale == 1 {
            bail!("gradients overflow without a scale of the loss: train in f32 or bf16");
        }
        *self = LossScale { scale: self.scale / 2, steady: 0, skipped: self.skipped + 1 };
        Ok(false)
    }

    /// Writes the state into the metadata of a checkpoint.
    pub fn write(&self, weights: &mut Weights) {
        let values = [self.scale as usize, self.steady, self.skipped];
        for (key, value) in KEYS.iter().zip(values) {
            weights.about.insert((*key).to_owned(), value.to_string());
        }
    }

    /// Reads the state from the metadata of a checkpoint.
    ///
    /// # Errors
    /// Missing or damaged numbers.
    pub fn read(weights: &Weights) -> Result<LossScale, WeightsError> {
        let [scale, steady, skipped] = KEYS;
        let scale: u32 = weights.about(scale)?;
        if !scale.is_power_of_two() || scale > LARGEST {
            return Err(WeightsError::About(KEYS[0]));
        }
        Ok(LossScale { scale, steady: weights.about(steady)?, skipped: weights.about(skipped)? })
    }
}

/// Returns the scale of a text.
///
/// # Errors
/// Text that is no power of two in the range.
pub fn parse(text: &str) -> Result<u32, String> {
    let known = text.parse().ok().filter(|scale: &u32| scale.is_power_of_two() && *scale <= LARGEST);
    known.ok_or_else(|| format!("write a power of two from 1 to {LARGEST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(values: &[f32]) -> Arrays {
        let mut arrays = Arrays::default();
        arrays.set_f32("w.grad", values);
        arrays
    }

    #[test]
    fn only_f16_has_a_scale_unless_one_is_given() {
        let of = |dtype, first| LossScale::new(dtype, first).map(|scale| scale.scale());
        assert_eq!([DType::F32, DType::BF16, DType::F16].map(|dtype| of(dtype, None)), [None, None, Some(FIRST)]);
        assert_eq!(of(DType::F32, Some(8)), Some(8));
    }

    #[test]
    fn gradients_are_divided_and_an_overflow_leaves_the_step_out() {
        let gradients = ["w.grad".to_owned()];
        let mut scale = LossScale::new(DType::F16, Some(1024)).expect("a scale");
        let mut given = arrays(&[1024.0, -3.0]);
        assert!(scale.unscale(&gradients, &mut given).expect("finite"));
        assert_eq!(given.f32("w.grad"), [1.0, -3.0 / 1024.0]);
        let mut infinite = arrays(&[1.0, f32::INFINITY]);
        assert!(!scale.unscale(&gradients, &mut infinite).expect("a scale to halve"));
        assert_eq!((scale.scale(), scale.skipped), (512, 1));
        for _ in 0..GROWTH {
            assert!(scale.unscale(&gradients, &mut arrays(&[1.0])).expect("finite"));
        }
        assert_eq!((scale.scale(), scale.skipped), (1024, 1));
        let mut whole = LossScale::new(DType::F16, Some(1)).expect("a scale");
        assert!(whole.unscale(&gradients, &mut infinite).is_err());
    }

    #[test]
    fn a_checkpoint_keeps_the_state() {
        let state = LossScale { scale: 4096, steady: 17, skipped: 3 };
        let mut weights = Weights::default();
        assert!(LossScale::read(&weights).is_err());
        state.write(&mut weights);
        assert_eq!(LossScale::read(&weights).expect("complete"), state);
        weights.about.insert(KEYS[0].to_owned(), "3".to_owned());
        assert!(LossScale::read(&weights).is_err());
    }

    #[test]
    fn scales_are_powers_of_two() {
        assert_eq!((parse("1"), parse("65536")), (Ok(1), Ok(65536)));
        for wrong in ["0", "3", "-2", "2.0", "33554432", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
