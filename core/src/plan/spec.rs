//! What was asked for, in one vocabulary for command-line flags and URL queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Launching;
use crate::plan::schedule::{Schedule, ScheduleError};
use crate::suite::{Case, CaseError, DType, Preset, named};

/// Whether executions find their data in caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Data stays where the last execution left it.
    #[default]
    Hot,
    /// Executions go around enough copies of the data to exceed the last cache.
    Cold,
}

impl Cache {
    /// Both, with their names.
    pub const ALL: [(&'static str, Cache); 2] = [("hot", Cache::Hot), ("cold", Cache::Cold)];

    /// The name used in flags and URL queries.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Hot => "hot",
            Cache::Cold => "cold",
        }
    }
}

/// What to run. Flags of the command line and keys of a URL query have the same names and values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// Which shapes.
    pub preset: Preset,
    /// Keep cases whose canonical string matches any of these; `*` stands for anything. Empty keeps all.
    pub filter: Vec<String>,
    /// Keep these element types. Empty keeps all.
    pub dtype: Vec<DType>,
    /// Keep these variants. Empty keeps all.
    pub variant: Vec<String>,
    /// Exactly these cases, whatever the preset.
    pub case: Vec<String>,
    /// Seed of the inputs and of the order.
    pub seed: u64,
    /// Seconds of measuring for the whole run, shared evenly by its cases.
    pub budget: f64,
    /// Aimed-for half width of the 95 % interval over the median; the edge's default when absent.
    pub precision: Option<f64>,
    /// Hot or cold.
    #[serde(default)]
    pub cache: Cache,
    /// How stages reach the device; the target's usual way when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launching>,
    /// Whether ceilings are measured before the cases; without them no time can be called impossible.
    #[serde(default = "yes")]
    pub ceilings: bool,
    /// Which executions of the traced part are kept.
    #[serde(default)]
    pub schedule: Schedule,
    /// Shapes and types in the trace.
    #[serde(default = "yes")]
    pub record_shapes: bool,
    /// Device memory over time in the trace.
    #[serde(default)]
    pub profile_memory: bool,
    /// The host's call stack at each submission in the trace.
    #[serde(default)]
    pub with_stack: bool,
}

fn yes() -> bool {
    true
}

/// Aimed-for precision on a native target.
pub const PRECISION_NATIVE: f64 = 0.01;
/// Aimed-for precision in a page, whose clocks and surroundings are rougher.
pub const PRECISION_PAGE: f64 = 0.02;

impl Default for Spec {
    fn default() -> Self {
        Spec {
            preset: Preset::Quick,
            filter: Vec::new(),
            dtype: Vec::new(),
            variant: Vec::new(),
            case: Vec::new(),
            seed: 42,
            budget: 45.0,
            precision: None,
            cache: Cache::Hot,
            launch: None,
            ceilings: true,
            schedule: Schedule::default(),
            record_shapes: true,
            profile_memory: false,
            with_stack: false,
        }
    }
}

/// Values of a switch.
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// A key or value that cannot be understood.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A value is none of the known names, or a case string is wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// A number is not one, or out of range.
    #[error("{key}: `{value}` is not {wanted}")]
    Number {
        /// Which key.
        key: String,
        /// What was written.
        value: String,
        /// What would do.
        wanted: &'static str,
    },
    /// The schedule cannot be followed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// No such key.
    #[error(
        "unknown setting `{0}`: the settings are preset, filter, dtype, variant, case, seed, budget, precision, cache, \
         ceilings, schedule, record-shapes, profile-memory, with-stack"
    )]
    Key(String),
}

