//! Site of the results of a collector. Runs are read once; pages are made on request.
//!
//! The pages lie below the token, so that their relative links need no token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use parallax_report::site;
use parallax_report::site::{Hidden, Site};
use parallax_schema::record::NamedRun;
use parallax_schema::spec::query;
use parallax_workloads::Registry;

use super::listing::{Entry, Listing};
use super::{Collector, NO_TOKEN};
use crate::browser::server::plain;

/// Entry path of the collector.
pub const COLLECTOR: &str = "/desk/";

/// Maximum size in bytes of pages and files that are cached until the folder changes.
const KEPT: usize = 32 << 20;

/// Pages of a collector.
#[derive(Default)]
pub struct Pages {
    /// Contents of the folder at its last reading.
    now: Mutex<Arc<Shown>>,
    /// Held while files are read and pages made, so that one thread at a time does so.
    making: Arc<tokio::sync::Mutex<()>>,
}

/// Contents of a results folder.
#[derive(Default)]
struct Shown {
    listing: Listing,
    /// Run and name of every shown file; `None` for a file that is no run.
    runs: HashMap<Entry, Option<Arc<NamedRun>>>,
    /// Hidden files, with the reasons.
    hidden: Vec<Hidden>,
    /// Pages made so far.
    made: Mutex<HashMap<String, Bytes>>,
}

/// Entry: redirects senders with the token to the front page.
pub async fn enter(State(collector): State<Arc<Collector>>, uri: Uri) -> Response {
    let known = query::read(uri.query().unwrap_or_default());
    match known.iter().any(|(key, value)| key == "desk" && collector.token.is(value)) {
        true => Redirect::to(&collector.front()).into_response(),
        false => plain(StatusCode::UNAUTHORIZED, NO_TOKEN),
    }
}

/// Returns a page or a run file. Paths are looked up among those of the site, never in a folder.
pub async fn page(State(collector): State<Arc<Collector>>, uri: Uri) -> Response {
    let below = uri.path().strip_prefix(COLLECTOR).unwrap_or_default();
    let (token, path) = below.split_once('/').unwrap_or((below, "index.html"));
    if !collector.token.is(token) {
        return plain(StatusCode::UNAUTHORIZED, NO_TOKEN);
    }
    match path {
        _ if !below.contains('/') => return Redirect::to(&collector.front()).into_response(),
        "run/" => return Redirect::to(&collector.measuring()).into_response(),
        _ => {}
    }
    let name = if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
    match text(&collector, &name).await {
        Ok(Some(text)) => {
            let kind = mime_guess::from_path(&name).first_or_octet_stream().to_string();
            ([(CONTENT_TYPE, kind)], text).into_response()
        }
        Ok(None) => plain(StatusCode::NOT_FOUND, "The collector has no such page; go back to its front page."),
        Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error of the collector while reading the files in its folder.",
        ),
    }
}

/// Returns the contents of a page. It is made now, unless the cached one is of the same files.
async fn text(collector: &Arc<Collector>, name: &str) -> Result<Option<Bytes>, tokio::task::JoinError> {
    if let Some(text) = site::fixed(name) {
        return Ok(Some(Bytes::from_static(text.as_bytes())));
    }
    let (of, page) = (collector.clone(), name.to_owned());
    if let Some(text) = tokio::task::spawn_blocking(move || of.kept(&page)).await? {
        return Ok(Some(text));
    }
    // The thread keeps the lock, because it continues even after the sender of the request has gone.
    let alone = collector.pages.making.clone().lock_owned().await;
    let (of, page) = (collector.clone(), name.to_owned());
    tokio::task::spawn_blocking(move || {
        let _alone = alone;
        of.made(&page)
    })
    .await
}

impl Collector {
    /// Returns the path of the front page.
    fn front(&self) -> String {
        format!("{COLLECTOR}{}/", self.token.text())
    }

    /// Returns the path of the page that measures and posts results.
    pub fn measuring(&self) -> String {
        format!("/?desk={}", self.token.text())
    }

