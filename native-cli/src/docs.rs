//! Documents in Markdown as pages of the site.
//!
//! `guide/run.md` becomes `docs/guide/run/`, and `README.md` the page of its folder. Links between documents lead to their pages;
//! links to other files of the repository lead to its address on the web. A link to a file that does not exist is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use parallax_report::site::{File, Site};
use parallax_report::{html, site};
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd};

/// Address of the repository's files.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD");
/// Groups of the index: title, and the folder whose documents it has. The last group has those without a folder.
const GROUPS: [(&str, &str); 2] = [("Guides", "guide"), ("Reference", "")];

/// Document as a page of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Folder of the page below `docs/`, with a slash at its end; empty for the index.
    pub path: String,
    /// First heading.
    pub title: String,
    /// First paragraph as plain text.
    pub about: String,
    /// Content in HTML.
    pub html: String,
}

impl Document {
    /// Returns the page in the frame of a site.
    pub fn page(&self, site: Site) -> File {
        let depth = 1 + self.path.matches('/').count();
        let text = site::document(site, depth, (&self.title, &self.about), &self.html);
        File { path: format!("docs/{}index.html", self.path), text }
    }
}

/// Reads the documents of a folder and of those below it, and adds an index.
///
/// # Errors
/// File that cannot be read, a link to a file that does not exist, or a folder without documents.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Document>> {
    let mut files = Vec::new();
    find(folder, Path::new(""), &mut files).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    if files.is_empty() {
        bail!("no document (*.md) is in {}", folder.display());
    }
    files.sort();
    let paths: BTreeMap<PathBuf, String> = files.iter().map(|file| (file.clone(), page_of(file))).collect();
    let name = fs::canonicalize(folder)?.file_name().unwrap_or_default().to_owned();
    let tree = Tree { folder, name: PathBuf::from(name), paths: &paths };
    let mut documents = files.iter().map(|file| tree.document(file)).collect::<anyhow::Result<Vec<_>>>()?;
    if documents.iter().all(|document| !document.path.is_empty()) {
        documents.insert(0, index(&documents));
    }
    Ok(documents)
}

/// Collects the Markdown files below a folder by their paths in it.
fn find(folder: &Path, below: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            find(folder, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the folder of a file's page below `docs/`.
fn page_of(file: &Path) -> String {
    let path = file.with_extension("").to_string_lossy().replace('\\', "/").to_lowercase();
    let path = path.strip_suffix("readme").unwrap_or(&path).trim_end_matches('/').to_owned();
    if path.is_empty() { path } else { path + "/" }
}

/// Files of the documents, for links between them.
struct Tree<'t> {
    folder: &'t Path,
    /// Name of the folder in the repository.
    name: PathBuf,
    /// Pages by their files.
    paths: &'t BTreeMap<PathBuf, String>,
}

impl Tree<'_> {
    fn document(&self, file: &Path) -> anyhow::Result<Document> {
        let shown = self.folder.join(file);
        let text = fs::read_to_string(&shown).with_context(|| format!("cannot read {}", shown.display()))?;
        let path = &self.paths[file];
        let parser = Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
        let events = parser
            .map(|event| self.linked(event, file, path))
            .collect::<anyhow::Result<Vec<Event>>>()
            .with_context(|| shown.display().to_string())?;
        let title = first(&events, |tag| matches!(tag, Tag::Heading { .. }));
        let title = title.unwrap_or_else(|| file.with_extension("").display().to_string());
        let about = first(&events, |tag| matches!(tag, Tag::Paragraph)).unwrap_or_else(|| title.clone());
        let mut html = String::new();
        pulldown_cmark::html::push_html(&mut html, tables(headings(events)).into_iter());
        Ok(Document { path: path.clone(), title, about, html: one_line(&html) })
    }

    /// Returns the event with the target of its link on the site. HTML in a document is dropped.
    fn linked<'e>(&self, event: Event<'e>, file: &Path, page: &str) -> anyhow::Result<Event<'e>> {
        Ok(match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(self.target(&dest_url, file, page)?);
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            Event::Start(Tag::Image { .. }) => bail!("pictures are not supported in documents of the site"),
            Event::Html(_) | Event::InlineHtml(_) => Event::Text("".into()),
            other => other,
        })
    }

    /// Returns the target of a link: a page relative to `page`, or an address on the web.
    fn target(&self, link: &str, file: &Path, page: &str) -> anyhow::Result<String> {
        let (path, fragment) = link.split_at(link.find('#').unwrap_or(link.len()));
        if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
            return Ok(link.to_owned());
        }
        let there = plain(&self.name.join(file).with_file_name("").join(path));
        let there = there.with_context(|| format!("the link {link} leaves the repository"))?;
        let root = self.folder.join("..");
        if !root.join(&there).exists() {
            bail!("the link {link} leads to no file");
        }
        let inside = there.strip_prefix(&self.name).ok();
        let to = inside.and_then(|inside| self.paths.get(inside).or_else(|| self.paths.get(&inside.join("README.md"))));
        Ok(match to {
            Some(to) => format!("{}{to}{fragment}", "../".repeat(page.matches('/').count())),
            None => format!("{REPOSITORY}/{}{fragment}", there.to_string_lossy().replace('\\', "/")),
        })
    }
}

