//! Settings of the user: flags from the list of settings, and a file with the same names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use parallax_engine::plan::settings::{set as checked_set, variants};
use parallax_schema::spec::settings::{SETTINGS, Scope, Setting, Values, setting};
use parallax_schema::spec::{Spec, SpecError};

/// Default settings file, read if it is in the current folder.
pub const FILE: &str = "parallax.toml";

/// Settings from flags. A command has flags only for the settings that it uses: those up to a scope. Its file may
/// contain more, because one file serves every command.
#[derive(Debug, Clone, Default)]
pub struct Settings<const LAST: u8 = MEASURING> {
    /// Setting and value, in the order of the list.
    given: Vec<(&'static str, String)>,
    /// File of `--config`.
    file: Option<PathBuf>,
}

/// Scope of commands that only plan.
pub const PLANNING: u8 = Scope::Planning as u8;
/// Scope of commands that check cases without timing.
pub const CHECKING: u8 = Scope::Computing as u8;
/// Scope of commands that measure, with all settings.
pub const MEASURING: u8 = Scope::Trace as u8;

/// Error of a setting, with its origin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Error in a flag.
    #[error(transparent)]
    Flags(SpecError),
    /// Error in the file.
    #[error("{file}: {mistake}", file = file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// The error.
        mistake: FileMistake,
    },
}

/// Error of a settings file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileMistake {
    /// Unreadable file.
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// Invalid TOML. Only the first line of the message is kept, which contains the place.
    #[error("is not TOML: {0}")]
    Toml(String),
    /// Unknown setting, or invalid value.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Table, date, or nested list.
    #[error("{0}: write text, a number, true or false, or a list of these")]
    Kind(&'static str),
    /// Section of the trace's settings that is no table.
    #[error("{SECTION} is a section: write [{SECTION}], and below it such as wait = 1 or record_shapes = true")]
    Section,
    /// Setting both in the section and outside of it.
    #[error("{0} is set in [{SECTION}] and outside of it")]
    Twice(String),
    /// List for a setting with a single value.
    #[error("{0} has one value, not a list")]
    List(&'static str),
}

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Default value.
    Default,
    /// Settings file.
    File(PathBuf),
    /// Command-line flag.
    Flag,
}

/// Settings in force, with their origins.
#[derive(Debug)]
pub struct InForce {
    /// The settings.
    pub spec: Spec,
    /// Every setting in the order of the list, with the origin of its value.
    pub origins: Vec<(&'static Setting, Origin)>,
}

impl<const LAST: u8> Settings<LAST> {
    /// Returns the settings that have flags here.
    fn used() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| setting.scope as u8 <= LAST)
    }

    /// Returns the same values as settings of all scopes.
    pub fn widened(&self) -> Settings {
        Settings { given: self.given.clone(), file: self.file.clone() }
    }

    /// Returns whether any flag was given.
    pub fn any_given(&self) -> bool {
        !self.given.is_empty() || self.file.is_some()
    }

    /// Returns flags over the settings file over defaults. A flag replaces the file's value of its setting, lists
    /// included.
    pub fn in_force(&self) -> Result<InForce, SettingsError> {
        let file = match &self.file {
            Some(named) => Some(named.clone()),
            None => Some(PathBuf::from(FILE)).filter(|usual| usual.is_file()),
        };
        let in_file = match &file {
            Some(path) => read(path).map_err(|mistake| SettingsError::File { file: path.clone(), mistake })?,
            None => Vec::new(),
        };
        let mut spec = Spec::default();
        let mut origins = Vec::new();
        for setting in SETTINGS {
            let of_this = |pairs: &[(&'static str, String)]| -> Vec<String> {
                pairs.iter().filter(|(name, _)| *name == setting.name).map(|(_, value)| value.clone()).collect()
            };
            let (flags, lines) = (of_this(&self.given), of_this(&in_file));
            for value in &flags {
                checked_set(setting, &mut spec, value).map_err(SettingsError::Flags)?;
            }
            // The file's value is checked even if a flag replaces it.
            let mut from_file = Spec::default();
            for value in &lines {
                let file = || file.clone().expect("its lines are from a file");
                let target = if flags.is_empty() { &mut spec } else { &mut from_file };
                let set = checked_set(setting, target, value);
                set.map_err(|e| SettingsError::File { file: file(), mistake: e.into() })?;
            }
            let origin = match (flags.is_empty(), lines.is_empty(), &file) {
                (false, ..) => Origin::Flag,
                (true, false, Some(path)) => Origin::File(path.clone()),
                _ => Origin::Default,
            };
            origins.push((setting, origin));
        }
        Ok(InForce { spec, origins })
    }
}

