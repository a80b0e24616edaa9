//! The place where pages post finished runs.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HeaderMap};
use axum::response::Response;
use parallax_core::record::Run;

use super::results::{Kept, NotKept};
use super::{Desk, NO_TOKEN};
use crate::browser::server::plain;

/// Where pages post finished runs.
pub const RUNS: &str = "/api/runs";
/// The header in which they show that they were given the address.
const TOKEN: &str = "x-parallax-token";

/// The largest run that is taken: that of every case of every preset is smaller.
pub const LARGEST: usize = 16 << 20;

/// Take a run. Nothing of it is read before it is known to come from our page and from somebody who was given the address.
pub async fn take(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    if !desk.address.is_ours(request.headers()) {
        let text =
            "Only a page that this desk serves may send results; open the address that `parallax serve` printed.";
        return plain(StatusCode::FORBIDDEN, text);
    }
    if !offered(request.headers()).is_some_and(|token| desk.token.is(token)) {
        return plain(StatusCode::UNAUTHORIZED, NO_TOKEN);
    }
    if !desk.posts.allows(Instant::now()) {
        return plain(StatusCode::TOO_MANY_REQUESTS, "Too many results at a time; send this one again in a minute.");
    }
    let too_large = || plain(StatusCode::PAYLOAD_TOO_LARGE, "A result may have 16 MiB; download this one as a file.");
    // A length that is announced need not be waited for; the body's limit sees to the others.
    if request.body().size_hint().lower() > LARGEST as u64 {
        return too_large();
    }
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(refused) if refused.status() == StatusCode::PAYLOAD_TOO_LARGE => return too_large(),
        Err(_) => return plain(StatusCode::BAD_REQUEST, "The result did not arrive whole; send it again."),
    };
    // Reading a large run takes longer than other requests should wait.
    match tokio::task::spawn_blocking(move || desk.keep(&body)).await {
        Ok((status, text)) => plain(status, &text),
        Err(_) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "The desk hit a bug of its own; download the result as a file.")
        }
    }
}

/// The token that a request shows.
fn offered(headers: &HeaderMap) -> Option<&str> {
    let named = headers.get(TOKEN).and_then(|value| value.to_str().ok());
    named.or_else(|| headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer "))
}

impl Desk {
    /// Keep what was sent if it is a run, as we write runs. Of what came, no byte is kept as it is.
    fn keep(&self, body: &[u8]) -> (StatusCode, String) {
        let Ok(text) = std::str::from_utf8(body) else {
            return (StatusCode::BAD_REQUEST, "A result is text in UTF-8, and this is not.".to_owned());
        };
        let run = match Run::parse(text) {
            Ok(run) => run,
            Err(mistake) => return (StatusCode::BAD_REQUEST, format!("The desk does not take this: {mistake}.")),
        };
        match self.results.keep(&run) {
            Ok(Kept::New(name)) => (StatusCode::CREATED, name),
            Ok(Kept::Already(name)) => (StatusCode::OK, format!("already here: {name}")),
            Err(why @ (NotKept::Full | NotKept::Write(_))) => (StatusCode::INSUFFICIENT_STORAGE, why.to_string()),
        }
    }
}
