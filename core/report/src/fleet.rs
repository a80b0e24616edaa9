//! Tables and rows of a fleet.

use parallax_analysis::compare::verdict::digits;
use parallax_analysis::fleet::{Alarm, AttributeValue, Card, FEWEST_CARDS, Fault, Fleet, Missing};
use parallax_schema::grouped;
use parallax_schema::units::{counted, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::Tone;
use super::history::unread;
use super::{Cell, Column, Rank, Table};

/// Largest number of lines of one kind among the notes.
const MOST: usize = 8;

/// Returns a table with a line per card that differs, faults first, and the totals as notes.
pub fn table(fleet: &Fleet) -> Table {
    let columns = vec![
        Column::text("card"),
        Column::figure("fault", Rank::Essential),
        Column::text("in"),
        Column::figure("by", Rank::Essential),
        Column::figure("runs", Rank::Extra),
        Column::text("circumstances"),
    ];
    Table {
        heading: vec![heading(fleet)],
        columns,
        rows: fleet.alarms.iter().map(|alarm| row(fleet, alarm)).collect(),
        notes: notes(fleet),
        ..Table::default()
    }
}

fn row(fleet: &Fleet, alarm: &Alarm) -> Vec<Cell> {
    let card = &fleet.cards[alarm.card];
    let tone = match &alarm.fault {
        Fault::Fast { .. } => Tone::Good,
        Fault::Unsteady { .. } => Tone::Doubtful,
        _ => Tone::Bad,
    };
    vec![
        card.key.name().into(),
        Cell { tone, ..alarm.fault.name().into() },
        places(&alarm.fault).into(),
        Cell::from(by(&alarm.fault)),
        runs(card, &alarm.fault).into(),
        alarm.grounds.join("; ").into(),
    ]
}

/// Returns the cases of a fault.
fn places(fault: &Fault) -> String {
    match fault {
        Fault::Wrong { cases } | Fault::Unrepeatable { cases } => match &cases[..] {
            [case] => case.clone(),
            [first, ..] => format!("{first} and {} more", cases.len() - 1),
            [] => String::new(),
        },
        Fault::Slow { group, .. } | Fault::Fast { group, .. } => group.name().to_owned(),
        Fault::Unsteady { .. } => "all cases".to_owned(),
    }
}

/// Returns the size of a difference.
fn by(fault: &Fault) -> String {
    match fault {
        Fault::Wrong { .. } | Fault::Unrepeatable { .. } => "–".to_owned(),
        Fault::Slow { ratio, deviations, .. } | Fault::Fast { ratio, deviations, .. } => {
            format!("{}× ({deviations:.0} σ)", digits(*ratio))
        }
        Fault::Unsteady { ratio, .. } => format!("{}×", digits(*ratio)),
    }
}

fn runs(card: &Card, fault: &Fault) -> String {
    match fault {
        Fault::Unsteady { slow, runs, .. } => format!("{slow} of {runs}"),
        _ => card.runs.to_string(),
    }
}

/// Returns the number of cards and runs.
pub(super) fn heading(fleet: &Fleet) -> String {
    let faulty: std::collections::BTreeSet<usize> = fleet.faults().map(|alarm| alarm.card).collect();
    let found = match faulty.len() {
        0 => "none differs for the worse".to_owned(),
        count => format!("{count} of them faulty"),
    };
    format!("{} in {}: {found}", counted(fleet.cards.len(), "card"), counted(fleet.runs, "run"))
}

/// Returns the totals, the shared attributes with alarms, and all that is missing.
pub(super) fn notes(fleet: &Fleet) -> Vec<String> {
    let mut notes = vec![format!(
        "equal cards give an alarm in one fleet of a hundred; differences up to {} do not count",
        percent(fleet.resolution)
    )];
    if let Some(share) = fleet.detectable {
        notes.push(format!("a card that is slower by {} over all cases would have been found", percent(share)));
    }
    for device in &fleet.untested {
        notes.push(format!("times of {device} are not tested: fewer than {FEWEST_CARDS} cards"));
    }
    // Among many cards, chance alone puts two alarms in one slot.
    let common = |value: &&AttributeValue| value.alarms > 1 && 4 * value.alarms >= value.cards;
    let shared = fleet.attributes.iter().filter(common).map(shared);
    notes.extend(cut(shared.collect(), "shared attributes"));
    let cards = fleet.missing.iter().filter_map(|missing| match missing {
        Missing::Cards { host, has, usual } => {
            Some(format!("missing: {host} has {}, most hosts have {usual}", counted(*has, "card")))
        }
        Missing::Cases { .. } => None,
    });
    notes.extend(cut(cards.collect(), "hosts"));
    let cases = grouped(fleet.missing.iter().filter_map(|missing| match missing {
        Missing::Cases { card, count, reason } => Some(((*count, reason.as_str()), fleet.cards[*card].key.name())),
        Missing::Cards { .. } => None,
    }));
    let line = |((count, reason), cards): ((usize, &str), Vec<String>)| match &cards[..] {
        [card] => format!("missing: {} on {card}: {reason}", counted(count, "case")),
        _ => format!("missing: {} on {} cards: {reason}", counted(count, "case"), cards.len()),
    };
    notes.extend(cut(cases.into_iter().map(line).collect(), "kinds of missing cases"));
    if fleet.duplicates > 0 {
        notes.push(format!("copies of other runs, counted once: {}", fleet.duplicates));
    }
    notes.extend(unread(&fleet.unreadable));
    notes
}

/// Returns an attribute that cards with alarms share, as a sentence.
fn shared(value: &AttributeValue) -> String {
    let level = value.level.map_or_else(String::new, |level| format!(", median level {}×", digits(level)));
    let AttributeValue { attribute, value, cards, alarms, .. } = value;
    format!("{} {value}: {alarms} of {cards} cards differ{level}", attribute.name())
}

/// Returns the first lines, and the number of the others.
fn cut(mut lines: Vec<String>, of: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("{more} more {of}"));
    }
    lines
}

