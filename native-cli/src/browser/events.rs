//! The place where the page posts its events.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use parallax_core::record::{Event, events};

use super::server::{Address, plain};

/// Where the page posts its events.
pub const EVENTS: &str = "/api/events";

/// A record carries at most some thousands of samples; nothing the page posts comes near this.
const LARGEST_EVENT: usize = 64 << 20;

/// What every answer is made from.
struct Events {
    address: Address,
    sender: Sender<Event>,
}

/// Passes posted events on.
pub fn router(sender: Sender<Event>, address: &Address) -> Router {
    let events = Events { address: address.clone(), sender };
    Router::new().route(EVENTS, post(take).layer(DefaultBodyLimit::max(LARGEST_EVENT))).with_state(Arc::new(events))
}

/// Take events in, a line each, from our own page only: any here in any browser can reach the loopback interface.
async fn take(State(here): State<Arc<Events>>, request: Request) -> Response {
    if !here.address.is_ours(request.headers()) {
        return plain(StatusCode::FORBIDDEN, "not from this page");
    }
    // A length that is announced need not be waited for; the body's limit sees to the others.
    if request.body().size_hint().lower() > LARGEST_EVENT as u64 {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "too large");
    }
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(refused) => return plain(refused.status(), &refused.body_text()),
    };
    let text = String::from_utf8_lossy(&body);
    let told = match events(&text) {
        Ok(told) if !told.is_empty() => told,
        Ok(_) => return plain(StatusCode::BAD_REQUEST, "no event"),
        Err(mistake) => return plain(StatusCode::BAD_REQUEST, &mistake.to_string()),
    };
    // When the receiver is gone, the page takes any answer but 2xx as the end.
    match told.into_iter().try_for_each(|event| here.sender.send(event)) {
        Ok(()) => plain(StatusCode::OK, ""),
        Err(_) => plain(StatusCode::GONE, "nobody listens any more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::page::Page;
    use crate::browser::server::testing::talk;
    use crate::browser::server::{At, Server};
    use parallax_core::units::Nanos;

    #[test]
    fn events_are_taken_from_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, events) = std::sync::mpsc::channel();
        let server =
            Server::start(Page::Folder(folder.path().to_owned()), At::loopback(0), |address| router(sender, address));
        let server = server.expect("started");
        let post = |path: &str, headers: &str, body: &str| {
            let length = body.len();
            talk(
                &server,
                &format!(
                    "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
                ),
            )
        };
        let started = r#"{"event":"started","case":"x"}"#;
        let half = Event::Progress { share: 0.5, left: Nanos(3e9) };
        let two = half.line() + started;
        assert!(post(EVENTS, "Host: HOST\r\nOrigin: http://HOST\r\n", &two).starts_with("HTTP/1.1 200"));
        assert_eq!(events.try_recv(), Ok(half));
        assert_eq!(events.try_recv(), Ok(Event::Started { case: "x".to_owned() }));
        for (headers, body, status) in [
            ("Host: HOST\r\nOrigin: https://elsewhere.example\r\n", started, "403"),
            ("Host: elsewhere.example\r\n", started, "403"),
            ("Host: HOST\r\n", "nonsense", "400"),
            ("Host: HOST\r\n", "", "400"),
        ] {
            assert!(post(EVENTS, headers, body).starts_with(&format!("HTTP/1.1 {status}")), "{headers}{body}");
        }
        assert!(post("/elsewhere", "Host: HOST\r\n", started).starts_with("HTTP/1.1 405"));
        assert!(events.try_recv().is_err());
        let long = format!(
            "POST {EVENTS} HTTP/1.1\r\nConnection: close\r\nHost: HOST\r\nContent-Length: {}\r\n\r\n",
            LARGEST_EVENT + 1
        );
        assert!(talk(&server, &(long + "x")).starts_with("HTTP/1.1 413"));
        drop(events);
        assert!(post(EVENTS, "Host: HOST\r\n", started).starts_with("HTTP/1.1 410"));
    }
}
