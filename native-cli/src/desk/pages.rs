//! The site of the results at a desk, made anew when they change.
//!
//! Its pages lie below the token, so that links among them need no more than other sites' do.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use parallax_core::plan::query;
use parallax_core::report::site::{self, Site};

use super::results::Entry;
use super::{Desk, NO_TOKEN};
use crate::browser::server::plain;

/// Where the desk is entered.
pub const DESK: &str = "/desk/";

/// The pages of what the folder of results had.
pub struct Pages {
    of: Vec<Entry>,
    files: HashMap<String, String>,
}

/// The way in: who knows the token is led to the front.
pub async fn enter(State(desk): State<Arc<Desk>>, uri: Uri) -> Response {
    let known = query::read(uri.query().unwrap_or_default());
    match known.iter().any(|(key, value)| key == "desk" && desk.token.is(value)) {
        true => Redirect::to(&desk.front()).into_response(),
        false => plain(StatusCode::UNAUTHORIZED, NO_TOKEN),
    }
}

/// A page or a run file. Paths are looked up among those of the site, and never in a folder.
pub async fn page(State(desk): State<Arc<Desk>>, uri: Uri) -> Response {
    let below = uri.path().strip_prefix(DESK).unwrap_or_default();
    let (token, path) = below.split_once('/').unwrap_or((below, "index.html"));
    if !desk.token.is(token) {
        return plain(StatusCode::UNAUTHORIZED, NO_TOKEN);
    }
    match path {
        _ if !below.contains('/') => return Redirect::to(&desk.front()).into_response(),
        "run/" => return Redirect::to(&desk.measuring()).into_response(),
        _ => {}
    }
    let name = if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
    let mut pages = desk.pages.lock().await;
    let (of, made) = (desk.clone(), pages.take());
    // Whoever asks meanwhile waits for these pages in place of making them as well.
    match tokio::task::spawn_blocking(move || of.renewed(made)).await {
        Ok(fresh) => {
            let text = fresh.files.get(&name).cloned();
            *pages = Some(fresh);
            match text {
                Some(text) => {
                    let kind = mime_guess::from_path(&name).first_or_octet_stream().to_string();
                    ([(CONTENT_TYPE, kind)], text).into_response()
                }
                None => plain(StatusCode::NOT_FOUND, "The desk has no such page; go back to its front."),
            }
        }
        Err(_) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "The desk hit a bug of its own over the files in its folder.")
        }
    }
}

impl Desk {
    /// Path of the front.
    fn front(&self) -> String {
        format!("{DESK}{}/", self.token.text())
    }

    /// Path of the page that measures and sends.
    pub fn measuring(&self) -> String {
        format!("/?desk={}", self.token.text())
    }

    /// The pages as they were if the folder is as it was; otherwise new ones.
    fn renewed(&self, made: Option<Pages>) -> Pages {
        let of = self.results.entries();
        if let Some(made) = made.filter(|made| made.of == of) {
            return made;
        }
        let runs = self.results.read(&of);
        let joined = site::Desk { address: &self.invitation, code: self.code.as_deref(), hidden: &[] };
        let files = site::files(&runs, Site { measures: true, desk: Some(joined) });
        Pages { of, files: files.into_iter().map(|file| (file.path, file.text)).collect() }
    }
}