/// Row of a card in spreadsheets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetRow {
    /// Name of the device.
    pub device: String,
    /// Name of the host.
    pub host: String,
    /// PCI address.
    pub slot: String,
    /// Identifier in the driver.
    pub uuid: String,
    /// Interface and driver.
    pub driver: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of cases with a time.
    pub cases: usize,
    /// Level over that of the median card: above 1 is slower.
    pub level: Option<f64>,
    /// Median temperature in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Share of samples with clocks reduced by heat or hardware.
    pub slowed: f64,
    /// Kinds of faults, separated by semicolons.
    pub faults: String,
    /// Their cases, separated by semicolons.
    pub faults_in: String,
    /// Circumstances, separated by semicolons.
    pub circumstances: String,
}

/// Returns a row per card.
pub fn rows(fleet: &Fleet) -> Vec<FleetRow> {
    let row = |(position, card): (usize, &Card)| {
        let alarms: Vec<&Alarm> = fleet.alarms.iter().filter(|alarm| alarm.card == position).collect();
        let joined = |of: &dyn Fn(&Alarm) -> String| {
            let mut all: Vec<String> = alarms.iter().map(|alarm| of(alarm)).filter(|text| !text.is_empty()).collect();
            all.dedup();
            all.join("; ")
        };
        FleetRow {
            device: card.key.device.clone(),
            host: card.key.host.clone(),
            slot: card.key.slot.clone(),
            uuid: card.key.uuid.clone(),
            driver: card.driver.clone(),
            runs: card.runs,
            cases: card.cases,
            level: card.level,
            temperature_c: card.temperature_c,
            slowed: card.slowed,
            faults: joined(&|alarm| alarm.fault.name().to_owned()),
            faults_in: joined(&|alarm| places(&alarm.fault)),
            circumstances: joined(&|alarm| alarm.grounds.join("; ")),
        }
    };
    fleet.cards.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use parallax_analysis::fleet::{Attribute, CardKey, Group};

    use super::*;

    fn fleet() -> Fleet {
        let card = |slot: &str| Card {
            key: CardKey {
                device: "NVIDIA H200".to_owned(),
                host: "node1".to_owned(),
                slot: slot.to_owned(),
                uuid: String::new(),
            },
            driver: "580".to_owned(),
            runs: 8,
            cases: 6,
            level: Some(1.0),
            temperature_c: Some(50.0),
            slowed: 0.0,
        };
        let alarm = |card, fault, grounds: &[&str]| Alarm {
            card,
            fault,
            grounds: grounds.iter().map(|ground| (*ground).to_owned()).collect(),
        };
        Fleet {
            cards: ["05", "15", "25"].map(card).to_vec(),
            alarms: vec![
                alarm(2, Fault::Wrong { cases: vec!["a/fwd/n1/f32/x".to_owned(), "b/fwd/n1/f32/x".to_owned()] }, &[]),
                alarm(
                    0,
                    Fault::Slow { group: Group::Memory, ratio: 1.12, deviations: 14.2 },
                    &["91 °C, most cards 60 °C"],
                ),
                alarm(0, Fault::Unsteady { slow: 3, runs: 8, ratio: 1.25 }, &[]),
            ],
            attributes: vec![AttributeValue {
                attribute: Attribute::Host,
                value: "node1".to_owned(),
                cards: 3,
                alarms: 2,
                level: Some(1.034),
            }],
            missing: vec![
                Missing::Cases { card: 2, count: 2, reason: "a/fwd/n1/f32/x: its results are wrong".to_owned() },
                Missing::Cards { host: "node1".to_owned(), has: 3, usual: 8 },
            ],
            untested: Vec::new(),
            resolution: 0.01,
            detectable: Some(0.021),
            runs: 24,
            unreadable: Vec::new(),
            duplicates: 1,
        }
    }

    #[test]
    fn a_card_that_differs_has_a_line_with_its_circumstances() {
        let table = table(&fleet());
        assert_eq!(table.heading, ["3 cards in 24 runs: 2 of them faulty"]);
        let lines: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(lines[0], ["node1 25", "wrong results", "a/fwd/n1/f32/x and 1 more", "–", "8", ""]);
        assert_eq!(lines[1][..4], ["node1 05", "slow", "cases bound by memory", "1.120× (14 σ)"]);
        assert_eq!(lines[1][5], "91 °C, most cards 60 °C");
        assert_eq!(lines[2][1..5], ["slow at times", "all cases", "1.250×", "3 of 8"]);
        for note in [
            "a card that is slower by 2.10 % over all cases would have been found",
            "host node1: 2 of 3 cards differ, median level 1.034×",
            "missing: node1 has 3 cards, most hosts have 8",
            "missing: 2 cases on node1 25: a/fwd/n1/f32/x: its results are wrong",
            "copies of other runs, counted once: 1",
        ] {
            assert!(table.notes.iter().any(|line| line == note), "{note}: {:#?}", table.notes);
        }
    }

    #[test]
    fn a_spreadsheet_has_a_row_per_card() {
        let rows = rows(&fleet());
        let faults: Vec<&str> = rows.iter().map(|row| row.faults.as_str()).collect();
        assert_eq!(faults, ["slow; slow at times", "", "wrong results"]);
        assert_eq!(rows[0].circumstances, "91 °C, most cards 60 °C");
    }
}
