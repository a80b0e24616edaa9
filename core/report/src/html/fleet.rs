//! Page of a fleet: cards that differ, levels of all cards, hosts, slots and drivers.

use maud::{Markup, html};
use parallax_analysis::compare::verdict::digits;
use parallax_analysis::fleet::{AttributeValue, Card, Fleet};
use parallax_schema::units::{percent, sentence};

use super::table::table;
use super::{STYLE, document};
use crate::fleet::{heading, notes};
use crate::{Cell, Column, Rank, Table};

/// Largest number of rows of a table of the page.
const MOST: usize = 200;

/// Returns the page of a fleet.
pub fn fleet(fleet: &Fleet) -> String {
    let title = "Parallax: cards of a fleet";
    let differing = Table { heading: Vec::new(), notes: Vec::new(), ..crate::fleet::table(fleet) };
    let body = html! {
        header {
            h1 { (title) }
            p { (sentence(&heading(fleet))) }
        }
        main {
            section {
                h2 { "Cards that differ" }
                @if fleet.alarms.is_empty() { p { "None." } } @else { (table(&differing)) }
                ul.soft { @for note in notes(fleet) { li { (note) } } }
            }
            (attributes(fleet))
            section {
                h2 { "Cards by level" }
                p.soft { "The time of a card over that of the median card, over all cases: the slowest first." }
                (table(&levels(fleet)))
                @if fleet.cards.len() > MOST {
                    p.soft { (fleet.cards.len() - MOST) " more; " code { "parallax fleet FILES --format csv" } " lists all." }
                }
            }
        }
        footer { p.soft { "All samples are in the run files; this page can be made again from them." } }
    };
    document(html! { title { (title) } }, Some(STYLE), body)
}

fn attributes(fleet: &Fleet) -> Markup {
    let row = |value: &AttributeValue| -> Vec<Cell> {
        vec![
            value.value.as_str().into(),
            value.attribute.name().into(),
            value.cards.to_string().into(),
            value.alarms.to_string().into(),
            level(value.level).into(),
        ]
    };
    let columns = vec![
        Column::text("value"),
        Column::label("of"),
        Column::figure("cards", Rank::Essential),
        Column::figure("with alarms", Rank::Essential),
        Column::figure("median level", Rank::Useful),
    ];
    let rows: Vec<Vec<Cell>> = fleet.attributes.iter().take(MOST).map(row).collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Hosts, slots and drivers" }
                (table(&Table { columns, rows, ..Table::default() }))
            }
        }
    }
}

fn levels(fleet: &Fleet) -> Table {
    let mut cards: Vec<&Card> = fleet.cards.iter().collect();
    cards.sort_by(|a, b| b.level.unwrap_or(0.0).total_cmp(&a.level.unwrap_or(0.0)));
    let row = |card: &&Card| -> Vec<Cell> {
        let temperature = card.temperature_c.map_or_else(|| "–".to_owned(), |degrees| format!("{degrees:.0} °C"));
        vec![
            card.key.name().into(),
            level(card.level).into(),
            card.runs.to_string().into(),
            temperature.into(),
            percent(card.slowed).into(),
            card.driver.as_str().into(),
        ]
    };
    Table {
        columns: vec![
            Column::text("card"),
            Column::figure("level", Rank::Essential),
            Column::figure("runs", Rank::Useful),
            Column::figure("temperature", Rank::Useful),
            Column::figure("slowed samples", Rank::Extra),
            Column::label("driver"),
        ],
        rows: cards.iter().take(MOST).map(row).collect(),
        ..Table::default()
    }
}

fn level(level: Option<f64>) -> String {
    level.map_or_else(|| "–".to_owned(), |level| format!("{}×", digits(level)))
}
