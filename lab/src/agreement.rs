//! Comparison of the outputs of both kernels.

use serde::Serialize;

use crate::layout::{Layout, Scalar};
use crate::request::BindingPoint;

/// Largest difference of two floats, as a share of the larger one, or of one where both are smaller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tolerance {
    /// For f32.
    pub f32: f64,
    /// For f16.
    pub f16: f64,
}

impl Tolerance {
    /// Returns the tolerance of a request: sums of a few thousand terms in another order stay within the default.
    pub fn of(asked: Option<f64>) -> Tolerance {
        asked.map_or(Tolerance { f32: 1e-4, f16: 1e-2 }, |asked| Tolerance { f32: asked, f16: asked })
    }

    /// Whether two scalars agree. Integers agree if they are equal.
    fn holds(self, scalar: Scalar, a: f64, b: f64) -> bool {
        let share = match scalar {
            Scalar::F32 => self.f32,
            Scalar::F16 => self.f16,
            Scalar::I32 | Scalar::U32 => return a == b,
        };
        // Infinities of one sign are equal, and differ from all else.
        a == b
            || a.is_nan() && b.is_nan()
            || (a - b).abs() <= share * a.abs().max(b.abs()).max(1.0) && (a - b).is_finite()
    }
}

/// A scalar that differs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Index among the scalars of the buffer.
    pub index: u64,
    /// Value of A.
    pub a: f64,
    /// Value of B.
    pub b: f64,
}

/// Agreement of one output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Binding.
    pub binding: BindingPoint,
    /// Name of the variable.
    pub name: String,
    /// Number of scalars.
    pub scalars: u64,
    /// Number of scalars that differ by more than the tolerance.
    pub differing: u64,
    /// The first of them.
    pub first: Option<Difference>,
    /// Largest absolute difference of two finite floats, or of two integers.
    pub largest: f64,
    /// Largest difference as a share of the larger value.
    pub largest_relative: f64,
    /// Number of NaN of A and of B.
    pub nan: [u64; 2],
    /// Number of scalars that A and that B changed.
    pub changed: [u64; 2],
}

impl Agreement {
    /// Whether no scalar differs by more than the tolerance.
    pub fn holds(&self) -> bool {
        self.differing == 0
    }

    /// Compares the contents of a buffer after A and after B. `before` are the contents before each.
    pub(crate) fn of(
        (binding, name): (BindingPoint, &str),
        (layout, elements): (&Layout, u64),
        [before, a, b]: [&[u8]; 3],
        tolerance: Tolerance,
    ) -> Agreement {
        let mut found = Agreement {
            binding,
            name: name.to_owned(),
            scalars: 0,
            differing: 0,
            first: None,
            largest: 0.0,
            largest_relative: 0.0,
            nan: [0; 2],
            changed: [0; 2],
        };
        layout.each(elements, 0, &mut |offset, scalar| {
            let (from, index) = (offset as usize, found.scalars);
            found.scalars += 1;
            let range = from..from + scalar.bytes() as usize;
            let bytes = [before, a, b].map(|buffer| buffer.get(range.clone()).unwrap_or_default());
            let [old, a, b] = bytes;
            found.changed[0] += u64::from(a != old);
            found.changed[1] += u64::from(b != old);
            if a == b && !scalar.is_float() {
                return;
            }
            let (a, b) = (scalar.load(a), scalar.load(b));
            found.nan[0] += u64::from(a.is_nan());
            found.nan[1] += u64::from(b.is_nan());
            let apart = (a - b).abs();
            if apart.is_finite() {
                found.largest = found.largest.max(apart);
                let larger = a.abs().max(b.abs());
                found.largest_relative = found.largest_relative.max(if larger > 0.0 { apart / larger } else { 0.0 });
            }
            if !tolerance.holds(scalar, a, b) {
                found.differing += 1;
                found.first.get_or_insert(Difference { index, a, b });
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(scalar: Scalar, a: &[f64], b: &[f64]) -> Agreement {
        let bytes = |values: &[f64]| {
            let mut bytes = vec![0; values.len() * scalar.bytes() as usize];
            let slots = bytes.chunks_exact_mut(scalar.bytes() as usize);
            slots.zip(values).for_each(|(slot, value)| scalar.store(*value, slot));
            bytes
        };
        let layout =
            Layout::Array { count: None, stride: scalar.bytes() as u32, element: Box::new(Layout::Scalar(scalar)) };
        let point = BindingPoint { group: 0, binding: 1 };
        let before = vec![0; a.len() * scalar.bytes() as usize];
        let buffers = [&before[..], &bytes(a), &bytes(b)];
        Agreement::of((point, "y"), (&layout, a.len() as u64), buffers, Tolerance::of(None))
    }

    #[test]
    fn floats_agree_within_the_tolerance_and_integers_exactly() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        for (scalar, a, b, differing) in [
            (Scalar::F32, [1.0, 1e6], [1.00005, 1e6 + 50.0], 0),
            (Scalar::F32, [1.0, 1e-9], [1.001, 5e-6], 1),
            (Scalar::F16, [1.0, 2.0], [1.005, 2.1], 1),
            (Scalar::U32, [1.0, 4e9], [1.0, 4e9 - 1.0], 1),
            (Scalar::I32, [-5.0, 2e9], [-5.0, 2e9], 0),
            (Scalar::F32, [nan, nan], [nan, 1.0], 1),
            (Scalar::F32, [inf, -inf], [inf, inf], 1),
            (Scalar::F32, [inf, 0.0], [3e38, -0.0], 1),
        ] {
            let found = compared(scalar, &a, &b);
            assert_eq!((found.differing, found.scalars), (differing, 2), "{scalar} {a:?} {b:?}");
            assert_eq!(found.first.is_some(), differing > 0);
        }
    }

    #[test]
    fn the_first_difference_and_the_largest_are_known() {
        let found = compared(Scalar::F32, &[0.0, 2.0, 4.0, f64::NAN], &[0.0, 2.0, 5.0, 0.0]);
        assert_eq!(found.first, Some(Difference { index: 2, a: 4.0, b: 5.0 }));
        assert_eq!((found.largest, found.largest_relative, found.nan), (1.0, 0.2, [1, 0]));
        assert_eq!(found.changed, [3, 2]);
    }
}
