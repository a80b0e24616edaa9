//! Other libraries on a device: marks of each beside our fastest kernel. The files have figures of both from one session.

use maud::{Markup, html};
use serde::Deserialize;

use super::devices::OnDevice;
use crate::compare::identity::normalised;
use crate::record::stats::geometric_mean;
use crate::report::html::{peer_rows, short, table};
use crate::report::{Cell, Column, Rank, Table, named, target_name};
use crate::suite::{Family, by_case};
use crate::units::{Nanos, brief};

/// Value of `schema` in such a file.
const SCHEMA: &str = "parallax-peers";
/// Maximum number of figures of a file.
const MOST: usize = 10_000;
/// Maximum number of characters of a string in a file.
const LONGEST: usize = 200;

/// Figures of other libraries on one device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peers {
    schema: String,
    /// Name of the device.
    pub device: String,
    /// Figures, one for each problem and library.
    pub figures: Vec<PeerFigure>,
}

/// Time of a library for a problem, and our time in the same session.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerFigure {
    /// Canonical string of the problem.
    pub problem: String,
    /// Library, its version and its method.
    pub peer: String,
    /// Target of our run.
    pub target: String,
    /// Median time of the library.
    pub nanoseconds: f64,
    /// Median time of our fastest kernel.
    pub ours: f64,
    /// Variant of that kernel.
    pub variant: String,
    /// File with the original record of both figures.
    pub source: String,
}

/// Error of a file without valid figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeersError {
    /// Not JSON, or not of the expected form.
    #[error("no file of peers: {}", brief(&.0.to_string(), LONGEST))]
    Malformed(#[from] serde_json::Error),
    /// JSON with another schema.
    #[error("no file of peers: its schema is `{}`, not `{SCHEMA}`", brief(.0, LONGEST))]
    Schema(String),
    /// More figures than a page shows.
    #[error("a file of peers has at most {MOST} figures, not {0}")]
    TooMany(usize),
    /// A figure with an invalid string or number.
    #[error(
        "figure {0} of the peers has a time that is no positive number, or a text of more than {LONGEST} characters"
    )]
    Figure(usize),
}

impl Peers {
    /// Parses the contents of a file.
    ///
    /// # Errors
    /// The first fault of the file.
    pub fn parse(text: &str) -> Result<Peers, PeersError> {
        let peers: Peers = serde_json::from_str(text)?;
        if peers.schema != SCHEMA {
            return Err(PeersError::Schema(peers.schema));
        }
        if peers.figures.len() > MOST {
            return Err(PeersError::TooMany(peers.figures.len()));
        }
        match peers.figures.iter().position(|figure| !figure.is_sound()) {
            Some(at) => Err(PeersError::Figure(at + 1)),
            None => Ok(peers),
        }
    }
}

impl PeerFigure {
    fn is_sound(&self) -> bool {
        let texts = [&self.problem, &self.peer, &self.target, &self.variant, &self.source];
        let positive = |time: f64| time.is_finite() && time > 0.0 && time < 1e15;
        texts.iter().all(|text| text.chars().count() <= LONGEST) && positive(self.nanoseconds) && positive(self.ours)
    }

    /// Returns the library's time over ours.
    pub fn ratio(&self) -> f64 {
        self.nanoseconds / self.ours
    }

    /// Returns both times in words.
    pub fn words(&self) -> String {
        format!("{}: {}, ours {} ({})", self.problem, Nanos(self.nanoseconds), Nanos(self.ours), self.variant)
    }
}

/// Returns the figures on a device, by problem; those of one family only if it is given.
pub(super) fn on<'p>(device: &OnDevice<'_>, peers: &'p [Peers], family: Option<Family>) -> Vec<&'p PeerFigure> {
    let here = |name: &str| normalised(name) == normalised(&device.name);
    let files = peers.iter().filter(|file| here(&file.device));
    let of_family = |figure: &&PeerFigure| family.is_none_or(|family| Family::of(&figure.problem) == family);
    let mut figures: Vec<&PeerFigure> = files.flat_map(|file| &file.figures).filter(of_family).collect();
    figures.sort_by(|a, b| by_case(&a.problem, &b.problem).then_with(|| a.peer.cmp(&b.peer)));
    figures
}

