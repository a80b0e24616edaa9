//! Web server for one page and additional routes.

use std::net::TcpListener;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::sync::oneshot;
use tower_http::compression::CompressionLayer;
use tower_http::services::ServeDir;

use super::BrowserError;
use super::address::{Address, At, hosts};
use super::connections::{self, Limits};
use super::page::{self, Page};
use super::tls::Identity;

/// Page that must be able to communicate with windows of other sites.
const NOT_ISOLATED: &str = "/open-trace.html";

/// Maximum number of threads that read files and make pages; one more thread responds.
const HELPERS: usize = 4;

/// Running server. Dropping it stops the server.
pub struct Server {
    /// URLs of the server.
    pub address: Address,
    /// SHA-256 fingerprint of the TLS certificate, as browsers show it.
    pub fingerprint: Option<String>,
    /// Sender whose receiver waits in the server's thread. The thread ends when the sender is dropped.
    _alive: oneshot::Sender<()>,
}

impl Server {
    /// Serves `page`, and the routes that `beside` returns for the address.
    pub fn start(
        page: Page,
        at: At,
        limits: Limits,
        beside: impl FnOnce(&Address) -> Router,
    ) -> Result<Server, BrowserError> {
        let failed = |e: std::io::Error| BrowserError::Serve(e.to_string());
        let listener = TcpListener::bind((at.host, at.port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let hosts = hosts(at.host);
        let address = Address::new(&hosts, port, at.tls);
        let identity = at.tls.then(|| Identity::of(&hosts)).transpose()?;
        let fingerprint = identity.as_ref().map(|identity| identity.fingerprint.clone());
        // A single thread keeps the server's load on the measured machine minimal.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(HELPERS).build().map_err(failed)?;
        let router = router(page, beside(&address));
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("made for this runtime");
                let acceptor = identity.map(|identity| identity.acceptor());
                tokio::select! {
                    _ = ended => {}
                    () = connections::serve(listener, acceptor, router, limits) => {}
                }
            });
        });
        Ok(Server { address, fingerprint, _alive: alive })
    }
}

fn router(page: Page, beside: Router) -> Router {
    match page {
        Page::Folder(folder) => beside.fallback_service(ServeDir::new(folder)),
        Page::Own(files) => beside.fallback(move |request: Request| async move { page::answer(files, &request) }),
    }
    .layer(CompressionLayer::new())
    .layer(middleware::from_fn(with_headers))
}

/// Returns a response of plain text.
pub fn plain(status: StatusCode, text: &str) -> Response {
    (status, text.to_owned()).into_response()
}

/// Adds headers to a response. Isolation gives a finer host clock. Responses are not cached, so that files of different
/// builds of the page never mix.
async fn with_headers(request: Request, next: Next) -> Response {
    let isolated = request.uri().path() != NOT_ISOLATED;
    let mut reply = next.run(request).await;
    let isolation: &[_] = if isolated {
        &[("cross-origin-opener-policy", "same-origin"), ("cross-origin-embedder-policy", "require-corp")]
    } else {
        &[]
    };
    let always = [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        // URLs may contain a secret.
        ("referrer-policy", "same-origin"),
        // Other sites must not show these pages in frames.
        ("content-security-policy", "frame-ancestors 'none'"),
        ("x-frame-options", "DENY"),
    ];
    for &(name, value) in always.iter().chain(isolation) {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Returns the status line and everything after it.
    pub fn talk(server: &Server, request: &str) -> String {
        let (head, body) = talk_in_bytes(server, request);
        head + &String::from_utf8(body).expect("text")
    }

    /// Returns everything before the body, and the body.
    pub fn talk_in_bytes(server: &Server, request: &str) -> (String, Vec<u8>) {
        let authority = &server.address.authorities[0];
        let mut stream = TcpStream::connect(authority).expect("connected");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
        stream.write_all(request.replace("HOST", authority).as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).expect("text"), body)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{talk, talk_in_bytes};
    use super::*;

    /// Headers that forbid frames of other sites.
    const UNFRAMED: [&str; 2] = ["content-security-policy: frame-ancestors 'none'", "x-frame-options: DENY"];

    #[test]
    fn files_come_isolated_except_the_one_that_opens_traces() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("index.html"), "hello").expect("written");
        for (name, text) in [("open-trace.html", "open"), ("a b.wasm", "wasm"), ("a.js", "js"), ("style.css", "css")] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let server = Server::start(Page::Folder(folder.path().to_owned()), At::loopback(0), Limits::default(), |_| {
            Router::new()
        });
        let server = server.expect("started");
        let get =
            |path: &str| talk(&server, &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"));
        let index = get("/?budget=2");
        assert!(index.starts_with("HTTP/1.1 200") && index.ends_with("hello"), "{index}");
        for header in ["opener-policy: same-origin", "embedder-policy: require-corp", "no-store", "text/html"]
            .iter()
            .chain(&UNFRAMED)
        {
            assert!(index.contains(header), "{header} in {index}");
        }
        let open = get("/open-trace.html");
        assert!(open.ends_with("open") && !open.contains("opener-policy"), "{open}");
        assert!(UNFRAMED.iter().all(|header| open.contains(header)), "{open}");
        // Browsers require these types; with any other type they refuse to compile wasm while streaming.
        for (path, kind) in
            [("/a%20b.wasm", "application/wasm"), ("/a.js", "text/javascript"), ("/style.css", "text/css")]
        {
            let answer = get(path);
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.contains(&format!("content-type: {kind}")),
                "{answer}"
            );
        }
        std::fs::write(folder.path().join("long.js"), "0;\n".repeat(1000)).expect("written");
        let request = "GET /long.js HTTP/1.1\r\nHost: HOST\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
        let (head, body) = talk_in_bytes(&server, request);
        assert!(head.contains("content-encoding: gzip") && body.len() < 300, "{head}: {} bytes", body.len());
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

    /// The bytes `hello`, compressed with gzip.
    const HELLO: &[u8] =
        &[31, 139, 8, 0, 0, 0, 0, 0, 0, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];

    #[test]
    fn the_programs_own_page_is_served_as_a_folder_would_be() {
        let names = ["index.html", "parts/a.wasm", "parts/index.html", "open-trace.html"];
        let files: page::Files = Vec::leak(names.map(|name| (name, HELLO)).to_vec());
        let server =
            Server::start(Page::Own(files), At::loopback(0), Limits::default(), |_| Router::new()).expect("started");
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
        for (method, path, status) in [
            ("GET", "/parts/?a=b", "200"),
            ("GET", "/absent", "404"),
            ("GET", "/absent/", "404"),
            ("GET", "/../index.html", "404"),
            ("DELETE", "/index.html", "405"),
        ] {
            assert!(ask(method, path, "").0.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}");
        }
    }
}
