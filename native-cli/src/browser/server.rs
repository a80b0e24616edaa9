//! A small web server for one page on this machine, and the place where the page posts its events.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parallax_core::record::{Event, events};
use tokio::sync::oneshot;
use tower_http::services::ServeDir;

use super::BrowserError;
use super::page::{self, Page};

/// Where the page posts its events.
pub const EVENTS: &str = "/api/events";

/// A record carries at most some thousands of samples; nothing the page posts comes near this.
const LARGEST_EVENT: usize = 64 << 20;

/// The page that must be able to talk to other sites' windows.
const NOT_ISOLATED: &str = "/open-trace.html";

/// A running server; dropping it stops it.
pub struct Server {
    authority: String,
    /// Its other end waits in the server's thread, and ends it when this one goes.
    _alive: oneshot::Sender<()>,
}

/// What every answer is made from.
struct Site {
    page: Page,
    /// Host and port under which the page knows us.
    authority: String,
    events: Sender<Event>,
}

impl Server {
    /// Serve `page` on a port of the loopback interface, any free one for 0, and pass posted events on.
    pub fn start(page: Page, port: u16, events: Sender<Event>) -> Result<Server, BrowserError> {
        let failed = |e: std::io::Error| BrowserError::Serve(e.to_string());
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let authority = listener.local_addr().map_err(failed)?.to_string();
        // One thread, so that the server takes next to nothing from what is measured beside it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let site = Site { page, authority: authority.clone(), events };
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("made for this runtime");
                tokio::select! {
                    _ = ended => {}
                    // Errors of single connections are dealt with inside; serving as a whole has none.
                    _ = axum::serve(listener, router(site)) => {}
                }
            });
        });
        Ok(Server { authority, _alive: alive })
    }

    /// Address of the page, with a slash at the end.
    pub fn address(&self) -> String {
        format!("http://{}/", self.authority)
    }
}

fn router(site: Site) -> Router {
    let router = Router::new().route(EVENTS, post(take).layer(DefaultBodyLimit::max(LARGEST_EVENT)));
    match &site.page {
        Page::Folder(folder) => router.fallback_service(ServeDir::new(folder)),
        Page::Own(files) => {
            let files = *files;
            router.fallback(move |request: Request| async move { page::answer(files, &request) })
        }
    }
    .layer(middleware::from_fn(with_headers))
    .with_state(Arc::new(site))
}

