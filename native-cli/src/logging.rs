//! Log of the program and of its libraries, line by line on standard error.

use std::time::Instant;

use anyhow::anyhow;
use env_filter::{Builder, Filter};
use log::{LevelFilter, Log, Metadata, Record};
use parallax_report::escape_lines;

use crate::console::errln;

/// Environment variable with the default filter of the log.
pub const VARIABLE: &str = "PARALLAX_LOG";

/// Filters of one, two, and more `-v`.
const VERBOSE: [&str; 3] = ["parallax=debug", "parallax=debug,info", "trace"];

struct Logger {
    filter: Filter,
    began: Instant,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.filter.matches(record) {
            let (at, level, target) = (self.began.elapsed().as_secs_f64(), record.level(), record.target());
            errln!("{at:9.3} {level:<5} {target}: {}", escape_lines(&record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Starts the log with the given filter, the variable's filter, or that of the number of `-v`.
///
/// # Errors
/// Invalid filter.
pub fn begin(filter: Option<&str>, verbose: u8) -> anyhow::Result<()> {
    let said = |from: &str, filter: String| (from.to_owned(), filter);
    let by_count = || VERBOSE.get(usize::from(verbose).checked_sub(1)?.min(VERBOSE.len() - 1)).map(|f| (*f).to_owned());
    let in_force = filter
        .map(|filter| said("--log", filter.to_owned()))
        .or_else(|| by_count().map(|filter| said("-v", filter)))
        .or_else(|| std::env::var(VARIABLE).ok().filter(|f| !f.is_empty()).map(|filter| said(VARIABLE, filter)));
    let Some((from, text)) = in_force else { return Ok(()) };
    let filter = parse(&text).map_err(|why| {
        anyhow!("{from} {text}: {why}; write a level, or modules with levels, such as `parallax=debug,wgpu_hal=warn`")
    })?;
    log::set_max_level(filter.filter());
    // A process accepts only its first logger, and this is the only one.
    let _ = log::set_boxed_logger(Box::new(Logger { filter, began: Instant::now() }));
    Ok(())
}

/// Parses a filter. A filter with an invalid part is an error.
fn parse(text: &str) -> Result<Filter, String> {
    Ok(Builder::new().try_parse(text).map_err(|error| error.to_string())?.build())
}

/// Returns whether the log is enabled.
pub fn is_on() -> bool {
    log::max_level() > LevelFilter::Off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_understood_or_refused_whole() {
        for (text, want) in [
            ("debug", Some(LevelFilter::Debug)),
            ("parallax=debug,wgpu_hal=warn", Some(LevelFilter::Debug)),
            ("parallax=loud", None),
            ("parallax=debug=info", None),
        ] {
            assert_eq!(parse(text).ok().map(|filter| filter.filter()), want, "{text}");
        }
        VERBOSE.iter().for_each(|text| drop(parse(text).expect("a constant")));
    }
}