    /// Returns a cached page of the present files.
    fn kept(&self, name: &str) -> Option<Bytes> {
        let shown = self.pages.now();
        let made = shown.made.lock().unwrap_or_else(|broken| broken.into_inner()).get(name).cloned();
        made.filter(|_| shown.listing == Listing::new(&self.results.folder))
    }

    /// Returns a page of the present files; `None` if the site has none of that name.
    fn made(&self, name: &str) -> Option<Bytes> {
        let listing = Listing::new(&self.results.folder);
        let mut shown = self.pages.now();
        if shown.listing != listing {
            shown = Arc::new(shown.renewed(listing, |entry| self.read(entry)));
            *self.pages.now.lock().unwrap_or_else(|broken| broken.into_inner()) = shown.clone();
        }
        let joined =
            site::Collector { address: &self.invitation, code: self.code.as_deref(), hidden: shown.hidden.as_slice() };
        shown.page(name, Site { measures: true, collector: Some(joined), ..Site::new(&Registry) })
    }

    fn read(&self, entry: &Entry) -> Option<NamedRun> {
        let read = entry.read(&self.results.folder);
        read.inspect_err(|why| log::warn!("{} is not shown: {why}", entry.name())).ok()
    }
}

impl Pages {
    fn now(&self) -> Arc<Shown> {
        self.now.lock().unwrap_or_else(|broken| broken.into_inner()).clone()
    }
}

impl Shown {
    /// Returns the contents for another listing. Known files are not read again.
    fn renewed(&self, listing: Listing, mut read: impl FnMut(&Entry) -> Option<NamedRun>) -> Shown {
        let mut run = |entry: &Entry| match self.runs.get(entry) {
            Some(known) => known.clone(),
            None => read(entry).map(Arc::new),
        };
        let runs: HashMap<_, _> = listing.shown.iter().map(|entry| (entry.clone(), run(entry))).collect();
        let unread = listing.shown.iter().filter(|entry| runs[*entry].is_none());
        let unread = unread.map(|entry| Hidden { file: entry.name(), why: "no run that can be read".to_owned() });
        let hidden = listing.hidden.iter().cloned().chain(unread).collect();
        Shown { listing, runs, hidden, made: Mutex::default() }
    }

    /// Returns a page or file, and caches it. Responses share its memory.
    fn page(&self, name: &str, site: Site<'_>) -> Option<Bytes> {
        let known = || self.made.lock().unwrap_or_else(|broken| broken.into_inner());
        if let Some(text) = known().get(name) {
            return Some(text.clone());
        }
        let runs = self.listing.shown.iter().filter_map(|entry| self.runs[entry].as_deref());
        let text = Bytes::from(site::Pages::new(runs, site).text(name)?);
        let mut known = known();
        if known.values().map(Bytes::len).sum::<usize>() + text.len() > KEPT {
            known.clear();
        }
        known.insert(name.to_owned(), text.clone());
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::tests::result;

    #[test]
    fn a_file_is_read_once_and_a_page_made_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        let run = |started| serde_json::to_string(&result("browser", "H200", started)).expect("JSON");
        let mut read = Vec::new();
        let mut look = |before: &Shown| {
            let listing = Listing::new(folder.path());
            let of = before.renewed(listing, |entry| {
                read.push(entry.name());
                entry.read(folder.path()).ok()
            });
            (of, std::mem::take(&mut read))
        };
        write("a.json", &run(1));
        write("b.json", "no run");
        let (first, read) = look(&Shown::default());
        assert_eq!(read, ["a.json", "b.json"]);
        assert_eq!(first.hidden.iter().map(|hidden| hidden.file.as_str()).collect::<Vec<_>>(), ["b.json"]);
        let page = |of: &Shown| of.page("index.html", Site::new(&Registry)).expect("a front");
        assert_eq!(page(&first).as_ptr(), page(&first).as_ptr());
        write("c.json", &run(2));
        write("b.json", &run(3));
        std::fs::remove_file(folder.path().join("a.json")).expect("removed");
        let (second, read) = look(&first);
        assert_eq!(read, ["b.json", "c.json"]);
        assert!(second.hidden.is_empty() && second.runs.len() == 2);
        let (_, read) = look(&second);
        assert!(read.is_empty(), "{read:?}");
    }
}
