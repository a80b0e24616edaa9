//! `site`: run files as a folder of static pages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use parallax_report::site::Site as Has;
use parallax_report::{Peers, site};
use parallax_workloads::Registry;
use same_file::is_same_file;

use crate::commands::history;
use crate::commands::run_files::read;
use crate::console::noteln;
use crate::places::places;
use crate::{browser, docs, files};

/// `site`.
#[derive(Debug, Args)]
pub struct Site {
    /// Run files; `-` is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Folder for the pages; replaces files of the same names, keeps others
    #[arg(long, value_name = "DIR", default_value = "site")]
    pub out: PathBuf,
    /// Folder of the built page, which becomes `run/` [default: PARALLAX_PAGE, or a search]
    #[arg(long, value_name = "DIR")]
    pub page: Option<PathBuf>,
    /// Figures of other libraries beside ours, as in docs/results/2026-11-25-h200/peers.json; may be repeated
    #[arg(long, value_name = "FILE")]
    pub peers: Vec<PathBuf>,
    /// Earlier runs for the page of changes over time: folders, patterns or run files; may be repeated
    #[arg(long, value_name = "DIR|PATTERN|FILE")]
    pub history: Vec<PathBuf>,
    /// Address of the folder on the web, for previews of links
    #[arg(long, value_name = "URL", value_parser = address)]
    pub address: Option<String>,
    /// Folder of Markdown documents, which become pages below docs/
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub docs: Option<PathBuf>,
    /// Leave out the page that measures
    #[arg(long, conflicts_with = "page")]
    pub no_page: bool,
}

/// Writes the site. If the measuring page is absent without a request to leave it out, the site explains how to build
/// one.
pub fn site(args: &Site) -> anyhow::Result<()> {
    let mut runs = read(&args.files)?;
    site::shorten_names(&mut runs);
    let page = match (args.no_page, browser::find_page(args.page.as_deref())) {
        (true, _) => None,
        (false, Ok(page)) => Some(page),
        (false, Err(error)) if args.page.is_some() => return Err(error.into()),
        (false, Err(_)) => {
            noteln!("no built page was found, so the site cannot measure: build one with `./x page`");
            None
        }
    };
    let peers = args.peers.iter().map(|path| peers(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut earlier = places(&args.history)?;
    let is_shown = |path: &Path| args.files.iter().any(|shown| is_same_file(shown, path).unwrap_or(false));
    earlier.retain(|place| !place.file().is_some_and(is_shown));
    let earlier = history::read(&earlier, &[]);
    let documents = args.docs.as_deref().map(docs::read).transpose()?;
    let has = Has {
        catalog: &Registry,
        measures: page.is_some(),
        collector: None,
        peers: &peers,
        docs: documents.is_some(),
        earlier: Some(&earlier),
        address: args.address.as_deref(),
    };
    let mut files = site::files(&runs, has);
    files.extend(documents.iter().flatten().map(|document| document.page(has)));
    for file in &files {
        write(&args.out.join(&file.path), file.text.as_bytes(), &args.files)?;
    }
    for (path, bytes) in page.map(|page| page.files()).transpose()?.unwrap_or_default() {
        write(&args.out.join("run").join(path), &bytes, &args.files)?;
    }
    noteln!("{} pages and files in {}; open it with any web server", files.len(), args.out.display());
    Ok(())
}

/// Parses the URL of a folder; adds a final slash.
fn address(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', ' ', '"']) => {
            Ok(format!("{}/", text.trim_end_matches('/')))
        }
        _ => Err("an address begins with https:// and has no query".to_owned()),
    }
}

/// Reads a file with results of peers.
fn peers(path: &Path) -> anyhow::Result<Peers> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Peers::parse(&text).with_context(|| path.display().to_string())
}

fn write(path: &Path, bytes: &[u8], read: &[PathBuf]) -> anyhow::Result<()> {
    let Some(folder) = path.parent() else { bail!("{} has no folder", path.display()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    files::not_an_input(path, read.iter().map(PathBuf::as_path))?;
    files::write(path, |to| to.write_all(bytes))
}
