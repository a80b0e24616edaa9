//! The desk: a server of the page to which browsers send what they measured, and which shows all of it as a site.
//!
//! Nothing that is sent is trusted. Who sends must have been given the address, whose token no other site and nobody else on the
//! network knows; what is sent must be a run; and it is written under a name that we make, in our words.

mod code;
mod pages;
mod rate;
mod results;
mod runs;
#[cfg(test)]
mod tests;
mod token;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use tokio::sync::Mutex;

use crate::browser::server::{Address, At, Server};
use crate::browser::{BrowserError, Page};
use pages::Pages;
use rate::Rate;
use results::Results;
use token::Token;

/// So many results are taken in a minute.
const POSTS: usize = 30;

/// What somebody without the token is told.
const NO_TOKEN: &str =
    "The desk is open to whoever has its address: open the one that `parallax serve` printed, whole.";

/// What every answer is made from.
struct Desk {
    address: Address,
    token: Token,
    results: Results,
    posts: Rate,
    pages: Mutex<Option<Pages>>,
    /// The address that others are given.
    invitation: String,
    /// The same for cameras, where others can reach it.
    code: Option<Vec<Vec<bool>>>,
}

/// A running desk; dropping it stops it.
pub struct Open {
    _server: Server,
    /// The address to open, with the token.
    pub address: String,
    /// The same as a QR code for a terminal, where other devices can reach it.
    pub code: Option<String>,
    /// SHA-256 of the certificate, where it has one.
    pub fingerprint: Option<String>,
}

/// Open a desk that serves `page` and keeps results in a folder.
///
/// # Errors
/// When the interface or the port cannot be had.
pub fn open(page: Page, at: At, results: &Path) -> Result<Open, BrowserError> {
    let token = Token::new().map_err(|error| BrowserError::Serve(format!("no random token could be made: {error}")))?;
    let mut address = String::new();
    let for_others = !at.host.is_loopback();
    let server = Server::start(page, at, |reached| {
        address = format!("{}?desk={}", reached.url(), token.text());
        router(Desk {
            address: reached.clone(),
            token,
            results: Results::new(results),
            posts: Rate::new(POSTS, Duration::from_secs(60)),
            pages: Mutex::default(),
            invitation: address.clone(),
            code: for_others.then(|| code::rows(&address)).flatten(),
        })
    })?;
    let code = for_others.then(|| code::lines(&address)).flatten();
    Ok(Open { fingerprint: server.fingerprint.clone(), _server: server, address, code })
}

fn router(desk: Desk) -> Router {
    Router::new()
        .route(runs::RUNS, post(runs::take).layer(DefaultBodyLimit::max(runs::LARGEST)))
        .route("/desk", get(pages::enter))
        .route(pages::DESK, get(pages::enter))
        .route("/desk/{*below}", get(pages::page))
        .with_state(Arc::new(desk))
}
