//! Endpoint of a model's job: gives it to the page, and takes the page's messages and passes.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parallax_learn::Message;

use super::address::Address;
use super::body::Room;
use super::server::plain;
use super::token::Token;

/// Path of the job. The token is the path's last part.
pub const JOBS: &str = "/api/model";

/// Limit on a message, in bytes.
const LARGEST_MESSAGE: usize = 1 << 20;

/// Post of a page about its job.
pub enum JobEvent {
    /// Message about the work.
    Message(Message),
    /// Bytes of the passes.
    Passes(Vec<u8>),
}

/// Job with its page's endpoint.
pub struct JobService {
    /// Bytes of the job.
    pub job: Bytes,
    /// Limit on the bytes of its passes.
    pub longest: usize,
    /// Receiver's other end.
    pub sender: Sender<JobEvent>,
}

/// State shared by all requests.
struct Jobs {
    service: JobService,
    address: Address,
    token: Token,
    room: Room,
}

impl JobService {
    /// Returns the router for requests with the token: GET for the job, POST for a message, PUT for the passes.
    pub fn router(self, address: &Address, token: &Token) -> Router {
        let room = Room::new(self.longest + LARGEST_MESSAGE);
        let jobs = Arc::new(Jobs { service: self, address: address.clone(), token: token.clone(), room });
        let methods = || get(answer).post(answer).put(answer);
        Router::new().route(JOBS, methods()).route(&format!("{JOBS}/{{token}}"), methods()).with_state(jobs)
    }
}

/// Responds to the server's own page only, as the other endpoints do.
async fn answer(State(here): State<Arc<Jobs>>, request: Request) -> Response {
    if !here.address.is_ours(&request) {
        return plain(StatusCode::FORBIDDEN, "not from this page");
    }
    if !here.token.ends(request.uri().path(), JOBS) {
        return plain(StatusCode::UNAUTHORIZED, "without the token of this run");
    }
    let method = request.method().clone();
    if method == Method::GET || method == Method::HEAD {
        return ([(header::CONTENT_TYPE, "application/octet-stream")], here.service.job.clone()).into_response();
    }
    let longest = if method == Method::PUT { here.service.longest } else { LARGEST_MESSAGE };
    let body = match here.room.read(request, longest).await {
        Ok(body) => body,
        Err(why) => return why.answer("A post of a model", longest),
    };
    let event = match method == Method::PUT {
        true => JobEvent::Passes(body.bytes),
        false => match Message::from_json(&String::from_utf8_lossy(&body.bytes)) {
            Ok(message) => JobEvent::Message(message),
            Err(mistake) => return plain(StatusCode::BAD_REQUEST, &mistake.to_string()),
        },
    };
    // Without a receiver, the page takes any status but 2xx as the end.
    match here.service.sender.send(event) {
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

    #[test]
    fn a_job_is_given_to_and_answered_by_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, events) = std::sync::mpsc::channel();
        let (page, token) = (Page::Folder(folder.path().to_owned()), Token::new().expect("random"));
        let service = JobService { job: Bytes::from_static(b"the job"), longest: 10, sender };
        let beside = |address: &Address| service.router(address, &token);
        let server = Server::start(page, At::loopback(0), Limits::default(), beside).expect("started");
        let path = format!("{JOBS}/{}", token.text());
        let ask = |method: &str, path: &str, headers: &str, body: &str| {
            let length = body.len();
            let head =
                format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}");
            talk(&server, &format!("{head}\r\n{body}"))
        };
        let ours = "Host: HOST\r\n";
        let given = ask("GET", &path, ours, "");
        assert!(given.starts_with("HTTP/1.1 200") && given.ends_with("the job"), "{given}");
        let half = Message::Progress { share: 0.5 };
        assert!(ask("POST", &path, ours, &half.to_json()).starts_with("HTTP/1.1 200"));
        assert!(matches!(events.try_recv(), Ok(JobEvent::Message(message)) if message == half));
        assert!(ask("PUT", &path, ours, "passes").starts_with("HTTP/1.1 200"));
        assert!(matches!(events.try_recv(), Ok(JobEvent::Passes(bytes)) if bytes == b"passes"));
        let long = "x".repeat(11);
        for (method, path, headers, body, status) in [
            ("GET", &path[..], "Host: elsewhere.example\r\n", "", "403"),
            ("PUT", &path, "Host: HOST\r\nOrigin: https://elsewhere.example\r\n", "", "403"),
            ("GET", JOBS, ours, "", "401"),
            ("POST", &format!("{JOBS}/0"), ours, "", "401"),
            ("POST", &path, ours, "nonsense", "400"),
            ("PUT", &path, ours, &long, "413"),
            ("DELETE", &path, ours, "", "405"),
        ] {
            let answer = ask(method, path, headers, body);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path} {headers}: {answer}");
        }
        assert!(events.try_recv().is_err());
        drop(events);
        assert!(ask("POST", &path, ours, &half.to_json()).starts_with("HTTP/1.1 410"));
    }
}
