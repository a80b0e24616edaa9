//! Bodies of requests, with limits on length, time and memory.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::connections::Limits;

/// Memory that all bodies of a kind share, in bytes.
#[derive(Clone)]
pub struct Room(Arc<Semaphore>);

/// Body of a request. It occupies its share of the memory until it is dropped.
pub struct Held {
    /// Bytes of the body.
    pub bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reason for a missing body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoBody {
    /// Body longer than the limit.
    Long,
    /// Body without progress, or slower than the limit.
    Late,
    /// Body that ended early, or no body.
    Broken,
    /// No memory left: other bodies occupy all of it.
    Full,
}

/// Seconds until memory is usually free again.
const SOON: u64 = 5;

impl Room {
    /// Returns a memory of this size in bytes.
    pub fn new(bytes: usize) -> Room {
        Room(Arc::new(Semaphore::new(bytes)))
    }

    /// Reads the body of a request, of at most `longest` bytes.
    ///
    /// # Errors
    /// A body that is too long, too late or broken, or no memory for it.
    pub async fn read(&self, request: Request, longest: usize) -> Result<Held, NoBody> {
        let limits = request.extensions().get::<Limits>().copied().unwrap_or_default();
        // A body with an announced length is refused without a wait.
        if request.body().size_hint().lower() > longest as u64 {
            return Err(NoBody::Long);
        }
        let mut body = request.into_body();
        let all = async {
            let held = self.collect(&mut body, longest, limits).await;
            if matches!(held, Err(NoBody::Full)) {
                discard(&mut body, longest, limits).await;
            }
            held
        };
        timeout_at(Instant::now() + limits.body, all).await.unwrap_or(Err(NoBody::Late))
    }

    async fn collect(&self, body: &mut Body, longest: usize, limits: Limits) -> Result<Held, NoBody> {
        let mut held = Held { bytes: Vec::new(), _room: None };
        loop {
            let frame = match timeout(limits.stall, body.frame()).await.map_err(|_| NoBody::Late)? {
                None => return Ok(held),
                Some(frame) => frame.map_err(|_| NoBody::Broken)?,
            };
            let part = frame.into_data().unwrap_or_else(|_trailers| Bytes::new());
            if held.bytes.len() + part.len() > longest {
                return Err(NoBody::Long);
            }
            self.hold(&mut held, &part)?;
        }
    }

    fn hold(&self, held: &mut Held, part: &[u8]) -> Result<(), NoBody> {
        let more = u32::try_from(part.len()).map_err(|_| NoBody::Full)?;
        let room = self.0.clone().try_acquire_many_owned(more).map_err(|_| NoBody::Full)?;
        match &mut held._room {
            Some(all) => all.merge(room),
            none => *none = Some(room),
        }
        held.bytes.extend_from_slice(part);
        Ok(())
    }
}

/// Reads and drops the body of a refused request. A browser that is still sending would not see the response otherwise.
pub async fn pass_over(request: Request, longest: usize) {
    let limits = request.extensions().get::<Limits>().copied().unwrap_or_default();
    let mut body = request.into_body();
    let _ = timeout(limits.body, discard(&mut body, longest, limits)).await;
}

/// Reads a body to its end without keeping it. Stops at a stall or at the limit of length.
async fn discard(body: &mut Body, longest: usize, limits: Limits) {
    let mut passed = 0;
    while let Ok(Some(Ok(frame))) = timeout(limits.stall, body.frame()).await {
        passed += frame.data_ref().map_or(0, Bytes::len);
        if passed > longest {
            return;
        }
    }
}

impl NoBody {
    /// Returns the response to the sender; `what` is the name of the expected body.
    pub fn answer(self, what: &str, longest: usize) -> Response {
        match self {
            NoBody::Long => {
                let text = format!("{what} can have {} MiB at most; this one has more.", longest >> 20);
                (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
            }
            NoBody::Late => {
                (StatusCode::REQUEST_TIMEOUT, format!("{what} took too long; send it again.")).into_response()
            }
            NoBody::Broken => {
                (StatusCode::BAD_REQUEST, format!("{what} did not arrive whole; send it again.")).into_response()
            }
            NoBody::Full => {
                let text = format!("Others are sending; send again in {SOON} s.");
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, SOON.to_string())], text).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_share_their_room_and_give_it_back() {
        let room = Room::new(10);
        let request = |text: &'static str| Request::new(Body::from(text));
        assert_eq!(room.read(request("12345678901"), 10).await.map(|_| ()), Err(NoBody::Long));
        let first = room.read(request("1234567"), 10).await.map_err(|_| ()).expect("room");
        assert_eq!(first.bytes, b"1234567");
        assert_eq!(room.read(request("8901"), 10).await.map(|_| ()), Err(NoBody::Full));
        assert!(room.read(request("890"), 10).await.is_ok());
        drop(first);
        assert!(room.read(request("1234567890"), 10).await.is_ok());
        assert!(room.read(request(""), 10).await.is_ok_and(|held| held.bytes.is_empty()));
    }
}
