//! The built page: a folder, or a part of the program (feature `page`).

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{BrowserError, PAGE};

/// Paths below the page's folder, and contents, compressed by gzip.
pub type Files = &'static [(&'static str, &'static [u8])];

#[cfg(feature = "page")]
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The program's own page.
#[cfg(feature = "page")]
fn own() -> Option<Files> {
    Some(FILES)
}

/// The program's own page: it was built without one.
#[cfg(not(feature = "page"))]
fn own() -> Option<Files> {
    None
}

/// Where the page lies.
#[derive(Debug, Clone)]
pub enum Page {
    /// In a folder.
    Folder(PathBuf),
    /// In the program.
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
    /// Every file of it, by its path below the page's folder.
    ///
    /// # Errors
    /// When a file cannot be read.
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

/// The files of a folder and of those in it. Links are not followed: they may lead anywhere.
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

/// Where `./x page` puts it in the checkout that the program was built from.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist");

/// The page: in the folder that was named, in the program, or in the usual places.
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

/// Where the page was looked for. Where the program was built concerns nobody but whoever built it there.
fn in_words(places: &[PathBuf]) -> String {
    let place = |folder: &PathBuf| match folder == Path::new(CHECKOUT) {
        true => "`dist` of the checkout".to_owned(),
        false => folder.display().to_string(),
    };
    places.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// Answer a request for a file of the program's own page. Names have nothing that an address would have to escape.
pub fn answer(files: Files, request: &Request<Body>) -> Response {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let path = match request.uri().path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
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
