//! Built page: a folder, or a part of the program (feature `page`).

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{BrowserError, PAGE};

/// Paths below the page's folder, and contents, compressed with gzip.
pub type Files = &'static [(&'static str, &'static [u8])];

#[cfg(feature = "page")]
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Returns the embedded page.
#[cfg(feature = "page")]
fn own() -> Option<Files> {
    Some(FILES)
}

/// Returns no embedded page: the program was built without one.
#[cfg(not(feature = "page"))]
fn own() -> Option<Files> {
    None
}

/// Location of the page.
#[derive(Debug, Clone)]
pub enum Page {
    /// Folder.
    Folder(PathBuf),
    /// Embedded in the program.
    Own(Files),
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Page::Folder(folder) => folder.display().fmt(f),
            Page::Own(_) => f.write_str("in the program"),
        }
    }
}

impl Page {
    /// Returns whether the page has a file of this path.
    pub fn has(&self, path: &str) -> bool {
        match self {
            Page::Folder(folder) => folder.join(path).is_file(),
            Page::Own(files) => files.iter().any(|(name, _)| *name == path),
        }
    }

    /// Returns every file of the page, by its path below the page's folder.
    ///
    /// # Errors
    /// Unreadable file.
    pub fn files(&self) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
        match self {
            Page::Folder(folder) => {
                let mut files = Vec::new();
                below(folder, Path::new(""), &mut files)?;
                Ok(files)
            }
            Page::Own(files) => {
                files.iter().map(|(name, packed)| Ok((PathBuf::from(name), unpacked(packed)?))).collect()
            }
        }
    }
}

/// Collects the files below a folder. Links are not followed, because their targets are arbitrary.
fn below(folder: &Path, at: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder.join(at))? {
        let entry = entry?;
        let (path, kind) = (at.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            below(folder, &path, files)?;
        } else if kind.is_file() {
            files.push((path, std::fs::read(entry.path())?));
        }
    }
    Ok(())
}

fn unpacked(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut plain)?;
    Ok(plain)
}

/// Output folder of `./x page` in the checkout of the program's build.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist");

/// Returns the page: the named folder, the embedded page, or a usual folder.
pub fn find(asked: Option<&Path>) -> Result<Page, BrowserError> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os(PAGE).map(PathBuf::from));
    let places = match (named, own()) {
        (Some(folder), _) => vec![folder],
        (None, Some(files)) => return Ok(Page::Own(files)),
        (None, None) => {
            let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("dist")));
            beside.into_iter().chain([PathBuf::from("dist"), PathBuf::from(CHECKOUT)]).collect()
        }
    };
    match places.iter().find(|folder| folder.join("index.html").is_file()) {
        Some(folder) => Ok(Page::Folder(folder.clone())),
        None => Err(BrowserError::NoPage { looked: in_words(&places) }),
    }
}

/// Returns the searched folders for a message. The checkout's path on the build machine is left out, because it means
/// nothing elsewhere.
fn in_words(places: &[PathBuf]) -> String {
    let place = |folder: &PathBuf| match folder == Path::new(CHECKOUT) {
        true => "`dist` of the checkout".to_owned(),
        false => folder.display().to_string(),
    };
    places.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// Responds with a file of the embedded page. Its names contain no characters that URLs escape.
pub fn answer(files: Files, request: &Request<Body>) -> Response {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let path = request.uri().path().trim_start_matches('/');
    // A folder is its index.
    let path = if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
    let Some((name, packed)) = files.iter().find(|(name, _)| *name == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kind = mime_guess::from_path(name).first_or_octet_stream().to_string();
    if takes_gzip(request.headers()) {
        return ([(CONTENT_TYPE, kind), (CONTENT_ENCODING, "gzip".to_owned())], *packed).into_response();
    }
    match unpacked(packed) {
        Ok(plain) => ([(CONTENT_TYPE, kind)], plain).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| coding.split(';').next().is_some_and(|c| c.trim() == "gzip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_where_the_program_was_built() {
        let places = ["beside/dist".into(), CHECKOUT.into()];
        assert_eq!(in_words(&places), "beside/dist, `dist` of the checkout");
    }
}
