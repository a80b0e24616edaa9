//! The desk: a server of the page to which browsers send what they measured, and which shows all of it as a site.
//!
//! Nothing that is sent is trusted. Who sends must have been given the address, whose token no other site and nobody else on the
//! network knows; what is sent must be a run; and it is written under a name that we make, in our words.

mod code;
mod listing;
mod pages;
mod rate;
mod read;
mod results;
mod runs;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tokio::sync::Mutex;

use crate::browser::address::{Address, At};
use crate::browser::body::Room;
use crate::browser::connections::Limits;
use crate::browser::server::Server;
use crate::browser::token::Token;
use crate::browser::{BrowserError, Page};
use pages::Pages;
use rate::Rate;
use results::{Results, Unfit};

/// What a desk grants those that connect to it.
#[derive(Debug, Clone, Copy)]
struct Grants {
    /// Of connections.
    limits: Limits,
    /// Results that it takes of one sender within `span`.
    posts: usize,
    span: Duration,
}

impl Default for Grants {
    fn default() -> Grants {
        Grants { limits: Limits::default(), posts: 30, span: Duration::from_secs(60) }
    }
}

/// Why a desk does not open.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// Its folder of results.
    #[error(transparent)]
    Results(#[from] Unfit),
    /// Its interface, port or page.
    #[error(transparent)]
    Serve(#[from] BrowserError),
}

/// The answer to requests without the token.
const NO_TOKEN: &str =
    "The desk is open to whoever has its address: open the one that `parallax serve` printed, whole.";

/// What every answer is made from.
struct Desk {
    address: Address,
    token: Token,
    results: Results,
    posts: Rate,
    room: Room,
    /// Held while a run that was posted is read.
    reading: Arc<Mutex<()>>,
    pages: Pages,
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
/// When nothing can be kept in the folder, or the interface or the port cannot be had.
pub fn open(page: Page, at: At, results: &Path) -> Result<Open, DeskError> {
    open_with(page, at, results, Grants::default())
}

fn open_with(page: Page, at: At, results: &Path, grants: Grants) -> Result<Open, DeskError> {
    let results = Results::new(results)?;
    let token = Token::new().map_err(|error| BrowserError::Serve(format!("no random token could be made: {error}")))?;
    let mut address = String::new();
    let for_others = !at.host.is_loopback();
    let server = Server::start(page, at, grants.limits, |reached| {
        address = format!("{}?desk={}", reached.url(), token.text());
        router(Desk {
            address: reached.clone(),
            token,
            results,
            posts: Rate::new(grants.posts, grants.span),
            room: Room::new(runs::ROOM),
            reading: Arc::default(),
            pages: Pages::default(),
            invitation: address.clone(),
            code: for_others.then(|| code::rows(&address)).flatten(),
        })
    })?;
    let code = for_others.then(|| code::lines(&address)).flatten();
    Ok(Open { fingerprint: server.fingerprint.clone(), _server: server, address, code })
}

fn router(desk: Desk) -> Router {
    Router::new()
        .route(runs::RUNS, post(runs::take))
        .route("/desk", get(pages::enter))
        .route(pages::DESK, get(pages::enter))
        .route("/desk/{*below}", get(pages::page))
        .with_state(Arc::new(desk))
}
