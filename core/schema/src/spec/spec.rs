//! Request of a run, in one vocabulary for flags, URL queries and settings files; [`settings`] is its dictionary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{CaseError, DType, Direction, Preset, TuningError};
use crate::device::Launching;
use crate::spec::schedule::{Schedule, ScheduleError};
use crate::spec::settings::SETTINGS;
use crate::spec::{filter, settings};

/// State of the caches before an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Data stays where the last execution left it.
    #[default]
    Hot,
    /// Executions rotate through enough copies of the data to exceed the last cache.
    Cold,
}

impl Cache {
    /// Both, with their names.
    pub const ALL: [(&'static str, Cache); 2] = [("hot", Cache::Hot), ("cold", Cache::Cold)];

    /// Returns the name in flags and URL queries.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Hot => "hot",
            Cache::Cold => "cold",
        }
    }
}

/// Inputs of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InputSet {
    /// Numbers drawn from the seed.
    #[default]
    Seeded,
    /// Each applicable set of stress inputs of the operation specification, one after the other.
    Hard,
}

impl InputSet {
    /// Both, with their names.
    pub const ALL: [(&'static str, InputSet); 2] = [("seeded", InputSet::Seeded), ("hard", InputSet::Hard)];

    /// Returns the name in flags and URL queries.
    pub fn name(self) -> &'static str {
        match self {
            InputSet::Seeded => "seeded",
            InputSet::Hard => "hard",
        }
    }

    fn is_seeded(&self) -> bool {
        *self == InputSet::Seeded
    }
}

/// Request of a run. Every field is a setting of the one list, which defines its notation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// Preset of shapes.
    pub preset: Preset,
    /// Patterns; a case is kept if any pattern keeps it. A pattern has whole segments of the canonical string, between `/` and `,`;
    /// `*` stands for anything. Empty keeps all.
    pub filter: Vec<String>,
    /// Directions to keep. Empty keeps all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub direction: Vec<Direction>,
    /// Element types to keep. Empty keeps all.
    pub dtype: Vec<DType>,
    /// Variants to keep. Empty keeps all.
    pub variant: Vec<String>,
    /// Changes to the shapes of the preset, such as `c8xh128,c32xh256`. Each change is applied separately; several lists give every
    /// combination. Empty leaves the shapes unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<String>,
    /// Whether the shapes of workloads' scaling tables are added to those of the preset; the command's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<bool>,
    /// Exact cases, independent of the preset.
    pub case: Vec<String>,
    /// Exact problems, each with every variant, independent of the preset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problem: Vec<String>,
    /// Seed of the inputs and of the order.
    pub seed: u64,
    /// Executions of a check; the outputs of deterministic variants are compared bit by bit.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u32,
    /// Inputs of the cases.
    #[serde(default, skip_serializing_if = "InputSet::is_seeded")]
    pub inputs: InputSet,
    /// Seconds of measuring for the whole run, shared evenly by its cases.
    pub budget: f64,
    /// Target half width of the 95 % interval over the median; the edge's default if absent.
    pub precision: Option<f64>,
    /// State of the caches: hot or cold.
    #[serde(default)]
    pub cache: Cache,
    /// Launch mode of the stages; the target's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launching>,
    /// Values of tunables, as `NAME=VALUE`; they take precedence over those of the device's class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Whether ceilings are measured before the cases. Without them, no time is reported as impossible.
    #[serde(default = "yes")]
    pub ceilings: bool,
    /// Whether the energy of each case is measured in a steady stretch after its samples.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub energy: bool,
    /// Whether hardware counters of each stage are read after the samples.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counters: bool,
    /// Whether tables show the clocks of the device during each case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clocks: bool,
    /// Clock of the multiprocessors, in MHz, at which the command line fixed the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_clocks: Option<u32>,
    /// Executions of the traced part that are kept.
    #[serde(default)]
    pub schedule: Schedule,
    /// Whether the trace has shapes and types.
    #[serde(default = "yes")]
    pub record_shapes: bool,
    /// Whether the trace has the device memory over time.
    #[serde(default)]
    pub profile_memory: bool,
    /// Whether the trace has the host's call stack at each submission.
    #[serde(default)]
    pub with_stack: bool,
}

fn once() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_once(repeat: &u32) -> bool {
    *repeat == once()
}

fn yes() -> bool {
    true
}

