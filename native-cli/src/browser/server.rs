//! A small web server for one page on this machine, and the place where the page posts its events.

use std::net::TcpListener;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parallax_core::record::{Event, events};
use percent_encoding::percent_decode_str;
use tokio::sync::oneshot;

use super::BrowserError;

/// Where the page posts its events.
pub const EVENTS: &str = "/api/events";

/// A record carries at most some thousands of samples; nothing the page posts comes near this.
const LARGEST_EVENT: usize = 64 << 20;

/// The page that must be able to talk to other sites' windows.
const NOT_ISOLATED: &str = "open-trace.html";

/// A running server; dropping it stops it.
pub struct Server {
    authority: String,
    /// Its other end waits in the server's thread, and ends it when this one goes.
    _alive: oneshot::Sender<()>,
}

/// What every answer is made from.
struct Site {
    /// The folder of the built page.
    page: PathBuf,
    /// Host and port under which the page knows us.
    authority: String,
    events: Sender<Event>,
}

impl Server {
    /// Serve `page` on a free port of the loopback interface and pass posted events on.
    pub fn start(page: PathBuf, events: Sender<Event>) -> Result<Server, BrowserError> {
        let failed = |e: std::io::Error| BrowserError::Serve(e.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
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
    Router::new()
        .route(EVENTS, post(take).get(file).layer(DefaultBodyLimit::max(LARGEST_EVENT)))
        .fallback(file)
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

async fn file(State(site): State<Arc<Site>>, method: Method, uri: Uri) -> Response {
    if !matches!(method, Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    }
    let absent = || plain(StatusCode::NOT_FOUND, "no such file");
    let Some(relative) = inside(uri.path()) else { return absent() };
    // What the page's folder links to outside of it stays outside.
    let full = site
        .page
        .join(&relative)
        .canonicalize()
        .ok()
        .filter(|f| site.page.canonicalize().is_ok_and(|p| f.starts_with(p)));
    match full.and_then(|f| std::fs::read(f).ok()) {
        Some(bytes) => {
            with_headers(bytes.into_response(), content_type(&relative), relative != Path::new(NOT_ISOLATED))
        }
        None => absent(),
    }
}

fn plain(status: StatusCode, text: &str) -> Response {
    with_headers((status, text.to_owned()).into_response(), "text/plain; charset=utf-8", true)
}

/// Isolation buys a finer host clock. Nothing is stored, so that a rebuilt page is never mixed with an old one.
fn with_headers(mut reply: Response, content_type: &'static str, isolated: bool) -> Response {
    let isolation: &[_] = if isolated {
        &[("cross-origin-opener-policy", "same-origin"), ("cross-origin-embedder-policy", "require-corp")]
    } else {
        &[]
    };
    let always = [("content-type", content_type), ("cache-control", "no-store"), ("x-content-type-options", "nosniff")];
    for &(name, value) in always.iter().chain(isolation) {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

/// The file below the page's folder that a URL path names; `None` when it would lead out of it.
fn inside(path: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
    // A backslash separates on Windows only, and no file of the page has one.
    if decoded.contains(['\\', '\0']) {
        return None;
    }
    let relative = if decoded.is_empty() { PathBuf::from("index.html") } else { PathBuf::from(&*decoded) };
    relative.components().all(|c| matches!(c, Component::Normal(_))).then_some(relative)
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        // Anything else makes browsers refuse to compile while streaming.
        Some("wasm") => "application/wasm",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// The folder of the built page.
pub fn find_page(asked: Option<&Path>) -> Result<PathBuf, BrowserError> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os("PARALLAX_PAGE").map(PathBuf::from));
    let places = match named {
        Some(folder) => vec![folder],
        None => {
            let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("dist")));
            let at_build = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../dist"));
            beside.into_iter().chain([PathBuf::from("dist"), at_build]).collect()
        }
    };
    match places.iter().find(|folder| folder.join("index.html").is_file()) {
        Some(folder) => Ok(folder.clone()),
        None => {
            let looked = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
            Err(BrowserError::NoPage { looked })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn paths_stay_inside_the_folder() {
        for (path, file) in
            [("/", "index.html"), ("/a.js", "a.js"), ("/snippets/x/y.js", "snippets/x/y.js"), ("/a%20b", "a b")]
        {
            assert_eq!(inside(path), Some(PathBuf::from(file)), "{path}");
        }
        for path in
            ["/../x", "/a/../../x", "/%2e%2e/x", "/..%2fx", "//etc/passwd", "/%2fetc/passwd", "/..\\x", "/a%00", "x"]
        {
            assert_eq!(inside(path), None, "{path}");
        }
    }

    #[test]
    fn browsers_get_the_types_that_they_insist_on() {
        for (file, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("parallax-web_bg.wasm", "application/wasm"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("unknown", "application/octet-stream"),
        ] {
            assert_eq!(content_type(Path::new(file)), expected, "{file}");
        }
    }

    /// Status line and everything after it.
    fn talk(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(&server.authority).expect("connected");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
        stream.write_all(request.replace("HOST", &server.authority).as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    #[test]
    fn files_come_isolated_except_the_one_that_opens_traces() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("index.html"), "hello").expect("written");
        std::fs::write(folder.path().join(NOT_ISOLATED), "open").expect("written");
        let (sender, _events) = std::sync::mpsc::channel();
        let server = Server::start(folder.path().to_owned(), sender).expect("started");
        let get =
            |path: &str| talk(&server, &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"));
        let index = get("/?budget=2");
        assert!(index.starts_with("HTTP/1.1 200") && index.ends_with("hello"), "{index}");
        for header in ["opener-policy: same-origin", "embedder-policy: require-corp", "no-store", "text/html"] {
            assert!(index.contains(header), "{header} in {index}");
        }
        let open = get("/open-trace.html");
        assert!(open.ends_with("open") && !open.contains("opener-policy"), "{open}");
        for path in ["/../Cargo.toml", "/%2e%2e/Cargo.toml", "/absent"] {
            assert!(get(path).starts_with("HTTP/1.1 404"), "{path}");
        }
    }

    #[test]
    fn events_are_taken_from_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, events) = std::sync::mpsc::channel();
        let server = Server::start(folder.path().to_owned(), sender).expect("started");
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
        let two = Event::Progress { share: 0.5 }.line() + started;
        assert!(post(EVENTS, "Host: HOST\r\nOrigin: http://HOST\r\n", &two).starts_with("HTTP/1.1 200"));
        assert_eq!(events.try_recv(), Ok(Event::Progress { share: 0.5 }));
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
