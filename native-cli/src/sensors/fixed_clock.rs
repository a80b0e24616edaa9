//! Fixed clock of a board's multiprocessors.

use nvml_wrapper::enums::device::GpuLockedClocksSetting;
use nvml_wrapper::error::NvmlError;

/// Board whose clock can be fixed.
pub trait Lockable {
    /// Fixes the clock of the multiprocessors at `mhz`.
    fn lock(&mut self, mhz: u32) -> Result<(), NvmlError>;

    /// Resets it.
    fn reset(&mut self) -> Result<(), NvmlError>;
}

impl Lockable for nvml_wrapper::Device<'static> {
    fn lock(&mut self, mhz: u32) -> Result<(), NvmlError> {
        self.set_gpu_locked_clocks(GpuLockedClocksSetting::Numeric { min_clock_mhz: mhz, max_clock_mhz: mhz })
    }

    fn reset(&mut self) -> Result<(), NvmlError> {
        self.reset_gpu_locked_clocks()
    }
}

/// Clock that is fixed until this is dropped.
pub struct FixedClock<B: Lockable> {
    board: B,
}

impl<B: Lockable> FixedClock<B> {
    /// Fixes the clock of a board of this name.
    ///
    /// # Errors
    /// The reason, and its remedy.
    pub fn new(mut board: B, name: &str, mhz: u32) -> Result<FixedClock<B>, String> {
        board.lock(mhz).map_err(|why| {
            let remedy = match why {
                NvmlError::NoPermission => "run as administrator, or without --lock-clocks",
                NvmlError::InvalidArg => "choose a clock of `nvidia-smi -q -d SUPPORTED_CLOCKS`",
                _ => "run without --lock-clocks",
            };
            format!("--lock-clocks: the clock of {name} cannot be fixed at {mhz} MHz: {why}; {remedy}")
        })?;
        Ok(FixedClock { board })
    }
}

impl<B: Lockable> Drop for FixedClock<B> {
    fn drop(&mut self) {
        if let Err(why) = self.board.reset() {
            log::warn!("the fixed clock was not reset: {why}; `nvidia-smi -rgc` resets it");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Board that notes calls; its lock may fail.
    struct Imagined {
        calls: Rc<RefCell<Vec<String>>>,
        failure: Option<NvmlError>,
    }

    impl Lockable for Imagined {
        fn lock(&mut self, mhz: u32) -> Result<(), NvmlError> {
            self.calls.borrow_mut().push(format!("lock {mhz}"));
            self.failure.take().map_or(Ok(()), Err)
        }

        fn reset(&mut self) -> Result<(), NvmlError> {
            self.calls.borrow_mut().push("reset".to_owned());
            Ok(())
        }
    }

    #[test]
    fn a_fixed_clock_is_reset_at_its_end() {
        let calls = Rc::default();
        let fixed =
            FixedClock::new(Imagined { calls: Rc::clone(&calls), failure: None }, "X", 1410).expect("permitted");
        assert_eq!(*calls.borrow(), ["lock 1410"]);
        drop(fixed);
        assert_eq!(*calls.borrow(), ["lock 1410", "reset"]);
    }

    #[test]
    fn a_refusal_has_a_remedy_and_resets_nothing() {
        for (failure, remedy) in [
            (NvmlError::NoPermission, "run as administrator, or without --lock-clocks"),
            (NvmlError::InvalidArg, "choose a clock of `nvidia-smi -q -d SUPPORTED_CLOCKS`"),
            (NvmlError::NotSupported, "run without --lock-clocks"),
        ] {
            let calls = Rc::default();
            let board = Imagined { calls: Rc::clone(&calls), failure: Some(failure) };
            let refused = FixedClock::new(board, "X", 9).err().expect("refused");
            assert!(refused.starts_with("--lock-clocks: the clock of X cannot be fixed at 9 MHz: "), "{refused}");
            assert!(refused.ends_with(remedy), "{refused}");
            assert_eq!(*calls.borrow(), ["lock 9"]);
        }
    }
}