/// Seconds of the longest budget: a year.
pub const LONGEST_BUDGET: f64 = 365.0 * 86_400.0;
/// Default precision on a native target.
pub const PRECISION_NATIVE: f64 = 0.01;
/// Default precision in a page, with its less precise clocks and its more variable conditions.
pub const PRECISION_PAGE: f64 = 0.02;

/// Cases of [`Spec::quick_look`] on a GPU, as filters: one variant of each of eight kernels, in f32.
const QUICK_LOOK: [&str; 8] = [
    "copy/fwd/*/f32/vec4",
    "reduce/fwd/*/f32/vector",
    "matmul/fwd/*/f32/tiled",
    "softmax/fwd/*/f32/online",
    "layernorm/fwd/*/f32/row",
    "attention/fwd/*/f32/flash",
    "conv2d/fwd/*/f32/implicit_gemm",
    "embedding/fwd/*/f32/rows",
];
/// Cases of the same kernels on shapes that a processor emulates in time.
const EMULATED_LOOK: [&str; 8] = [
    "copy/fwd/n1048576/f32/vec4",
    "reduce/fwd/n1048576,sum/f32/vector",
    "matmul/fwd/m128,n128,k128/f32/naive",
    "softmax/fwd/r256,c256/f32/online",
    "layernorm/fwd/r256,c1024/f32/row",
    "attention/fwd/b1,h2,s128,d64/f32/manual",
    "conv2d/fwd/n1,c16,h28,k3,p1,nchw/f32/implicit_gemm",
    "embedding/fwd/n4096,v1000,d128/f32/rows",
];

impl Spec {
    /// Returns eight cases that show the speed of a GPU in about 20 seconds: memory, arithmetic, and a kernel of each kind.
    /// `emulated` selects the cases for a processor in place of a GPU.
    pub fn quick_look(emulated: bool) -> Spec {
        let names = |names: [&str; 8]| names.map(str::to_owned).to_vec();
        if emulated {
            Spec { case: names(EMULATED_LOOK), budget: 2.0, ..Spec::default() }
        } else {
            Spec { filter: names(QUICK_LOOK), budget: 8.0, ..Spec::default() }
        }
    }

    /// Number of cases of [`Spec::quick_look`].
    pub const LOOKED_AT: usize = QUICK_LOOK.len();
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            preset: Preset::Quick,
            filter: Vec::new(),
            direction: Vec::new(),
            dtype: Vec::new(),
            variant: Vec::new(),
            shape: Vec::new(),
            scaling: None,
            case: Vec::new(),
            problem: Vec::new(),
            seed: 42,
            repeat: once(),
            budget: 45.0,
            precision: None,
            inputs: InputSet::Seeded,
            cache: Cache::Hot,
            launch: None,
            set: Vec::new(),
            ceilings: true,
            energy: false,
            counters: false,
            clocks: false,
            lock_clocks: None,
            schedule: Schedule::default(),
            record_shapes: true,
            profile_memory: false,
            with_stack: false,
        }
    }
}

/// Error of a setting's key or value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A value is none of the known names, or a case string is wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// A value is not a number, or out of range.
    #[error("{key}: `{value}` is not {wanted}")]
    Number {
        /// Key of the setting.
        key: String,
        /// Given value.
        value: String,
        /// Expected kind of value.
        wanted: &'static str,
    },
    /// The schedule is invalid.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A tunable does not exist, or cannot have the given value.
    #[error(transparent)]
    Tuning(#[from] TuningError),
    /// The key is unknown.
    #[error("unknown setting `{0}`: {suggestion}", suggestion = settings::suggestion(.0))]
    Key(String),
}

impl Spec {
    /// Whether the request names a variant: as one to keep, as that of a case, or as a whole segment of a filter.
    pub fn names_variant(&self, name: &str) -> bool {
        let has = |text: &String| text.split(['/', ',', '*']).any(|word| word == name);
        self.variant.iter().any(|wanted| wanted == name) || self.filter.iter().chain(&self.case).any(has)
    }

    /// Whether cases or problems are named, so that the preset does not apply.
    pub fn names_cases(&self) -> bool {
        !self.case.is_empty() || !self.problem.is_empty()
    }

