//! Errors that arrive outside any call, and waiting that ends when the device does.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use parallax_core::device::BackendError;

/// What has gone wrong on a device since the last look.
#[derive(Default)]
pub struct Incidents {
    /// Why the device was lost.
    lost: Mutex<Option<String>>,
    /// The first error no scope caught.
    uncaptured: Mutex<Option<BackendError>>,
    /// Who waits for the device; one task uses it, so there is one at most.
    waiting: Mutex<Option<Waker>>,
}

/// What a `wgpu` error means to a record.
pub fn backend_error(error: wgpu::Error) -> BackendError {
    match error {
        wgpu::Error::OutOfMemory { source } => BackendError::OutOfMemory(source.to_string()),
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            BackendError::Device(description)
        }
    }
}

impl Incidents {
    /// Listen to a device.
    pub fn of(device: &wgpu::Device) -> Arc<Incidents> {
        let incidents = Arc::new(Incidents::default());
        let seen = incidents.clone();
        device.set_device_lost_callback(move |reason, message| {
            let why = if message.is_empty() { format!("{reason:?}") } else { format!("{reason:?}: {message}") };
            seen.lose(why);
        });
        let seen = incidents.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            seen.uncaptured.lock().expect("no panic while held").get_or_insert(backend_error(error));
        }));
        incidents
    }

    fn lose(&self, why: String) {
        *self.lost.lock().expect("no panic while held") = Some(why);
        if let Some(waker) = self.waiting.lock().expect("no panic while held").take() {
            waker.wake();
        }
    }

    /// Whether the device is still there.
    pub fn alive(&self) -> Result<(), BackendError> {
        match &*self.lost.lock().expect("no panic while held") {
            Some(why) => Err(BackendError::Lost(why.clone())),
            None => Ok(()),
        }
    }

    /// The error that has arrived since the last look, if any.
    pub fn look(&self) -> Result<(), BackendError> {
        self.alive()?;
        match self.uncaptured.lock().expect("no panic while held").take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Wait for an answer of the device, but no longer than there is a device.
    ///
    /// Browsers settle every promise of a lost device, or should; a run must not hang on one that does not.
    pub async fn unless_lost<T>(&self, answer: impl Future<Output = T>) -> Result<T, BackendError> {
        let mut answer = pin!(answer);
        poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            // Stored before the look, so that a loss in between still wakes us.
            *self.waiting.lock().expect("no panic while held") = Some(context.waker().clone());
            if let Err(lost) = self.alive() {
                return Poll::Ready(Err(lost));
            }
            if cfg!(target_arch = "wasm32") {
                return Poll::Pending;
            }
            // Natively answers come only while the device is polled, which happened before: there will be none.
            Poll::Ready(Err(BackendError::Device("the device was polled and gave no answer".to_owned())))
        })
        .await
    }
}

/// Error scopes around something that may fail: out of memory, validation, and what drivers reject.
pub struct Scopes<'a> {
    incidents: &'a Incidents,
    /// Outermost first.
    guards: Vec<wgpu::ErrorScopeGuard>,
}

impl<'a> Scopes<'a> {
    /// Catch errors from here on.
    pub fn open(device: &wgpu::Device, incidents: &'a Incidents) -> Scopes<'a> {
        use wgpu::ErrorFilter as F;
        let guards = [F::OutOfMemory, F::Validation, F::Internal].map(|filter| device.push_error_scope(filter));
        Scopes { incidents, guards: guards.into() }
    }

    /// The error caught so far, the likeliest cause first: what could not be allocated makes all that uses it invalid.
    ///
    /// Scopes end with the call; what comes back is only the answer, which may be awaited later.
    pub fn close(mut self) -> impl Future<Output = Result<Option<wgpu::Error>, BackendError>> + use<'a> {
        let mut answers = Vec::new();
        while let Some(guard) = self.guards.pop() {
            answers.push(guard.pop());
        }
        let incidents = self.incidents;
        async move {
            let mut first = None;
            // Popped innermost first, so the outermost comes last and replaces what followed from it.
            for answer in answers {
                if let Some(error) = incidents.unless_lost(answer).await? {
                    first = Some(error);
                }
            }
            Ok(first)
        }
    }
}

impl Drop for Scopes<'_> {
    fn drop(&mut self) {
        // Scopes must end in reverse order, which a vector does not do by itself.
        while self.guards.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[test]
    fn a_wait_ends_with_the_device() {
        let incidents = Incidents::default();
        assert_eq!(pollster::block_on(incidents.unless_lost(ready(7))), Ok(7));
        let never = pollster::block_on(incidents.unless_lost(pending::<u32>()));
        assert!(matches!(never, Err(BackendError::Device(_))), "{never:?}");
        incidents.lose("unplugged".to_owned());
        let lost = Err(BackendError::Lost("unplugged".to_owned()));
        assert_eq!(pollster::block_on(incidents.unless_lost(pending::<u32>())), lost);
        assert_eq!(incidents.look(), Err(BackendError::Lost("unplugged".to_owned())));
    }

    #[test]
    fn a_stray_error_is_reported_once() {
        let incidents = Incidents::default();
        *incidents.uncaptured.lock().expect("held by nobody") = Some(BackendError::Device("stray".to_owned()));
        assert_eq!(incidents.look(), Err(BackendError::Device("stray".to_owned())));
        assert_eq!(incidents.look(), Ok(()));
    }
}
