//! Endpoint to which pages post finished runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HeaderMap, RETRY_AFTER};
use axum::response::{IntoResponse, Response};

use super::read::read;
use super::results::{Kept, NotKept};
use super::{Collector, NO_TOKEN};
use crate::browser::address::Ends;
use crate::browser::body::pass_over;
use crate::browser::server::plain;

/// Path to which pages post finished runs.
pub const RUNS: &str = "/api/runs";
/// Header with the token.
const TOKEN: &str = "x-parallax-token";

/// Largest accepted run in bytes. A run of every case of every preset is smaller.
pub const LARGEST: usize = 16 << 20;
/// Memory for all runs in transmission, in bytes.
pub const ROOM: usize = 4 * LARGEST;

/// Receives a run. The body is read only after the checks of its origin and of its token.
pub async fn take(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    if !collector.address.is_ours(&request) {
        let text =
            "Only a page that this collector serves may send results; open the address that `parallax serve` printed.";
        return plain(StatusCode::FORBIDDEN, text);
    }
    if !offered(request.headers()).is_some_and(|token| collector.token.is(token)) {
        return plain(StatusCode::UNAUTHORIZED, NO_TOKEN);
    }
    let Some(ends) = request.extensions().get::<Ends>() else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, OWN_BUG);
    };
    if let Err(wait) = collector.posts.take(ends.sender, Instant::now()) {
        pass_over(request, LARGEST).await;
        return too_many(wait);
    }
    let body = match collector.room.read(request, LARGEST).await {
        Ok(body) => body,
        Err(why) => return why.answer("A result", LARGEST),
    };
    // One run is parsed at a time, because it takes more memory than its text. The thread continues after the sender
    // has gone, and keeps the lock.
    let alone = collector.reading.clone().lock_owned().await;
    let read = tokio::task::spawn_blocking(move || {
        let _alone = alone;
        collector.keep(&body.bytes)
    });
    match read.await {
        Ok((status, text)) => plain(status, &text),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, OWN_BUG),
    }
}

/// Response to an internal error of the collector.
const OWN_BUG: &str = "Internal error of the collector; download the result as a file.";

fn too_many(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let text = format!("Too many results at a time; send this one again in {seconds} s.");
    (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, seconds.to_string())], text).into_response()
}

/// Returns the token of a request.
fn offered(headers: &HeaderMap) -> Option<&str> {
    let named = headers.get(TOKEN).and_then(|value| value.to_str().ok());
    named.or_else(|| headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer "))
}

impl Collector {
    /// Stores a posted run in the program's own format. The received bytes themselves are never stored.
    fn keep(&self, body: &[u8]) -> (StatusCode, String) {
        let run = match read(body) {
            Ok(run) => run,
            Err(refused) => return (StatusCode::BAD_REQUEST, refused.to_string()),
        };
        match self.results.keep(&run) {
            Ok(Kept::New(name)) => (StatusCode::CREATED, name),
            Ok(Kept::Already(name)) => (StatusCode::OK, format!("already here: {name}")),
            Err(why @ (NotKept::Full | NotKept::Write(_))) => (StatusCode::INSUFFICIENT_STORAGE, why.to_string()),
        }
    }
}