/// Take events in, a line each, from our own page only: any site in any browser can reach the loopback interface.
async fn take(State(site): State<Arc<Site>>, request: Request) -> Response {
    if !is_ours(request.headers(), &site.authority) {
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
    let told: Vec<Event> = match events(&text).collect::<Result<Vec<_>, _>>() {
        Ok(told) if !told.is_empty() => told,
        Ok(_) => return plain(StatusCode::BAD_REQUEST, "no event"),
        Err(mistake) => return plain(StatusCode::BAD_REQUEST, &mistake.to_string()),
    };
    // When the receiver is gone, the page takes any answer but 2xx as the end.
    match told.into_iter().try_for_each(|event| site.events.send(event)) {
        Ok(()) => plain(StatusCode::OK, ""),
        Err(_) => plain(StatusCode::GONE, "nobody listens any more"),
    }
}

fn is_ours(headers: &HeaderMap, authority: &str) -> bool {
    let named = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let origin = format!("http://{authority}");
    named(header::HOST) == Some(authority.as_bytes())
        && named(header::ORIGIN).is_none_or(|named| named == origin.as_bytes())
}

fn plain(status: StatusCode, text: &str) -> Response {
    (status, text.to_owned()).into_response()
}

/// Isolation buys a finer host clock. Nothing is stored, so that a rebuilt page is never mixed with an old one.
async fn with_headers(request: Request, next: Next) -> Response {
    let isolated = request.uri().path() != NOT_ISOLATED;
    let mut reply = next.run(request).await;
    let isolation: &[_] = if isolated {
        &[("cross-origin-opener-policy", "same-origin"), ("cross-origin-embedder-policy", "require-corp")]
    } else {
        &[]
    };
    let always = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")];
    for &(name, value) in always.iter().chain(isolation) {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::units::Nanos;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Status line and everything after it.
    fn talk(server: &Server, request: &str) -> String {
        let (head, body) = talk_in_bytes(server, request);
        head + &String::from_utf8(body).expect("text")
    }

    /// Everything before the body, and the body.
    fn talk_in_bytes(server: &Server, request: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&server.authority).expect("connected");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
        stream.write_all(request.replace("HOST", &server.authority).as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).expect("text"), body)
    }

    #[test]
    fn files_come_isolated_except_the_one_that_opens_traces() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("index.html"), "hello").expect("written");
        for (name, text) in [("open-trace.html", "open"), ("a b.wasm", "wasm"), ("a.js", "js"), ("style.css", "css")] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let (sender, _events) = std::sync::mpsc::channel();
        let server = Server::start(Page::Folder(folder.path().to_owned()), 0, sender).expect("started");
        let get =
            |path: &str| talk(&server, &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"));
        let index = get("/?budget=2");
        assert!(index.starts_with("HTTP/1.1 200") && index.ends_with("hello"), "{index}");
        for header in ["opener-policy: same-origin", "embedder-policy: require-corp", "no-store", "text/html"] {
            assert!(index.contains(header), "{header} in {index}");
        }
        let open = get("/open-trace.html");
        assert!(open.ends_with("open") && !open.contains("opener-policy"), "{open}");
        // Browsers insist on these; anything else as wasm makes them refuse to compile while streaming.
        for (path, kind) in
            [("/a%20b.wasm", "application/wasm"), ("/a.js", "text/javascript"), ("/style.css", "text/css")]
        {
            let answer = get(path);
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.contains(&format!("content-type: {kind}")),
                "{answer}"
            );
        }
        let outside = folder.path().with_extension("outside");
        std::fs::write(&outside, "secret").expect("written");
        let name = outside.file_name().expect("named").to_string_lossy().into_owned();
        for path in [
            "/../NAME",
            "/%2e%2e/NAME",
            "/..%2fNAME",
            "/%2fetc/passwd",
            "//etc/passwd",
            "/..\\NAME",
            "/a%00",
            "/absent",
        ] {
            let answer = get(&path.replace("NAME", &name));
            let status = answer.lines().next().unwrap_or_default();
            assert!(status.starts_with("HTTP/1.1 4") && !answer.contains("secret"), "{path}: {answer}");
        }
        std::fs::remove_file(outside).expect("removed");
    }

    /// `hello` by gzip.
    const HELLO: &[u8] =
        &[31, 139, 8, 0, 0, 0, 0, 0, 0, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];

    #[test]
    fn the_programs_own_page_is_served_as_a_folder_would_be() {
        let files: page::Files = &[("index.html", HELLO), ("parts/a.wasm", HELLO), ("open-trace.html", HELLO)];
        let (sender, _events) = std::sync::mpsc::channel();
        let server = Server::start(Page::Own(files), 0, sender).expect("started");
        let ask = |method: &str, path: &str, headers: &str| {
            let line = format!("{method} {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n{headers}\r\n");
            talk_in_bytes(&server, &line)
        };
        let (head, body) = ask("GET", "/?budget=2", "");
        assert!(head.starts_with("HTTP/1.1 200") && body == b"hello", "{head}");
        for header in ["opener-policy: same-origin", "embedder-policy: require-corp", "no-store", "text/html"] {
            assert!(head.contains(header), "{header} in {head}");
        }
        let (head, body) = ask("GET", "/parts/a.wasm", "Accept-Encoding: br, gzip;q=0.5\r\n");
        assert!(head.contains("content-encoding: gzip") && head.contains("application/wasm"), "{head}");
        assert_eq!(body, HELLO);
        assert!(!ask("GET", "/open-trace.html", "").0.contains("opener-policy"));
        for (method, path, status) in
            [("GET", "/absent", "404"), ("GET", "/../index.html", "404"), ("DELETE", "/index.html", "405")]
        {
            assert!(ask(method, path, "").0.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}");
        }
    }

    #[test]
    fn events_are_taken_from_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, events) = std::sync::mpsc::channel();
        let server = Server::start(Page::Folder(folder.path().to_owned()), 0, sender).expect("started");
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
