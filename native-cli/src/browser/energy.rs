//! Energy counter of the page's device, which the page cannot read itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parallax_schema::device::{DeviceInfo, EnergyReading};
use parallax_schema::units::Nanos;

use super::address::Address;
use super::events::EVENTS;
use super::server::plain;
use super::token::Token;
use crate::sensors::EnergyCounter;

/// Last part of the path of readings, after the path of the events.
const ENERGY: &str = "/energy";
/// Key of the query with the seconds of rest before the reading.
const AFTER: &str = "after=";
/// Longest rest before a reading, in seconds.
const LONGEST: f64 = 60.0;
/// Time within which the page names its device.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two looks for its name.
const TICK: Duration = Duration::from_millis(10);

/// Counter of the device that the page names in its first event.
#[derive(Clone, Default)]
pub struct PageCounter(Arc<Mutex<Option<Result<EnergyCounter, String>>>>);

impl PageCounter {
    /// Opens the counter of the page's device. `card` is the name of the machine's only GPU, which the page may not know.
    pub fn open(&self, device: &DeviceInfo, card: Option<&str>) {
        let gpu = card.filter(|_| !device.kind.is_emulated());
        let named = DeviceInfo { name: gpu.unwrap_or(&device.name).to_owned(), ..device.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(EnergyCounter::of(&named));
    }

    /// Returns the reading, after the page has named its device.
    fn read(&self) -> Result<EnergyReading, String> {
        let began = Instant::now();
        loop {
            match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(Ok(counter)) => return counter.read(),
                Some(Err(why)) => return Err(why.clone()),
                None if began.elapsed() > PATIENCE => return Err("the page named no device".to_owned()),
                None => {}
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Returns the router that reads the counter for pages with the token.
pub fn router(counter: PageCounter, address: &Address, token: &Token) -> Router {
    let here = Arc::new((counter, address.clone(), token.clone()));
    Router::new().route(&format!("{EVENTS}/{{token}}{ENERGY}"), get(give)).with_state(here)
}

/// Responds to the server's own page only, as the other endpoints do: with the reading as JSON, or the reason of its absence.
async fn give(State(here): State<Arc<(PageCounter, Address, Token)>>, request: Request) -> Response {
    let (counter, address, token) = &*here;
    if !address.is_ours(&request) {
        return plain(StatusCode::FORBIDDEN, "not from this page");
    }
    let path = request.uri().path().strip_suffix(ENERGY).unwrap_or_default();
    if !token.ends(path, EVENTS) {
        return plain(StatusCode::UNAUTHORIZED, "without the token of this run");
    }
    let after = request.uri().query().and_then(|query| query.strip_prefix(AFTER)?.parse::<f64>().ok());
    let Some(after) = after.filter(|seconds| (0.0..=LONGEST).contains(seconds)) else {
        return plain(StatusCode::BAD_REQUEST, "`after` is a number of seconds from 0 to 60");
    };
    tokio::time::sleep(Nanos::from_secs(after).duration()).await;
    let counter = counter.clone();
    let read = tokio::task::spawn_blocking(move || counter.read()).await;
    let read = read.unwrap_or_else(|_| Err("the reader of the energy counter broke".to_owned()));
    let json = serde_json::to_string(&read).expect("a reading is JSON");
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
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
    fn readings_are_given_to_our_page_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (counter, token) = (PageCounter::default(), Token::new().expect("random"));
        let page = Page::Folder(folder.path().to_owned());
        let beside = |address: &Address| router(counter.clone(), address, &token);
        let server = Server::start(page, At::loopback(0), Limits::default(), beside).expect("started");
        let get = |path: &str, headers: &str| {
            talk(&server, &format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
        };
        let ours = format!("{EVENTS}/{}{ENERGY}", token.text());
        let software = parallax_schema::testing::device(parallax_schema::testing::caps());
        counter.open(&software, Some("NVIDIA H200"));
        let given = get(&format!("{ours}?after=0"), "Host: HOST\r\n");
        assert!(given.starts_with("HTTP/1.1 200") && given.contains("application/json"), "{given}");
        let (_, body) = given.split_once("\r\n\r\n").expect("a body");
        let read: Result<EnergyReading, String> = serde_json::from_str(body).expect("JSON");
        assert!(read.expect_err("an emulation").contains("imaginary is an emulation"), "{body}");
        for (path, headers, status) in [
            (format!("{ours}?after=0"), "Host: elsewhere.example\r\n", "403"),
            (format!("{EVENTS}/x{ENERGY}?after=0"), "Host: HOST\r\n", "401"),
            (ours.clone(), "Host: HOST\r\n", "400"),
            (format!("{ours}?after=-1"), "Host: HOST\r\n", "400"),
            (format!("{ours}?after=1e9"), "Host: HOST\r\n", "400"),
            (format!("{ours}?after=NaN"), "Host: HOST\r\n", "400"),
        ] {
            assert!(get(&path, headers).starts_with(&format!("HTTP/1.1 {status}")), "{path}");
        }
    }
}
