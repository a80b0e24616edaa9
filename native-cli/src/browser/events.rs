//! Endpoint to which the page posts its events.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use parallax_schema::record::{Event, events};

use super::address::Address;
use super::body::Room;
use super::server::plain;
use super::token::Token;

/// Path to which the page posts its events. The token is the path's last part.
pub const EVENTS: &str = "/api/events";

/// Limit on one post, in bytes. A record has at most some thousands of samples, far below this limit.
const LARGEST_EVENT: usize = 64 << 20;

/// State shared by all requests.
struct Events {
    address: Address,
    token: Token,
    sender: Sender<Event>,
    room: Room,
}

/// Returns the router that forwards posted events of senders with the token.
pub fn router(sender: Sender<Event>, address: &Address, token: &Token) -> Router {
    let (address, token) = (address.clone(), token.clone());
    let events = Arc::new(Events { address, token, sender, room: Room::new(2 * LARGEST_EVENT) });
    Router::new().route(EVENTS, post(take)).route(&format!("{EVENTS}/{{token}}"), post(take)).with_state(events)
}

/// Receives events, one per line, from the server's own page only. Any site in a browser of this machine, and any other
/// program, can send requests to the loopback interface.
async fn take(State(here): State<Arc<Events>>, request: Request) -> Response {
    if !here.address.is_ours(&request) {
        return plain(StatusCode::FORBIDDEN, "not from this page");
    }
    if !here.token.ends(request.uri().path(), EVENTS) {
        return plain(StatusCode::UNAUTHORIZED, "without the token of this run");
    }
    let body = match here.room.read(request, LARGEST_EVENT).await {
        Ok(body) => body,
        Err(why) => return why.answer("A post of events", LARGEST_EVENT),
    };
    let text = String::from_utf8_lossy(&body.bytes);
    let told = match events(&text) {
        Ok(told) if !told.is_empty() => told,
        Ok(_) => return plain(StatusCode::BAD_REQUEST, "no event"),
        Err(mistake) => return plain(StatusCode::BAD_REQUEST, &mistake.to_string()),
    };
    // Without a receiver, the page takes any status but 2xx as the end.
    match told.into_iter().try_for_each(|event| here.sender.send(event)) {
        Ok(()) => plain(StatusCode::OK, ""),
        Err(_) => plain(StatusCode::GONE, "the run has ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::address::At;
    use crate::browser::connections::Limits;
    use crate::browser::page::Page;
    use crate::browser::server::Server;
    use crate::browser::server::testing::talk;
    use parallax_schema::units::Nanos;

    #[test]
    fn events_are_taken_from_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, events) = std::sync::mpsc::channel();
        let (page, token) = (Page::Folder(folder.path().to_owned()), Token::new().expect("random"));
        let beside = |address: &Address| router(sender, address, &token);
        let server = Server::start(page, At::loopback(0), Limits::default(), beside).expect("started");
        let path = format!("{EVENTS}/{}", token.text());
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
        assert!(post(&path, "Host: HOST\r\nOrigin: http://HOST\r\n", &two).starts_with("HTTP/1.1 200"));
        assert_eq!(events.try_recv(), Ok(half));
        assert_eq!(events.try_recv(), Ok(Event::Started { case: "x".to_owned() }));
        for (headers, body, status) in [
            ("Host: HOST\r\nOrigin: https://elsewhere.example\r\n", started, "403"),
            ("Host: elsewhere.example\r\n", started, "403"),
            ("Host: HOST\r\n", "nonsense", "400"),
            ("Host: HOST\r\n", "", "400"),
        ] {
            assert!(post(&path, headers, body).starts_with(&format!("HTTP/1.1 {status}")), "{headers}{body}");
        }
        for stranger in
            [EVENTS.to_owned(), format!("{EVENTS}/"), format!("{EVENTS}/x"), format!("{path}/"), format!("{path}0")]
        {
            let answer = post(&stranger, "Host: HOST\r\n", started);
            assert!(answer.starts_with("HTTP/1.1 4"), "{stranger}: {answer}");
        }
        assert!(post(EVENTS, "Host: HOST\r\n", started).starts_with("HTTP/1.1 401"));
        assert!(post("/elsewhere", "Host: HOST\r\n", started).starts_with("HTTP/1.1 405"));
        assert!(events.try_recv().is_err());
        let long = format!(
            "POST {path} HTTP/1.1\r\nConnection: close\r\nHost: HOST\r\nContent-Length: {}\r\n\r\n",
            LARGEST_EVENT + 1
        );
        assert!(talk(&server, &(long + "x")).starts_with("HTTP/1.1 413"));
        drop(events);
        assert!(post(&path, "Host: HOST\r\n", started).starts_with("HTTP/1.1 410"));
    }
}