/// Returns a row of marks per library; nothing without figures.
pub(super) fn marks(figures: &[&PeerFigure]) -> Markup {
    let mut names: Vec<(&str, &str)> =
        figures.iter().map(|figure| (figure.peer.as_str(), figure.target.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let rows: Vec<(String, String, Vec<&PeerFigure>)> = names
        .into_iter()
        .map(|(peer, target)| {
            let own: Vec<&PeerFigure> = figures
                .iter()
                .copied()
                .filter(|figure| (figure.peer.as_str(), figure.target.as_str()) == (peer, target))
                .collect();
            let mean = geometric_mean(own.iter().map(|figure| figure.ratio()));
            let mean = mean.map_or_else(String::new, |(ratio, problems)| {
                let problems = if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") };
                format!("{} ({problems})", short(ratio))
            });
            (format!("{peer}, against ours in {}", target_name(target, None)), mean, own)
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Other libraries" }
                figure.card {
                    figcaption {
                        "Time of a library over the time of our fastest kernel. A mark is a problem; both sides were measured in one session \
                         on this kind of card. The figure is the geometric mean."
                    }
                    (peer_rows(&rows))
                }
            }
        }
    }
}

/// Returns every figure as a closed table; nothing without figures.
pub(super) fn figures(figures: &[&PeerFigure]) -> Markup {
    let row = |figure: &&PeerFigure| {
        vec![
            named(&figure.problem),
            Cell::from(figure.peer.as_str()).with(target_name(&figure.target, None)),
            Nanos(figure.nanoseconds).to_string().into(),
            Cell::from(Nanos(figure.ours).to_string()).with(figure.variant.as_str()),
            short(figure.ratio()).into(),
            figure.source.as_str().into(),
        ]
    };
    let shown = Table {
        columns: vec![
            Column::text("problem"),
            Column::text("library"),
            Column::figure("its time", Rank::Essential),
            Column::figure("ours", Rank::Essential),
            Column::figure("its time over ours", Rank::Essential),
            Column::text("recorded in"),
        ],
        rows: figures.iter().map(row).collect(),
        ..Table::default()
    };
    html! {
        @if !figures.is_empty() {
            section {
                h2 { "Other libraries, problem by problem" }
                details { summary { (figures.len()) @if figures.len() == 1 { " figure" } @else { " figures" } } (table(&shown)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::site::{Site, files};
    use crate::testing::fixtures::{run, spread};

    const PROBLEM: &str = "matmul/fwd/m8,n8,k8/f32";

    fn text(change: &str, to: &str) -> String {
        let whole = format!(
            r#"{{"schema":"parallax-peers","device":"NVIDIA H200","figures":[{{"problem":"{PROBLEM}","peer":"PyTorch 2.11 <b>","target":"cuda","nanoseconds":50,"ours":100,"variant":"tiled","source":"peers.md"}}]}}"#
        );
        whole.replace(change, to)
    }

    #[test]
    fn unsound_files_are_refused() {
        for (change, to, why) in [
            ("parallax-peers", "parallax-run", "its schema is `parallax-run`"),
            ("\"nanoseconds\":50", "\"nanoseconds\":-1", "figure 1 of the peers"),
            ("\"ours\":100", "\"ours\":0", "figure 1 of the peers"),
            ("\"ours\":100", "\"ours\":1e99", "figure 1 of the peers"),
            ("tiled", &"x".repeat(201), "figure 1 of the peers"),
            ("\"variant\"", "\"other\"", "unknown field `other`"),
            ("{", "", "no file of peers"),
        ] {
            let error = Peers::parse(&text(change, to)).expect_err(change).to_string();
            assert!(error.contains(why), "{change}: {error}");
        }
    }

    #[test]
    fn marks_stand_on_the_page_of_their_device_alone() {
        let peers = [Peers::parse(&text("", "")).expect("sound")];
        let of = |device: &str| {
            ("cuda".to_owned(), run("cuda", device, &[(&*format!("{PROBLEM}/tiled"), spread(100.0, 0.002, 40))]))
        };
        let runs = [of("NVIDIA H200"), of("NVIDIA H100")];
        let files = files(&runs, Site { peers: &peers, ..Site::default() });
        for (path, with) in [
            ("device/h200/index.html", true),
            ("device/h200/products/index.html", true),
            ("device/h100/index.html", false),
            ("device/h100/products/index.html", false),
        ] {
            let page = &files.iter().find(|file| file.path == path).expect(path).text;
            assert_eq!(page.contains("PyTorch 2.11 &lt;b&gt;"), with, "{path}");
            assert_eq!(page.contains("0.50×"), with, "{path}");
        }
    }
}