/// Reads the settings of a file, each value in the syntax of a flag.
fn read(path: &Path) -> Result<Vec<(&'static str, String)>, FileMistake> {
    parse(&std::fs::read_to_string(path).map_err(FileMistake::Unreadable)?)
}

/// Parses the settings of a file's text.
pub fn parse(text: &str) -> Result<Vec<(&'static str, String)>, FileMistake> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(1, |at| text[..at.start].lines().count().max(1));
        FileMistake::Toml(format!("line {line}: {}", e.message().lines().next().unwrap_or_default()))
    })?;
    let mut pairs: Vec<(&'static str, String)> = Vec::new();
    for (key, value) in &flat(table)? {
        let setting = setting(key)?;
        match value {
            toml::Value::Array(_) if !setting.repeatable => return Err(FileMistake::List(setting.name)),
            toml::Value::Array(values) => {
                for value in values {
                    pairs.push((setting.name, plain(setting.name, value)?));
                }
            }
            one => pairs.push((setting.name, plain(setting.name, one)?)),
        }
    }
    Ok(pairs)
}

/// Returns a value in the syntax of a flag.
fn plain(setting: &'static str, value: &toml::Value) -> Result<String, FileMistake> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(on) => if *on { "on" } else { "off" }.to_owned(),
        _ => return Err(FileMistake::Kind(setting)),
    })
}

/// Section for settings of the trace, with the names of PyTorch's profiler.
const SECTION: &str = "profiling";

/// Keys of the section that form the setting `schedule`.
const SCHEDULE: [&str; 4] = ["wait", "warmup", "active", "repeat"];

/// Returns the table with the section's keys renamed to those of flags.
fn flat(mut table: toml::Table) -> Result<toml::Table, FileMistake> {
    let section = match table.remove(SECTION) {
        Some(toml::Value::Table(section)) => section,
        None => return Ok(table),
        Some(_) => return Err(FileMistake::Section),
    };
    let mut schedule = Vec::new();
    for (word, value) in section {
        if SCHEDULE.contains(&word.as_str()) {
            schedule.push(format!("{word}={}", plain("schedule", &value)?));
        } else if table.insert(word.replace('_', "-"), value).is_some() {
            return Err(FileMistake::Twice(word));
        }
    }
    if !schedule.is_empty() && table.insert("schedule".to_owned(), schedule.join(",").into()).is_some() {
        return Err(FileMistake::Twice("schedule".to_owned()));
    }
    Ok(table)
}

/// Returns the flag of a setting.
fn flag(setting: &'static Setting) -> Arg {
    let default = setting.default().concat();
    let notes = [
        if setting.repeatable { "; may be repeated".to_owned() } else { String::new() },
        if default.is_empty() || setting.is_off_by_default() {
            String::new()
        } else {
            format!(" [default: {default}]")
        },
    ]
    .concat();
    let help = format!("{}{notes}", setting.about);
    let more = match setting.more {
        "" => String::new(),
        more => format!("{more}."),
    };
    let known = match (setting.name, &setting.values) {
        ("variant", _) => Some(variants()),
        (_, Values::Words(words)) => Some(words()),
        (_, Values::Switch) => Some(vec!["on", "off"]),
        (_, Values::Number(_) | Values::Text(_)) => None,
    };
    let choices = match &known {
        Some(words) if words.join("|") != setting.placeholder() => format!("One of {}.", words.join(", ")),
        _ => String::new(),
    };
    let long = [help.as_str(), "", more.as_str(), choices.as_str()].join("\n").trim_end().to_owned();
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.placeholder())
        .help(help)
        .long_help(long)
        .help_heading(heading(setting.scope))
        .hide_short_help(!setting.usual)
        .hide_possible_values(true)
        .action(if setting.repeatable { ArgAction::Append } else { ArgAction::Set });
    let arg = match known {
        Some(words) => arg.value_parser(Known(words)),
        None => arg,
    };
    match setting.values {
        // A switch that is off by default needs no value; it takes one only after an equals sign.
        Values::Switch if setting.is_off_by_default() => {
            arg.num_args(0..=1).require_equals(true).default_missing_value("on")
        }
        _ => arg,
    }
}

/// Returns the help heading of a scope's flags.
fn heading(scope: Scope) -> &'static str {
    match scope {
        Scope::Preset | Scope::Cases => "Cases",
        Scope::Planning | Scope::Computing | Scope::Measuring => "Measurement",
        Scope::Trace => TRACE,
    }
}

/// Help heading of options for the trace.
pub const TRACE: &str = "Trace";

