//! Kernel sources of a folder, which a page uses in place of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::address::Address;
use super::server::plain;
use super::token::Token;

/// Path of the kernel sources. The token is the path's last part.
pub const KERNELS: &str = "/api/kernels";
/// File extension of a kernel source in WGSL.
const WGSL: &str = "wgsl";

/// Returns the router that serves the kernel sources below a folder by name. It reads them at each request, and
/// requires the token.
pub fn router(root: PathBuf, address: &Address, token: &Token) -> Router {
    let here = Arc::new((root, address.clone(), token.clone()));
    Router::new().route(KERNELS, get(give)).route(&format!("{KERNELS}/{{token}}"), get(give)).with_state(here)
}

/// Responds to the server's own page only, as the other endpoints do.
async fn give(State(here): State<Arc<(PathBuf, Address, Token)>>, request: Request) -> Response {
    let (root, address, token) = &*here;
    if !address.is_ours(&request) {
        return plain(StatusCode::FORBIDDEN, "not from this page");
    }
    if !token.ends(request.uri().path(), KERNELS) {
        return plain(StatusCode::UNAUTHORIZED, "without the token of this run");
    }
    let mut texts = BTreeMap::new();
    match collect(root, "", &mut texts) {
        Ok(()) => {
            let json = serde_json::to_string(&texts).expect("texts are JSON");
            ([(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        Err(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{} cannot be read: {why}", root.display())),
    }
}

/// Collects every kernel source below a folder under the name that kernels use: `matmul/tiled.wgsl`.
fn collect(folder: &Path, prefix: &str, texts: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        let name = format!("{prefix}{}", entry.to_string_lossy());
        if path.is_dir() {
            collect(&path, &format!("{name}/"), texts)?;
        } else if path.extension().is_some_and(|extension| extension == WGSL) {
            texts.insert(name, std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
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
    fn texts_are_given_by_name_and_to_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("copy")).expect("made");
        for (name, text) in [("copy/vec4.wgsl", "mine"), ("copy/notes.txt", "none"), ("top.wgsl", "above")] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let page = Page::Folder(folder.path().to_owned());
        let token = Token::new().expect("random");
        let beside = |address: &Address| router(folder.path().to_owned(), address, &token);
        let server = Server::start(page, At::loopback(0), Limits::default(), beside).expect("started");
        let get = |path: &str, headers: &str| {
            talk(&server, &format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
        };
        let ask = |headers: &str| get(&format!("{KERNELS}/{}", token.text()), headers);
        assert!(get(KERNELS, "Host: HOST\r\n").starts_with("HTTP/1.1 401"));
        let given = ask("Host: HOST\r\n");
        assert!(given.starts_with("HTTP/1.1 200"), "{given}");
        assert!(given.ends_with(r#"{"copy/vec4.wgsl":"mine","top.wgsl":"above"}"#), "{given}");
        assert!(ask("Host: elsewhere.example\r\n").starts_with("HTTP/1.1 403"));
        std::fs::write(folder.path().join("top.wgsl"), b"\xff").expect("written");
        assert!(ask("Host: HOST\r\n").starts_with("HTTP/1.1 500"), "an unreadable file is an error");
    }
}
