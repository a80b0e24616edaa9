//! Stages of recorded cases.

use parallax_ir::{Case, Stage};
use parallax_schema::device::Caps;
use parallax_schema::record::Record;

use crate::parse_case;

/// Returns the case that ran and its stages on a device; `None` where this version does not know them.
pub fn program_of(record: &Record, caps: &Caps) -> Option<(Case, Vec<Stage>)> {
    let mut case = parse_case(&record.case).ok()?;
    if let Some(actual) = &record.actual {
        case.variant = case.problem.form().variant(&actual.variant)?.name;
    }
    let stages = case.program(caps)?.stages;
    Some((case, stages))
}
