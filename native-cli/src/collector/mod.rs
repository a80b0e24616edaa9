//! Collector: a server of the page that stores the results of browsers, and shows all of them as a site.
//!
//! No input is trusted. A sender must know the URL with its token, which other sites and other users of the network do
//! not know. The body must be a run. The file's name and its text are made by this program.

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

/// Limits of a collector on its clients.
#[derive(Debug, Clone, Copy)]
struct Grants {
    /// Limits on connections.
    limits: Limits,
    /// Maximum number of results of one sender within `span`.
    posts: usize,
    span: Duration,
}

impl Default for Grants {
    fn default() -> Grants {
        Grants { limits: Limits::default(), posts: 30, span: Duration::from_secs(60) }
    }
}

/// Error of the start of a collector.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// Unusable folder of results.
    #[error(transparent)]
    Results(#[from] Unfit),
    /// Unusable interface, port or page.
    #[error(transparent)]
    Serve(#[from] BrowserError),
}

/// Response to requests without the token.
const NO_TOKEN: &str =
    "The collector is open to anyone with its address: open the whole address that `parallax serve` printed.";

/// State shared by all requests.
struct Collector {
    address: Address,
    token: Token,
    results: Results,
    posts: Rate,
    room: Room,
    /// Held while a posted run is parsed.
    reading: Arc<Mutex<()>>,
    pages: Pages,
    /// URL for other devices.
    invitation: String,
    /// The same URL as a QR code, if other devices can reach it.
    code: Option<Vec<Vec<bool>>>,
}

/// Running collector. Dropping it stops the collector.
pub struct Open {
    _server: Server,
    /// URL to open, with the token.
    pub address: String,
    /// The same URL as a QR code for a terminal, if other devices can reach it.
    pub code: Option<String>,
    /// SHA-256 of the certificate, if there is one.
    pub fingerprint: Option<String>,
}

/// Opens a collector that serves `page` and keeps results in a folder.
///
/// # Errors
/// Unusable folder, interface or port.
pub fn open(page: Page, at: At, results: &Path) -> Result<Open, CollectorError> {
    open_with(page, at, results, Grants::default())
}

fn open_with(page: Page, at: At, results: &Path, grants: Grants) -> Result<Open, CollectorError> {
    let results = Results::new(results)?;
    let token =
        Token::new().map_err(|error| BrowserError::Serve(format!("cannot generate a random token: {error}")))?;
    let mut address = String::new();
    let for_others = !at.host.is_loopback();
    let server = Server::start(page, at, grants.limits, |reached| {
        address = format!("{}?desk={}", reached.url(), token.text());
        router(Collector {
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

fn router(collector: Collector) -> Router {
    Router::new()
        .route(runs::RUNS, post(runs::take))
        .route("/desk", get(pages::enter))
        .route(pages::COLLECTOR, get(pages::enter))
        .route("/desk/{*below}", get(pages::page))
        .with_state(Arc::new(collector))
}
