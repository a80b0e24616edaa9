//! Errors of outputs in units of their bounds and in units in the last place.

use parallax_schema::case::Storage;
use parallax_schema::record::Errors;

/// Sums over the errors of compared elements.
#[derive(Default)]
pub struct ErrorSums {
    /// Number of elements with a finite error.
    count: u64,
    /// Sum of second powers, in units of the output.
    absolute: f64,
    /// The same relative to bounds.
    of_bounds: f64,
    /// The same in units in the last place.
    ulps: f64,
    worst_ulps: f64,
}

impl ErrorSums {
    /// Adds the error of an element, with its bound and its unit in the last place.
    pub fn add(&mut self, error: f64, bound: f64, ulp: f64) {
        self.count += 1;
        self.absolute += error * error;
        self.of_bounds += (error / bound).powi(2);
        self.ulps += (error / ulp).powi(2);
        self.worst_ulps = self.worst_ulps.max(error / ulp);
    }

    /// Adds the sums of other elements.
    pub fn append(&mut self, more: &ErrorSums) {
        self.count += more.count;
        self.absolute += more.absolute;
        self.of_bounds += more.of_bounds;
        self.ulps += more.ulps;
        self.worst_ulps = self.worst_ulps.max(more.worst_ulps);
    }

    /// Returns the means; `None` without elements, or where a sum overflowed.
    pub fn end(&self) -> Option<Errors> {
        let mean = |sum: f64| (sum / self.count as f64).sqrt();
        let errors = Errors {
            rms: mean(self.absolute),
            rms_of_bound: mean(self.of_bounds),
            worst_ulps: self.worst_ulps,
            rms_ulps: mean(self.ulps),
        };
        let finite =
            [errors.rms, errors.rms_of_bound, errors.worst_ulps, errors.rms_ulps].iter().all(|x| x.is_finite());
        (self.count > 0 && finite).then_some(errors)
    }
}

/// Unit in the last place of a storage type at a magnitude; of the smallest normal number below it, and one for integers.
pub fn ulp(storage: Storage, magnitude: f64) -> f64 {
    let (digits, smallest) = match storage {
        Storage::F32 => (23, -126),
        Storage::F16 => (10, -14),
        Storage::BF16 => (7, -126),
        Storage::U32 => return 1.0,
    };
    // The exponent field of an f64, whose bias is 1023.
    let exponent = (magnitude.to_bits() >> 52 & 0x7FF) as i64 - 1023;
    f64::from_bits(((exponent.max(smallest) - digits + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_in_units_of_the_last_place() {
        // Between 8 and 16 a unit is the same for all numbers.
        for (storage, unit) in
            [(Storage::F32, 2f64.powi(-20)), (Storage::F16, 2f64.powi(-7)), (Storage::BF16, 2f64.powi(-4))]
        {
            let mut sums = ErrorSums::default();
            for (want, error) in [(8.0, 0.0), (9.0, unit), (10.0, 0.0), (15.9, unit)] {
                sums.add(error, 4.0 * unit, ulp(storage, want));
            }
            let errors = sums.end().expect("finite");
            assert_eq!((errors.worst_ulps, errors.rms_ulps), (1.0, 0.5f64.sqrt()), "{storage:?}");
            assert_eq!((errors.rms, errors.rms_of_bound), (unit * 0.5f64.sqrt(), 0.5f64.sqrt() / 4.0), "{storage:?}");
        }
        assert_eq!((ulp(Storage::F16, 0.0), ulp(Storage::F32, 1e-300)), (2f64.powi(-24), 2f64.powi(-149)));
        assert_eq!((ulp(Storage::F32, 1.0), ulp(Storage::U32, 7.0)), (2f64.powi(-23), 1.0));
        assert_eq!(ErrorSums::default().end(), None);
    }
}