impl Spec {
    /// Apply one setting; `filter`, `dtype`, `variant` and `case` may be given several times.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let positive = |wanted| match value.parse::<f64>() {
            Ok(v) if v.is_finite() && v > 0.0 => Ok(v),
            _ => Err(SpecError::Number { key: key.to_owned(), value: value.to_owned(), wanted }),
        };
        match key {
            "preset" => self.preset = named("preset", value, Preset::ALL)?,
            "filter" => self.filter.push(value.to_owned()),
            "dtype" => self.dtype.push(named("dtype", value, DType::ALL)?),
            "variant" => {
                let known = crate::suite::all().iter().flat_map(|w| &w.forms).flat_map(|f| &f.variants).map(|v| v.name);
                let known: std::collections::BTreeSet<_> = known.chain([crate::suite::CPU_VARIANT]).collect();
                self.variant.push(named("variant", value, known.iter().map(|v| (*v, *v)))?.to_owned());
            }
            "case" => self.case.push(value.parse::<Case>()?.to_string()),
            "seed" => {
                self.seed = value.parse().map_err(|_| SpecError::Number {
                    key: key.to_owned(),
                    value: value.to_owned(),
                    wanted: "a whole number from 0 to 2^64 - 1",
                })?;
            }
            "budget" => self.budget = positive("a number of seconds above 0")?,
            "precision" => self.precision = Some(positive("a fraction above 0, as in 0.01")?),
            "cache" => self.cache = named("cache", value, Cache::ALL)?,
            "ceilings" => self.ceilings = named("ceilings", value, SWITCH)?,
            "schedule" => self.schedule = value.parse()?,
            "record-shapes" => self.record_shapes = named("record-shapes", value, SWITCH)?,
            "profile-memory" => self.profile_memory = named("profile-memory", value, SWITCH)?,
            "with-stack" => self.with_stack = named("with-stack", value, SWITCH)?,
            _ => return Err(SpecError::Key(key.to_owned())),
        }
        Ok(())
    }

    /// From (key, value) pairs, as a URL query gives them.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        for (key, value) in pairs {
            spec.set(key, value)?;
        }
        Ok(spec)
    }

    /// The (key, value) pairs that give this spec, defaults left out.
    pub fn to_pairs(&self) -> Vec<(&'static str, String)> {
        let default = Spec::default();
        let mut pairs = Vec::new();
        if self.preset != default.preset {
            pairs.push(("preset", self.preset.name().to_owned()));
        }
        pairs.extend(self.filter.iter().map(|f| ("filter", f.clone())));
        pairs.extend(self.dtype.iter().map(|d| ("dtype", d.name().to_owned())));
        pairs.extend(self.variant.iter().map(|v| ("variant", v.clone())));
        pairs.extend(self.case.iter().map(|c| ("case", c.clone())));
        if self.seed != default.seed {
            pairs.push(("seed", self.seed.to_string()));
        }
        if self.budget != default.budget {
            pairs.push(("budget", self.budget.to_string()));
        }
        pairs.extend(self.precision.iter().map(|p| ("precision", p.to_string())));
        if self.cache != default.cache {
            pairs.push(("cache", self.cache.name().to_owned()));
        }
        let mut switch = |key, now: bool, usual: bool| {
            if now != usual {
                pairs.push((key, if now { "on" } else { "off" }.to_owned()));
            }
        };
        switch("ceilings", self.ceilings, default.ceilings);
        switch("record-shapes", self.record_shapes, default.record_shapes);
        switch("profile-memory", self.profile_memory, default.profile_memory);
        switch("with-stack", self.with_stack, default.with_stack);
        if self.schedule != default.schedule {
            pairs.push(("schedule", self.schedule.to_string()));
        }
        pairs
    }

    /// Whether the filters keep a canonical case string.
    pub fn keeps(&self, case: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|pattern| matches(pattern, case))
    }
}

/// Whether `pattern` occurs in `text`, `*` standing for any run of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_survive_a_round_trip() {
        let pairs = [
            ("preset", "full"),
            ("filter", "attention*flash"),
            ("filter", "hash"),
            ("dtype", "f16"),
            ("variant", "flash"),
            ("case", "attention/fwd/b1,h1,s1,d1/f32/flash"),
            ("seed", "7"),
            ("budget", "12.5"),
            ("precision", "0.02"),
            ("cache", "cold"),
            ("ceilings", "off"),
            ("record-shapes", "off"),
            ("profile-memory", "on"),
            ("with-stack", "on"),
            ("schedule", "wait=3,warmup=1,active=3,repeat=2"),
        ];
        let spec = Spec::from_pairs(pairs).expect("valid");
        let back: Vec<(&str, String)> = pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        assert_eq!(spec.to_pairs(), back);
        assert_eq!(Spec::default().to_pairs(), []);
    }

    #[test]
    fn patterns_match_anywhere_with_stars() {
        let case = "attention/fwd/b1,h8,s512,d64/f16/flash";
        for (pattern, expected) in [
            ("attention", true),
            ("f16/flash", true),
            ("attention*flash", true),
            ("d64*s512", false),
            ("", true),
            ("conv", false),
        ] {
            assert_eq!(matches(pattern, case), expected, "{pattern}");
        }
    }

    #[test]
    fn mistakes_name_the_key_and_what_would_do() {
        for (key, value, part) in [
            ("preset", "fast", "unknown preset `fast`: choose one of quick, standard, full, awkward"),
            ("dtype", "f8", "unknown dtype"),
            ("variant", "flush", "unknown variant `flush`: choose one of auto, basic"),
            ("seed", "-1", "whole number"),
            ("budget", "0", "seconds above 0"),
            ("budget", "NaN", "seconds above 0"),
            ("precision", "x", "fraction"),
            ("case", "attention", "is not a case"),
            ("cache", "warm", "unknown cache `warm`: choose one of hot, cold"),
            ("schedule", "active=0", "active must be at least 1"),
            ("with-stack", "yes", "choose one of on, off"),
            ("presett", "quick", "unknown setting `presett`"),
        ] {
            let error = Spec::from_pairs([(key, value)]).expect_err(value).to_string();
            assert!(error.contains(part), "{key}={value}: {error}");
        }
    }
}
