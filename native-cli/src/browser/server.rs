//! A small web server for one page on this machine, and the place where the page posts its events.

use std::io::{Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use percent_encoding::percent_decode_str;
use tiny_http::{Header, Method, Request, Response, StatusCode};

use super::BrowserError;
use super::event::{self, RemoteEvent};

/// Where the page posts its events.
pub const EVENTS: &str = "/api/events";

/// A record carries at most some thousands of samples; nothing the page posts comes near this.
const LARGEST_EVENT: u64 = 64 << 20;

/// Threads that answer requests.
const WORKERS: usize = 3;

/// The page that must be able to talk to other sites' windows.
const NOT_ISOLATED: &str = "open-trace.html";

/// A running server; dropping it stops it.
pub struct Server {
    http: Arc<tiny_http::Server>,
    authority: String,
}

impl Server {
    /// Serve `page` on a free port of the loopback interface and pass posted events on.
    pub fn start(page: PathBuf, events: Sender<RemoteEvent>) -> Result<Server, BrowserError> {
        let http = tiny_http::Server::http("127.0.0.1:0").map_err(|e| BrowserError::Serve(e.to_string()))?;
        let http = Arc::new(http);
        let authority = http.server_addr().to_string();
        for _ in 0..WORKERS {
            let (http, page, events, authority) = (http.clone(), page.clone(), events.clone(), authority.clone());
            std::thread::spawn(move || {
                for request in http.incoming_requests() {
                    // A client that hangs up early is its own loss.
                    let _ = answer(request, &page, &authority, &events);
                }
            });
        }
        Ok(Server { http, authority })
    }

    /// Address of the page, with a slash at the end.
    pub fn address(&self) -> String {
        format!("http://{}/", self.authority)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for _ in 0..WORKERS {
            self.http.unblock();
        }
    }
}

type Reply = Response<Cursor<Vec<u8>>>;

fn answer(mut request: Request, page: &Path, authority: &str, events: &Sender<RemoteEvent>) -> std::io::Result<()> {
    let path = request.url().split(['?', '#']).next().unwrap_or("/").to_owned();
    let reply = match request.method() {
        Method::Post if path == EVENTS => post(&mut request, authority, events),
        Method::Get | Method::Head => file(page, &path),
        _ => plain(405, "method not allowed"),
    };
    request.respond(reply)
}

/// Take an event in, from our own page only: any site in any browser can reach the loopback interface.
fn post(request: &mut Request, authority: &str, events: &Sender<RemoteEvent>) -> Reply {
    let header = |name: &'static str| {
        request.headers().iter().find(|h| h.field.equiv(name)).map(|h| h.value.as_str().to_owned())
    };
    let ours = header("Host").is_some_and(|host| host == authority)
        && header("Origin").is_none_or(|origin| origin == format!("http://{authority}"));
    if !ours {
        return plain(403, "not from this page");
    }
    let mut body = Vec::new();
    match request.as_reader().take(LARGEST_EVENT + 1).read_to_end(&mut body) {
        Ok(length) if length as u64 > LARGEST_EVENT => return plain(413, "too large"),
        Ok(_) => {}
        Err(_) => return plain(400, "the body ended early"),
    }
    match event::parse(&body).map(|event| events.send(event)) {
        Ok(Ok(())) => plain(200, ""),
        // The receiver is gone: the page takes any answer but 2xx as the end.
        Ok(Err(_)) => plain(410, "nobody listens any more"),
        Err(mistake) => plain(400, &mistake.to_string()),
    }
}

fn file(page: &Path, path: &str) -> Reply {
    let Some(relative) = inside(path) else { return plain(404, "no such file") };
    // What the page's folder links to outside of it stays outside.
    let full = page.join(&relative).canonicalize().ok().filter(|f| page.canonicalize().is_ok_and(|p| f.starts_with(p)));
    match full.and_then(|f| std::fs::read(f).ok()) {
        Some(bytes) => {
            with_headers(Response::from_data(bytes), content_type(&relative), relative != Path::new(NOT_ISOLATED))
        }
        None => plain(404, "no such file"),
    }
}

fn plain(status: u16, text: &str) -> Reply {
    let reply = Response::from_string(text).with_status_code(StatusCode(status));
    with_headers(reply, "text/plain; charset=utf-8", true)
}

/// Isolation buys a finer host clock. Nothing is stored, so that a rebuilt page is never mixed with an old one.
fn with_headers(reply: Reply, content_type: &str, isolated: bool) -> Reply {
    let isolation: &[_] = if isolated {
        &[("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Embedder-Policy", "require-corp")]
    } else {
        &[]
    };
    let always = [("Content-Type", content_type), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")];
    always.iter().chain(isolation).fold(reply, |reply, (name, value)| {
        reply.with_header(Header::from_bytes(*name, *value).expect("these are valid headers"))
    })
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
    use std::io::Write;
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
        for header in ["Opener-Policy: same-origin", "Embedder-Policy: require-corp", "no-store", "text/html"] {
            assert!(index.contains(header), "{header} in {index}");
        }
        let open = get("/open-trace.html");
        assert!(open.ends_with("open") && !open.contains("Opener-Policy"), "{open}");
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
        assert!(post(EVENTS, "Host: HOST\r\nOrigin: http://HOST\r\n", started).starts_with("HTTP/1.1 200"));
        assert_eq!(events.try_recv(), Ok(RemoteEvent::Started { case: "x".to_owned() }));
        for (headers, body, status) in [
            ("Host: HOST\r\nOrigin: https://elsewhere.example\r\n", started, "403"),
            ("Host: elsewhere.example\r\n", started, "403"),
            ("Host: HOST\r\n", "nonsense", "400"),
        ] {
            assert!(post(EVENTS, headers, body).starts_with(&format!("HTTP/1.1 {status}")), "{headers}{body}");
        }
        assert!(post("/elsewhere", "Host: HOST\r\n", started).starts_with("HTTP/1.1 405"));
        assert!(events.try_recv().is_err());
        drop(events);
        assert!(post(EVENTS, "Host: HOST\r\n", started).starts_with("HTTP/1.1 410"));
    }
}
