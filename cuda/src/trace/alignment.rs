//! Alignment of CUPTI's clock to the host's.

use parallax_schema::units::Nanos;

/// Readings of two clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alignment {
    pub(super) host: Nanos,
    pub(super) cupti: u64,
    /// Half the time between the host's readings before and after.
    pub(super) error: Nanos,
}

impl Alignment {
    /// Reads CUPTI's clock between two readings of the host's, several times. Returns the narrowest reading.
    pub(super) fn measure(host: impl Fn() -> Nanos, cupti: impl Fn() -> Option<u64>) -> Option<Alignment> {
        let once = |_| {
            let before = host();
            let cupti = cupti()?;
            let error = Nanos((host() - before).0 / 2.0);
            Some(Alignment { host: before + error, cupti, error })
        };
        (0..16).filter_map(once).min_by(|a, b| a.error.0.total_cmp(&b.error.0))
    }

    /// Converts a time of CUPTI's clock to the host's. The subtraction uses integers: nanoseconds since 1970 have more digits than
    /// an f64.
    pub(super) fn to_host(self, cupti: u64) -> Nanos {
        self.host + Nanos(cupti.wrapping_sub(self.cupti).cast_signed() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Large start value of CUPTI's clock.
    const EPOCH: u64 = 1_800_000_000_000_000_000;

    #[test]
    fn the_narrowest_bracket_aligns_the_clocks() {
        // The host clock advances by 10 at every reading, and once by 2.
        let readings = std::cell::Cell::new(0u32);
        let host = || {
            readings.set(readings.get() + 1);
            Nanos(if readings.get() == 6 { 52.0 } else { f64::from(readings.get()) * 10.0 })
        };
        let aligned = Alignment::measure(host, || Some(EPOCH)).expect("both clocks answer");
        assert_eq!((aligned.host, aligned.error), (Nanos(51.0), Nanos(1.0)));
        assert_eq!(aligned.to_host(EPOCH + 9), Nanos(60.0));
        assert_eq!(aligned.to_host(EPOCH - 1), Nanos(50.0));
        assert!(Alignment::measure(|| Nanos(0.0), || None).is_none());
    }
}