    /// Applies one setting; repeatable ones keep their earlier values.
    ///
    /// # Errors
    /// An unknown setting, or an invalid value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        settings::setting(key)?.set(self, value)
    }

    /// Parses (key, value) pairs, as in a URL query.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        for (key, value) in pairs {
            spec.set(key, value)?;
        }
        Ok(spec)
    }

    /// Returns the (key, value) pairs of this spec, without defaults.
    pub fn to_pairs(&self) -> Vec<(&'static str, String)> {
        let said = SETTINGS.iter().filter(|setting| setting.get(self) != setting.default());
        said.flat_map(|setting| setting.get(self).into_iter().map(|value| (setting.name, value))).collect()
    }

    /// Whether the filters keep a canonical case string.
    pub fn keeps(&self, case: &str) -> bool {
        filter::any_keeps(&self.filter, case)
    }
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
            ("direction", "bwd"),
            ("direction", "fwd+bwd"),
            ("dtype", "f16"),
            ("variant", "flash"),
            ("shape", "b2,b4xh8"),
            ("shape", "p0.5"),
            ("scaling", "on"),
            ("case", "attention/fwd/b1,h1,s1,d1/f32/flash"),
            ("problem", "softmax/fwd/r4,c4/f32"),
            ("seed", "7"),
            ("repeat", "10"),
            ("inputs", "hard"),
            ("budget", "12.5"),
            ("precision", "0.02"),
            ("cache", "cold"),
            ("launch", "graph"),
            ("set", "matmul.tiled.DEPTH=8"),
            ("set", "OWNER_ROWS=100"),
            ("ceilings", "off"),
            ("schedule", "wait=3,warmup=1,active=3,repeat=2"),
            ("record-shapes", "off"),
            ("profile-memory", "on"),
            ("with-stack", "on"),
        ];
        let spec = Spec::from_pairs(pairs).expect("valid");
        let back: Vec<(&str, String)> = pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        assert_eq!(spec.to_pairs(), back);
        assert_eq!(Spec::default().to_pairs(), []);
        let together = Spec::from_pairs([("filter", " attention*flash  hash")]).expect("valid");
        assert_eq!(together.filter, spec.filter, "a space is \"or\", wherever a filter is written");
    }

    #[test]
    fn a_variant_is_named_by_whole_words() {
        let names = |key, value| Spec::from_pairs([(key, value)]).expect("valid").names_variant("cube");
        for (key, value) in [
            ("variant", "cube"),
            ("case", "softmax/fwd/r4,c4/f32/cube"),
            ("filter", "softmax*cube"),
            ("filter", "f32/cube"),
            ("filter", "copy cube"),
        ] {
            assert!(names(key, value), "{key}={value}");
        }
        for (key, value) in
            [("variant", "tiled"), ("filter", "softmax"), ("filter", "cub*"), ("filter", "softmax*icecube")]
        {
            assert!(!names(key, value), "{key}={value}");
        }
        assert!(!Spec::default().names_variant("cube"));
    }

    #[test]
    fn mistakes_name_the_key_and_what_would_do() {
        for (key, value, part) in [
            ("preset", "fast", "unknown preset `fast`: choose one of quick, standard, full, awkward, huge"),
            (
                "direction",
                "fwd,bwd",
                "unknown direction `fwd,bwd`: did you mean `fwd+bwd`? choose one of fwd, bwd, fwd+bwd",
            ),
            ("dtype", "f8", "unknown dtype"),
            ("shape", "8x128", "shape: `8x128` is not a list of extents with their letters"),
            ("shape", "c8x", "with their letters"),
            ("scaling", "yes", "choose one of on, off"),
            ("seed", "-1", "whole number"),
            ("repeat", "0", "whole number"),
            ("repeat", "1001", "whole number"),
            ("inputs", "easy", "unknown inputs `easy`: choose one of seeded, hard"),
            ("budget", "0", "seconds above 0"),
            ("budget", "NaN", "seconds above 0"),
            ("budget", "inf", "seconds above 0"),
            ("budget", "31536001", "a year (31536000) at most"),
            ("budget", "1e18", "a year (31536000) at most"),
            ("precision", "x", "fraction"),
            ("cache", "warm", "unknown cache `warm`: choose one of hot, cold"),
            ("schedule", "active=0", "active must be at least 1"),
            ("with-stack", "yes", "choose one of on, off"),
            ("presett", "quick", "unknown setting `presett`: did you mean `preset`?"),
            ("zzzzzzzz", "quick", "unknown setting `zzzzzzzz`: the settings are preset, filter, direction, dtype"),
        ] {
            let error = Spec::from_pairs([(key, value)]).expect_err(value).to_string();
            assert!(error.contains(part), "{key}={value}: {error}");
        }
    }
}
