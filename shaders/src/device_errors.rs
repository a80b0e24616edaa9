//! Errors that arrive outside any call, and waits that end when the device is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use parallax_ir::device::BackendError;

/// Errors of a device since the last query.
#[derive(Default)]
pub struct DeviceErrors {
    /// Reason for the loss of the device.
    lost: Mutex<Option<String>>,
    /// The first error that no scope caught.
    uncaptured: Mutex<Option<BackendError>>,
    /// Waker of the task that waits for the device. One task uses the device, so there is at most one.
    waiting: Mutex<Option<Waker>>,
}

/// Converts a `wgpu` error.
pub fn backend_error(error: wgpu::Error) -> BackendError {
    match error {
        wgpu::Error::OutOfMemory { source } => BackendError::OutOfMemory(source.to_string()),
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            BackendError::Device(description)
        }
    }
}

impl DeviceErrors {
    /// Registers the callbacks of a device.
    pub fn new(device: &wgpu::Device) -> Arc<DeviceErrors> {
        let errors = Arc::new(DeviceErrors::default());
        let seen = errors.clone();
        device.set_device_lost_callback(move |reason, message| {
            let why = if message.is_empty() { format!("{reason:?}") } else { format!("{reason:?}: {message}") };
            seen.lose(why);
        });
        let seen = errors.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            seen.uncaptured.lock().expect("no panic while held").get_or_insert(backend_error(error));
        }));
        errors
    }

    /// Records the loss of the device, and wakes the task that waits for it.
    pub fn lose(&self, why: String) {
        *self.lost.lock().expect("no panic while held") = Some(why);
        if let Some(waker) = self.waiting.lock().expect("no panic while held").take() {
            waker.wake();
        }
    }

    /// Checks that the device is not lost.
    pub fn alive(&self) -> Result<(), BackendError> {
        match &*self.lost.lock().expect("no panic while held") {
            Some(why) => Err(BackendError::Lost(why.clone())),
            None => Ok(()),
        }
    }

    /// Returns the error that has arrived since the last call, if any.
    pub fn look(&self) -> Result<(), BackendError> {
        self.alive()?;
        match self.uncaptured.lock().expect("no panic while held").take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Waits for a response of the device, or for the loss of the device.
    ///
    /// Browsers should settle every promise of a lost device. A run must not hang on a promise that they leave pending.
    pub async fn unless_lost<T>(&self, answer: impl Future<Output = T>) -> Result<T, BackendError> {
        let mut answer = pin!(answer);
        poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            // The waker is stored before the check, so that a loss in between wakes the task.
            *self.waiting.lock().expect("no panic while held") = Some(context.waker().clone());
            if let Err(lost) = self.alive() {
                return Poll::Ready(Err(lost));
            }
            if cfg!(target_arch = "wasm32") {
                return Poll::Pending;
            }
            // Native callbacks run only while the device is polled. The poll has ended, so no response will arrive.
            Poll::Ready(Err(BackendError::Device("the device was polled and gave no answer".to_owned())))
        })
        .await
    }
}

/// Error scopes around a fallible operation: out of memory, validation, and errors of drivers.
pub struct Scopes<'a> {
    errors: &'a DeviceErrors,
    /// Outermost first.
    guards: Vec<wgpu::ErrorScopeGuard>,
}

impl<'a> Scopes<'a> {
    /// Opens the scopes.
    pub fn open(device: &wgpu::Device, errors: &'a DeviceErrors) -> Scopes<'a> {
        use wgpu::ErrorFilter as F;
        let guards = [F::OutOfMemory, F::Validation, F::Internal].map(|filter| device.push_error_scope(filter));
        Scopes { errors, guards: guards.into() }
    }

    /// Closes the scopes, and returns the caught error with the likeliest cause. A failed allocation invalidates all its users.
    ///
    /// The scopes end with the call. The returned future is only the result, and may be awaited later.
    pub fn close(mut self) -> impl Future<Output = Result<Option<wgpu::Error>, BackendError>> + use<'a> {
        let mut answers = Vec::new();
        while let Some(guard) = self.guards.pop() {
            answers.push(guard.pop());
        }
        let errors = self.errors;
        async move {
            let mut first = None;
            // The innermost scope is popped first. The outermost comes last and replaces the consequential errors.
            for answer in answers {
                if let Some(error) = errors.unless_lost(answer).await? {
                    first = Some(error);
                }
            }
            Ok(first)
        }
    }
}

impl Drop for Scopes<'_> {
    fn drop(&mut self) {
        // Scopes must end in reverse order, unlike the elements of a vector.
        while self.guards.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn a_wait_ends_with_the_device() {
        let errors = DeviceErrors::default();
        assert_eq!(pollster::block_on(errors.unless_lost(ready(7))), Ok(7));
        let never = pollster::block_on(errors.unless_lost(pending::<u32>()));
        assert!(matches!(never, Err(BackendError::Device(_))), "{never:?}");
        errors.lose("unplugged".to_owned());
        let lost = Err(BackendError::Lost("unplugged".to_owned()));
        assert_eq!(pollster::block_on(errors.unless_lost(pending::<u32>())), lost);
        assert_eq!(errors.look(), Err(BackendError::Lost("unplugged".to_owned())));
    }

    #[test]
    fn a_stray_error_is_reported_once() {
        let errors = DeviceErrors::default();
        *errors.uncaptured.lock().expect("not poisoned") = Some(BackendError::Device("stray".to_owned()));
        assert_eq!(errors.look(), Err(BackendError::Device("stray".to_owned())));
        assert_eq!(errors.look(), Ok(()));
    }
}
