//! Figures of other libraries on a device, read from a file. A figure has the library's time and ours of the same session.

use parallax_schema::units::{Nanos, brief};
use serde::Deserialize;

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
    /// Interval of the library's time over ours, where both have a spread.
    #[serde(default)]
    pub interval: Option<[f64; 2]>,
    /// State of the card during the library's samples, if it was read.
    #[serde(default)]
    pub card: Option<CardState>,
    /// State of the card during our samples, if it was read.
    #[serde(default)]
    pub our_card: Option<CardState>,
}

/// Medians of a card's sensors during samples.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardState {
    /// Clock of the multiprocessors, in MHz.
    pub sm_clock_mhz: f64,
    /// Power of the board, in watts.
    pub power_w: f64,
}

impl CardState {
    /// Returns both readings in words: `1755 MHz, 612 W`.
    pub fn words(&self) -> String {
        format!("{:.0} MHz, {:.0} W", self.sm_clock_mhz, self.power_w)
    }
}

/// Error of a file without valid figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeersError {
    /// Not JSON, or not of the expected form.
    #[error("no file of peers: {}", brief(&.0.to_string(), LONGEST))]
    Malformed(#[from] serde_json::Error),
    /// JSON with another schema.
    #[error("no file of peers: its schema is `{}`, expected `{SCHEMA}`", brief(.0, LONGEST))]
    Schema(String),
    /// More figures than a page shows.
    #[error("a file of peers has at most {MOST} figures, not {0}")]
    TooMany(usize),
    /// A figure with an invalid string or number.
    #[error(
        "figure {0} of the peers has a time that is not a positive number, or a text of more than {LONGEST} characters, or an unsound interval or reading"
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
        let readings = self.card.iter().chain(&self.our_card).flat_map(|card| [card.sm_clock_mhz, card.power_w]);
        let ends = self.interval.into_iter().flatten();
        texts.iter().all(|text| text.chars().count() <= LONGEST)
            && [self.nanoseconds, self.ours].into_iter().chain(readings).chain(ends).all(positive)
            && self.interval.is_none_or(|[low, high]| low <= high)
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const PROBLEM: &str = "matmul/fwd/m8,n8,k8/f32";

    /// A file with one figure, and one replacement in its text.
    pub fn text(change: &str, to: &str) -> String {
        let whole = format!(
            r#"{{"schema":"parallax-peers","device":"NVIDIA H200","figures":[{{"problem":"{PROBLEM}","peer":"PyTorch 2.11 <b>","target":"cuda","nanoseconds":50,"ours":100,"variant":"tiled","source":"peers.md"}}]}}"#
        );
        whole.replace(change, to)
    }

    #[test]
    fn intervals_and_sensors_are_read_where_a_file_has_them() {
        let old = Peers::parse(&text("", "")).expect("of older versions").figures.remove(0);
        assert_eq!((old.interval, old.card, old.our_card), (None, None, None));
        let more = "\"ours\":100,\"interval\":[0.48,0.52],\"card\":{\"sm_clock_mhz\":1755,\"power_w\":612.4}";
        let new = Peers::parse(&text("\"ours\":100", more)).expect("sound").figures.remove(0);
        assert_eq!((new.interval, new.our_card), (Some([0.48, 0.52]), None));
        assert_eq!(new.card.expect("read").words(), "1755 MHz, 612 W");
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
            ("\"ours\":100", "\"ours\":100,\"interval\":[0.6,0.4]", "figure 1 of the peers"),
            ("\"ours\":100", "\"ours\":100,\"card\":{\"sm_clock_mhz\":0,\"power_w\":600}", "figure 1 of the peers"),
            ("\"ours\":100", "\"ours\":100,\"card\":{\"power_w\":600}", "missing field `sm_clock_mhz`"),
            ("{", "", "no file of peers"),
        ] {
            let error = Peers::parse(&text(change, to)).expect_err(change).to_string();
            assert!(error.contains(why), "{change}: {error}");
        }
    }
}