/// Values for shell completion and help. The parser accepts any text: the setting reports errors, in the same form as
/// for a file or a query.
#[derive(Clone)]
struct Known(Vec<&'static str>);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

impl<const LAST: u8> Args for Settings<LAST> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(format!("Settings in TOML [default: {FILE}, if it is there]"))
            .long_help(format!(
                "Settings in TOML, with the names of these flags; flags take precedence. Default: {FILE} in the current \
                 folder"
            ));
        Self::used().fold(command, |command, setting| command.arg(flag(setting))).arg(file)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const LAST: u8> FromArgMatches for Settings<LAST> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in Self::used() {
            let values = matches.get_many::<String>(setting.name).into_iter().flatten();
            self.given.extend(values.map(|value| (setting.name, value.clone())));
        }
        self.file = matches.get_one::<PathBuf>("config").cloned();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(flags: &[(&'static str, &str)], file: &str) -> Result<InForce, SettingsError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.toml");
        std::fs::write(&path, file).expect("written");
        let given = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Settings::<MEASURING> { given, file: Some(path) }.in_force()
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = "preset = 'standard'\nfilter = ['attention', '*conv2d']\nbudget = 7\nprecision = 0.05\nceilings = false\n\
                    dtype = 'f16'\nseed = 3\n";
        let got = asked(&[("filter", "matmul"), ("seed", "9")], file).expect("valid");
        let pairs = [
            ("preset", "standard"),
            ("filter", "matmul"),
            ("dtype", "f16"),
            ("seed", "9"),
            ("budget", "7"),
            ("precision", "0.05"),
            ("ceilings", "off"),
        ];
        assert_eq!(got.spec, Spec::from_pairs(pairs).expect("valid"));
        let origin = |name: &str| &got.origins.iter().find(|(s, _)| s.name == name).expect("listed").1;
        assert!(matches!(origin("filter"), Origin::Flag) && matches!(origin("budget"), Origin::File(_)));
        assert_eq!(*origin("cache"), Origin::Default);
        assert_eq!(got.origins.len(), SETTINGS.len());
    }

    #[test]
    fn the_section_on_profiling_has_the_words_of_torch() {
        let file = "budget = 7\n[profiling]\nwait = 1\nactive = 3\nrecord_shapes = false\nprofile_memory = true\n\
                    with_stack = true\n";
        let got = asked(&[("with-stack", "off")], file).expect("valid");
        let pairs = [
            ("budget", "7"),
            ("schedule", "wait=1,warmup=1,active=3,repeat=1"),
            ("record-shapes", "off"),
            ("profile-memory", "on"),
        ];
        assert_eq!(got.spec, Spec::from_pairs(pairs).expect("valid"));
    }

    #[test]
    fn a_byte_order_mark_and_windows_line_ends_say_nothing() {
        let got = asked(&[], "\u{feff}preset = 'full'\r\nbudget = 7\r\n").expect("valid");
        assert_eq!(got.spec, Spec::from_pairs([("preset", "full"), ("budget", "7")]).expect("valid"));
    }

    #[test]
    fn mistakes_in_a_file_name_the_file_and_what_would_do() {
        for (file, part) in [
            ("presett = 'quick'", "unknown setting `presett`: did you mean `preset`?"),
            ("preset = 'fast'", "unknown preset `fast`: choose one of quick"),
            ("preset = ['quick']", "preset has one value, not a list"),
            ("budget = 0", "seconds above 0"),
            ("filter = [['a']]", "filter: write text, a number"),
            ("[filter]\na = 1", "filter: write text, a number"),
            ("\n\nseed == 3", "is not TOML: line 3: "),
            ("profiling = 3", "profiling is a section: write [profiling]"),
            ("[profiling]\nactive = 'x'", "schedule: `active=x` is not wait=N"),
            ("[profiling]\nactive = 0", "active must be at least 1"),
            ("[profiling]\nwith_stacks = true", "unknown setting `with-stacks`"),
            ("schedule = 'wait=1'\n[profiling]\nactive = 2", "schedule is set in [profiling] and outside of it"),
            ("with-stack = true\n[profiling]\nwith_stack = true", "with_stack is set in [profiling] and outside"),
        ] {
            let error = asked(&[("preset", "quick"), ("budget", "3")], file).expect_err(file).to_string();
            assert!(error.contains("a.toml: ") && error.contains(part), "{file}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let absent = Settings::<MEASURING> { given: Vec::new(), file: Some(PathBuf::from("/no/such/file")) };
        assert!(absent.in_force().expect_err("absent").to_string().starts_with("/no/such/file: cannot be read"));
    }
}