/// Resolves `.` and `..` in a path; `None` if it leaves its root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

/// Returns the plain text of the first element with a wanted tag.
fn first(events: &[Event], wanted: impl Fn(&Tag) -> bool) -> Option<String> {
    let start = events.iter().position(|event| matches!(event, Event::Start(tag) if wanted(tag)))?;
    let Event::Start(tag) = &events[start] else { return None };
    let end = tag.to_end();
    let inside = events[start..].iter().take_while(|event| !matches!(event, Event::End(found) if *found == end));
    Some(words(inside))
}

/// Returns the text of events without marks.
fn words<'e>(events: impl Iterator<Item = &'e Event<'e>>) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            Event::Text(part) | Event::Code(part) => text += part,
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            _ => {}
        }
    }
    text
}

/// Gives each heading an address, as GitHub does: lower case, hyphens for spaces, a number for a repetition.
fn headings(events: Vec<Event>) -> Vec<Event> {
    let mut taken = BTreeSet::new();
    let mut out: Vec<Event> = Vec::with_capacity(events.len());
    let mut start = 0;
    for event in events {
        if matches!(event, Event::Start(Tag::Heading { .. })) {
            start = out.len();
        }
        if matches!(event, Event::End(TagEnd::Heading(_))) {
            let text = words(out[start..].iter());
            let kept =
                text.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
            let slug = kept.replace(' ', "-");
            let numbered = (1..).map(|n| format!("{slug}-{n}"));
            let free = std::iter::once(slug.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
            if let Event::Start(Tag::Heading { id, .. }) = &mut out[start] {
                *id = free.map(CowStr::from);
            }
        }
        out.push(event);
    }
    out
}

/// Replaces the marks of tables by those of the site's: a box that scrolls, titles at the cells, no styles of their own.
fn tables(events: Vec<Event>) -> Vec<Event> {
    let raw = |text: String| Event::Html(text.into());
    let mut out: Vec<Event> = Vec::with_capacity(events.len());
    let (mut right, mut titles, mut in_head, mut column, mut start) = (Vec::new(), Vec::new(), false, 0, 0);
    for event in events {
        match event {
            Event::Start(Tag::Table(alignments)) => {
                let width = html::table_width(alignments.len());
                right = alignments.iter().map(|alignment| *alignment == Alignment::Right).collect();
                titles.clear();
                out.push(raw(format!("<div class=\"wide {width}\" tabindex=\"0\"><table>")));
            }
            Event::End(TagEnd::Table) => out.push(raw("</tbody></table></div>\n".to_owned())),
            Event::Start(Tag::TableHead) => {
                (in_head, column) = (true, 0);
                out.push(raw("<thead><tr>".to_owned()));
            }
            Event::End(TagEnd::TableHead) => {
                in_head = false;
                out.push(raw("</tr></thead><tbody>".to_owned()));
            }
            Event::Start(Tag::TableRow) => {
                column = 0;
                out.push(raw("<tr>".to_owned()));
            }
            Event::End(TagEnd::TableRow) => out.push(raw("</tr>\n".to_owned())),
            Event::Start(Tag::TableCell) => {
                let class = if right.get(column) == Some(&true) { " class=\"right\"" } else { "" };
                let title = titles.get(column).filter(|_| column > 0 && !in_head);
                let title = title.map(|title: &String| format!(" data-t=\"{}\"", attribute(title))).unwrap_or_default();
                out.push(raw(format!("<{}{class}{title}>", if in_head { "th" } else { "td" })));
                start = out.len();
            }
            Event::End(TagEnd::TableCell) => {
                if in_head {
                    titles.push(words(out[start..].iter()));
                }
                column += 1;
                out.push(raw(if in_head { "</th>" } else { "</td>" }.to_owned()));
            }
            other => out.push(other),
        }
    }
    out
}

/// Returns the HTML without line breaks, because pages show control characters; those of code become references.
fn one_line(html: &str) -> String {
    let piece = |piece: &str| match piece.split_once("<pre>") {
        Some((before, code)) => format!("{}<pre>{}", before.replace('\n', " "), code.trim_end().replace('\n', "&#10;")),
        None => piece.replace('\n', " "),
    };
    html.split_inclusive("</pre>").map(piece).collect()
}

/// Escapes a text for an attribute.
fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

/// Returns the index: guides and references one by one, and other folders by their first page.
fn index(documents: &[Document]) -> Document {
    let line = |document: &Document| {
        let (title, about) = (attribute(&document.title), attribute(&document.about));
        let about = if document.about == document.title { String::new() } else { format!(": {about}") };
        format!("<li><a href=\"{}\">{title}</a>{about}</li>", document.path)
    };
    let folder = |document: &Document| {
        document.path.trim_end_matches('/').rsplit_once('/').map_or(String::new(), |f| f.0.to_owned())
    };
    let mut html = "<h1>Documents</h1>".to_owned();
    for (title, wanted) in GROUPS {
        let of_group: String = documents.iter().filter(|document| folder(document) == wanted).map(line).collect();
        if !of_group.is_empty() {
            html += &format!("<h2>{title}</h2><ul class=\"topics\">{of_group}</ul>");
        }
    }
    let (title, about) =
        ("Documents".to_owned(), "Guides, methods, recorded runs and experiments of Parallax.".to_owned());
    Document { path: String::new(), title, about, html }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::Registry;

    fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        let docs = dir.path().join("docs");
        (dir, docs)
    }

    #[test]
    fn links_lead_to_pages_or_to_the_repository() {
        let (_dir, docs) = written(&[
            (
                "docs/guide/run.md",
                "# Run `it`\n\nHow *to* run.\n\n[m](../METHOD.md#a-b) [s](../../x.rs) [r](../results) [w](https://a.b/)",
            ),
            ("docs/METHOD.md", "# Method\n\n## A b\n\n## A b\n\n[back](guide/run.md) [here](#a-b)"),
            ("docs/results/README.md", "# Results\n\n[one](one/run.json)"),
            ("docs/results/one/run.json", "{}"),
            ("x.rs", ""),
        ]);
        let documents = read(&docs).expect("documents");
        let by = |path: &str| documents.iter().find(|document| document.path == path).expect(path);
        let run = by("guide/run/");
        assert_eq!((run.title.as_str(), run.about.as_str()), ("Run it", "How to run."));
        for part in [
            "href=\"../../method/#a-b\"",
            &format!("href=\"{REPOSITORY}/x.rs\""),
            "href=\"../../results/\"",
            "href=\"https://a.b/\"",
        ] {
            assert!(run.html.contains(part), "{part}: {}", run.html);
        }
        let method = by("method/");
        for part in ["id=\"a-b\"", "id=\"a-b-1\"", "href=\"../guide/run/\"", "href=\"#a-b\""] {
            assert!(method.html.contains(part), "{part}: {}", method.html);
        }
        assert!(by("results/").html.contains(&format!("href=\"{REPOSITORY}/docs/results/one/run.json\"")));
        let index = by("");
        for part in ["href=\"guide/run/\"", "href=\"method/\"", "href=\"results/\"", ": How to run."] {
            assert!(index.html.contains(part), "{part}: {}", index.html);
        }
        assert_eq!(index.page(Site::new(&Registry)).path, "docs/index.html");
        assert!(run.page(Site::new(&Registry)).text.contains("href=\"../../../site.css\""));
    }

    #[test]
    fn tables_are_the_sites_own_and_html_is_dropped() {
        let (_dir, docs) = written(&[(
            "docs/a.md",
            "# A\n\n| x | \"y\" |\n| --- | --: |\n| `1` | 2 |\n\n<script>alert(1)</script>\n\nb <b onclick=x> c",
        )]);
        let html = &read(&docs).expect("documents")[1].html;
        let row = "<td><code>1</code></td><td class=\"right\" data-t=\"&quot;y&quot;\">2</td>";
        assert!(html.contains("<div class=\"wide few\" tabindex=\"0\"><table>") && html.contains(row), "{html}");
        for forbidden in ["style=", "<script", "onclick"] {
            assert!(!html.contains(forbidden), "{forbidden}: {html}");
        }
    }

    #[test]
    fn code_keeps_its_lines() {
        let (_dir, docs) = written(&[("docs/a.md", "# A\n\nb\nc\n\n```sh\nd < e\nf\n```\n\ng")]);
        let page = read(&docs).expect("documents")[1].page(Site::new(&Registry)).text;
        let code = "<p>b c</p> <pre><code class=\"language-sh\">d &lt; e&#10;f&#10;</code></pre> <p>g</p>";
        assert!(page.contains(code), "{page}");
    }

    #[test]
    fn links_to_no_file_are_errors() {
        for (link, why) in [("gone.md", "leads to no file"), ("../../../x", "leaves the repository")] {
            let (_dir, docs) = written(&[("docs/a.md", &format!("# A\n\n[x]({link})"))]);
            let error = format!("{:#}", read(&docs).expect_err(link));
            assert!(error.contains(why) && error.contains("a.md"), "{error}");
        }
        let (_dir, docs) = written(&[("docs/a.txt", "")]);
        assert!(read(&docs).expect_err("no documents").to_string().contains("no document"));
    }
}
