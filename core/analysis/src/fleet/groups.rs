//! Groups of cases, and of cards.

use parallax_schema::record::roofline::Bound;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::found::Fleet;
use crate::Family;

/// Group of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// All cases.
    All,
    /// Cases under the ceiling of device memory.
    Memory,
    /// Cases under the ceiling of arithmetic.
    Compute,
    /// Cases under the ceiling of the link to the host.
    Transfer,
    /// Attention and blocks around it.
    Attention,
    /// GEMMs.
    Products,
    /// Convolutions.
    Convolutions,
    /// Norms, softmax and other rows.
    Rows,
    /// Copies and tables.
    Tables,
    /// Losses and training steps.
    Training,
}

impl Group {
    /// All groups, the widest first.
    pub const EVERY: [Group; 10] = [
        Group::All,
        Group::Memory,
        Group::Compute,
        Group::Transfer,
        Group::Attention,
        Group::Products,
        Group::Convolutions,
        Group::Rows,
        Group::Tables,
        Group::Training,
    ];

    /// Returns whether a case under a ceiling belongs to it.
    pub(super) fn has(self, case: &str, bound: Option<Bound>) -> bool {
        match self {
            Group::All => true,
            Group::Memory => bound == Some(Bound::Memory),
            Group::Compute => bound == Some(Bound::Compute),
            Group::Transfer => bound == Some(Bound::Transfer),
            Group::Attention => Family::of(case) == Family::Attention,
            Group::Products => Family::of(case) == Family::Products,
            Group::Convolutions => Family::of(case) == Family::Convolutions,
            Group::Rows => Family::of(case) == Family::Rows,
            Group::Tables => Family::of(case) == Family::Memory,
            Group::Training => Family::of(case) == Family::Training,
        }
    }

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Group::All => "all cases",
            Group::Memory => "cases bound by memory",
            Group::Compute => "cases bound by arithmetic",
            Group::Transfer => "cases bound by the link",
            Group::Attention => Family::Attention.name(),
            Group::Products => Family::Products.name(),
            Group::Convolutions => Family::Convolutions.name(),
            Group::Rows => Family::Rows.name(),
            Group::Tables => Family::Memory.name(),
            Group::Training => Family::Training.name(),
        }
    }
}

/// Attribute by which cards are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attribute {
    /// Name of the host.
    Host,
    /// PCI address, the same in hosts of one model.
    Slot,
    /// Interface and driver.
    Driver,
}

impl Attribute {
    const EVERY: [Attribute; 3] = [Attribute::Host, Attribute::Slot, Attribute::Driver];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Attribute::Host => "host",
            Attribute::Slot => "slot",
            Attribute::Driver => "driver",
        }
    }
}

/// Cards with the same value of an attribute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttributeValue {
    /// The attribute.
    pub attribute: Attribute,
    /// Its value.
    pub value: String,
    /// Number of cards.
    pub cards: usize,
    /// Number of cards with an alarm.
    pub alarms: usize,
    /// Median level of the cards over that of the fleet; absent without levels.
    pub level: Option<f64>,
}

/// Returns the values of the attributes that several cards share and that differ within the fleet, those with most alarms first.
pub(super) fn attributes(fleet: &Fleet) -> Vec<AttributeValue> {
    let mut all = Vec::new();
    for attribute in Attribute::EVERY {
        let mut values: std::collections::BTreeMap<&str, Vec<usize>> = std::collections::BTreeMap::new();
        for (position, card) in fleet.cards.iter().enumerate() {
            let value = match attribute {
                Attribute::Host => &card.key.host,
                Attribute::Slot => &card.key.slot,
                Attribute::Driver => &card.driver,
            };
            if !value.is_empty() {
                values.entry(value).or_default().push(position);
            }
        }
        if values.len() < 2 {
            continue;
        }
        let shared = values.into_iter().filter(|(_, cards)| cards.len() > 1);
        all.extend(shared.map(|(value, cards)| AttributeValue {
            attribute,
            value: value.to_owned(),
            cards: cards.len(),
            alarms: cards.iter().filter(|card| fleet.alarms.iter().any(|alarm| alarm.card == **card)).count(),
            level: median(cards.iter().filter_map(|card| fleet.cards[*card].level).collect()),
        }));
    }
    all.sort_by(|a, b| (a.attribute, b.alarms, &a.value).cmp(&(b.attribute, a.alarms, &b.value)));
    all
}

/// Returns the median; `None` of no values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
