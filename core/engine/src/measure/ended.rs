//! Records of cases at their end.

use parallax_schema::record::{ActualVariant, Event, Outcome, Record};

use crate::plan::{Planned, Skip};

/// Returns the event of a record.
pub(super) fn finished_event(record: Record) -> Event {
    Event::Record { record: Box::new(record) }
}

/// Returns the record of a case that is not to run.
pub(super) fn skipped(skip: &Skip) -> Record {
    Record {
        case: skip.case.to_string(),
        parts: skip.case.parts(),
        actual: None,
        device: 0,
        cost: skip.case.problem.cost(),
        items: skip.case.items(),
        outcome: Outcome::Skipped { reason: skip.reason.clone() },
    }
}

/// Returns the record of a case that was to run.
pub(super) fn record(planned: &Planned, outcome: Outcome) -> Record {
    let problem = &planned.case.problem;
    Record {
        case: planned.name(),
        parts: planned.case.parts(),
        actual: planned
            .actual
            .as_ref()
            .map(|a| ActualVariant { variant: a.variant.to_owned(), reason: a.reason.clone() }),
        device: 0,
        cost: problem.cost(),
        items: planned.case.items(),
        outcome,
    }
}
