//! Collection of the runs of a fleet, and the search for outliers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parallax_schema::record::Run;
use parallax_schema::record::roofline::Bound;

use super::card::{Card, CardKey, Facts};
use super::found::{Alarm, Fault, Fleet, Missing};
use super::groups::{attributes, median};
use super::levels::Levels;
use super::outlier::FEWEST_CARDS;
use crate::compare::verdict::{RESOLUTION, RESOLUTION_EMULATED};
use crate::history::{Point, SeriesKey, Unreadable};
use crate::origin::Origin;

/// Difference of temperatures that may explain a difference of times, in degrees Celsius.
const WARMER: f64 = 5.0;
/// Share of samples with reduced clocks that may explain a difference of times.
const SLOWED: f64 = 0.01;

/// Runs that were added so far, in any order.
#[derive(Debug, Clone, Default)]
pub struct FleetBuilder {
    series: HashMap<SeriesKey, usize>,
    /// Case and ceiling of each series.
    cases: Vec<(String, Option<Bound>)>,
    runs: Vec<FleetRun>,
    origins: HashMap<Origin, usize>,
    unreadable: Vec<Unreadable>,
    duplicates: usize,
}

/// Figures of one run.
#[derive(Debug, Clone)]
pub(super) struct FleetRun {
    file: String,
    started: u64,
    pub key: CardKey,
    pub driver: String,
    emulated: bool,
    pub facts: Facts,
    /// Logarithms of times, by position of the series.
    pub times: Vec<(usize, f64)>,
}

impl FleetBuilder {
    /// Adds the times of a run whose cases `keep` accepts. A copy of an earlier run counts once: the one with more times.
    pub fn add(&mut self, file: &str, run: &Run, keep: impl Fn(&str) -> bool) {
        let mut times = Vec::new();
        for record in run.records.iter().filter(|record| keep(&record.case)) {
            let (Some(point), Some(key)) = (Point::of(run, record, 0), SeriesKey::of(run, record)) else { continue };
            let next = self.series.len();
            let place = *self.series.entry(key).or_insert(next);
            if place == next {
                self.cases.push((record.case.clone(), point.ceiling.map(|ceiling| ceiling.bound)));
            }
            times.push((place, point.level.log()));
        }
        let found = FleetRun {
            file: file.to_owned(),
            started: run.started,
            driver: run.device().interface(),
            emulated: run.device().kind.is_emulated(),
            facts: Facts::of(run, keep),
            key: CardKey::of(run),
            times,
        };
        let next = self.runs.len();
        let place = *self.origins.entry(Origin::of(run)).or_insert(next);
        match self.runs.get_mut(place) {
            None => self.runs.push(found),
            Some(known) => {
                self.duplicates += 1;
                let better = found.times.len().cmp(&known.times.len()).then_with(|| known.file.cmp(&found.file));
                if better.is_gt() {
                    *known = found;
                }
            }
        }
    }

    /// Adds a file that is no readable run.
    pub fn skip(&mut self, file: String, reason: String) {
        self.unreadable.push(Unreadable { file, reason });
    }

    /// Returns the findings. `resolution` is the smallest difference that counts, as a share of the time; by default, that of a comparison.
    pub fn finish(mut self, resolution: Option<f64>) -> Fleet {
        self.runs.sort_by(|a, b| (a.started, &a.file).cmp(&(b.started, &b.file)));
        self.unreadable.sort_by(|a, b| a.file.cmp(&b.file));
        let emulated = self.runs.iter().any(|run| run.emulated);
        let usual = if emulated { RESOLUTION_EMULATED } else { RESOLUTION };
        let resolution = resolution.unwrap_or(usual);
        let of_cards = by_card(&self.runs);
        let levels = Levels::new(&self.cases, &of_cards);
        let mut fleet = Fleet {
            cards: of_cards.iter().enumerate().map(|(card, runs)| levels.card(card, runs)).collect(),
            alarms: Vec::new(),
            attributes: Vec::new(),
            missing: Vec::new(),
            untested: Vec::new(),
            resolution,
            detectable: None,
            runs: self.runs.len(),
            unreadable: self.unreadable,
            duplicates: self.duplicates,
        };
        let mut most = 0;
        for (device, cards) in kinds(&fleet.cards) {
            if cards.len() < FEWEST_CARDS {
                fleet.untested.push(device);
            } else {
                let (alarms, detectable) = levels.alarms(&cards, resolution);
                fleet.alarms.extend(alarms);
                if cards.len() > most {
                    (most, fleet.detectable) = (cards.len(), detectable);
                }
            }
            fleet.alarms.extend(disagreements(&of_cards, &cards));
            fleet.missing.extend(absent(&levels, &of_cards, &cards));
        }
        fleet.missing.extend(lacking_cards(&fleet.cards));
        let grounds: Vec<Vec<String>> = fleet.alarms.iter().map(|alarm| grounds(&fleet, alarm.card)).collect();
        fleet.alarms.iter_mut().zip(grounds).for_each(|(alarm, grounds)| alarm.grounds.extend(grounds));
        fleet.alarms.sort_by_key(|alarm| (alarm.fault.place(), alarm.card));
        fleet.attributes = attributes(&fleet);
        fleet
    }
}

/// Returns the runs of each card, oldest first; cards by host and address of their newest run.
fn by_card(runs: &[FleetRun]) -> Vec<Vec<&FleetRun>> {
    let mut cards: BTreeMap<String, Vec<&FleetRun>> = BTreeMap::new();
    runs.iter().for_each(|run| cards.entry(run.key.identifier()).or_default().push(run));
    let mut cards: Vec<Vec<&FleetRun>> = cards.into_values().collect();
    let place = |runs: &Vec<&FleetRun>| {
        let key = &runs[runs.len() - 1].key;
        (key.device.clone(), key.host.clone(), key.slot.clone(), key.uuid.clone())
    };
    cards.sort_by_cached_key(place);
    cards
}

/// Returns the positions of the cards of each kind of device.
fn kinds(cards: &[Card]) -> BTreeMap<String, Vec<usize>> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    cards.iter().enumerate().for_each(|(at, card)| kinds.entry(card.key.device.clone()).or_default().push(at));
    kinds
}

/// Positions among the counts of a case, after that of right results.
const WRONG: usize = 1;
const UNREPEATABLE: usize = 2;

/// Returns the alarms of cards whose results differ from those of most cards of their kind.
fn disagreements(of_cards: &[Vec<&FleetRun>], cards: &[usize]) -> Vec<Alarm> {
    // Cards by case: with right, wrong and unrepeatable results.
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let results = |card: usize| {
        let of = |cases: fn(&Facts) -> &Vec<String>| {
            of_cards[card].iter().flat_map(|run| cases(&run.facts)).map(String::as_str).collect::<BTreeSet<&str>>()
        };
        [of(|facts| &facts.right), of(|facts| &facts.wrong), of(|facts| &facts.unrepeatable)]
    };
    let of_cards: Vec<_> = cards.iter().map(|card| results(*card)).collect();
    for results in &of_cards {
        for (which, cases) in results.iter().enumerate() {
            cases.iter().for_each(|case| counts.entry(case).or_default()[which] += 1);
        }
    }
    // Results without fixed bits are right.
    let agreeing = |which: usize, case: &str| match counts[case] {
        [right, _, unrepeatable] if which == WRONG => right + unrepeatable,
        [right, ..] => right,
    };
    let rare = |which: usize, cases: &BTreeSet<&str>| -> Vec<String> {
        let rare = cases.iter().filter(|case| agreeing(which, case) > counts[**case][which]);
        rare.map(|case| (*case).to_owned()).collect()
    };
    let mut alarms = Vec::new();
    for (card, [_, wrong, unrepeatable]) in cards.iter().zip(&of_cards) {
        let (wrong, unrepeatable) = (rare(WRONG, wrong), rare(UNREPEATABLE, unrepeatable));
        let faults = [
            (!wrong.is_empty()).then_some(Fault::Wrong { cases: wrong }),
            (!unrepeatable.is_empty()).then_some(Fault::Unrepeatable { cases: unrepeatable }),
        ];
        alarms.extend(faults.into_iter().flatten().map(|fault| Alarm { card: *card, fault, grounds: Vec::new() }));
    }
    alarms
}

/// Returns the cards without a time in cases that half of their kind has.
fn absent(levels: &Levels, of_cards: &[Vec<&FleetRun>], cards: &[usize]) -> Vec<Missing> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    cards.iter().flat_map(|card| &levels.timed[*card]).for_each(|case| *counts.entry(case).or_default() += 1);
    let usual: Vec<&str> =
        counts.into_iter().filter(|(_, count)| 2 * count > cards.len()).map(|(case, _)| case).collect();
    let missing = |card: &usize| {
        let lacks: Vec<&&str> = usual.iter().filter(|case| !levels.timed[*card].contains(**case)).collect();
        let first = lacks.first()?;
        let reasons = of_cards[*card].iter().rev().flat_map(|run| &run.facts.absent);
        let wrong = of_cards[*card].iter().any(|run| run.facts.wrong.iter().any(|case| case == **first));
        let reason = reasons.filter(|(case, _)| case == **first).map(|(_, reason)| reason.clone()).next();
        let reason = reason.unwrap_or_else(|| match wrong {
            true => "its results are wrong".to_owned(),
            false => "no run has it".to_owned(),
        });
        Some(Missing::Cases { card: *card, count: lacks.len(), reason: format!("{first}: {reason}") })
    };
    cards.iter().filter_map(missing).collect()
}

/// Returns the hosts with fewer cards than most hosts of their kind of device have.
fn lacking_cards(cards: &[Card]) -> Vec<Missing> {
    let mut hosts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let known = cards.iter().filter(|card| !card.key.host.is_empty() && !card.key.slot.is_empty());
    known.for_each(|card| *hosts.entry((&card.key.device, &card.key.host)).or_default() += 1);
    let mut missing = Vec::new();
    for ((device, host), has) in &hosts {
        let mut counts: Vec<usize> =
            hosts.iter().filter(|((other, _), _)| other == device).map(|(_, count)| *count).collect();
        counts.sort_unstable();
        let usual = counts[counts.len() / 2];
        if counts.len() > 2 && *has < usual {
            missing.push(Missing::Cards { host: (*host).to_owned(), has: *has, usual });
        }
    }
    missing
}

/// Returns circumstances of a card that may explain its alarm.
fn grounds(fleet: &Fleet, card: usize) -> Vec<String> {
    let this = &fleet.cards[card];
    let alike = || fleet.cards.iter().filter(|other| other.key.device == this.key.device);
    let mut grounds = Vec::new();
    let usual = median(alike().filter_map(|other| other.temperature_c).collect());
    if let (Some(own), Some(usual)) = (this.temperature_c, usual)
        && own > usual + WARMER
    {
        grounds.push(format!("{own:.0} °C, most cards {usual:.0} °C"));
    }
    if this.slowed > SLOWED {
        grounds.push(format!("clocks reduced by heat or hardware after {:.0} % of samples", 100.0 * this.slowed));
    }
    let same_driver = alike().filter(|other| other.driver == this.driver).count();
    if 2 * same_driver < alike().count() {
        grounds.push(format!("driver {}, on {same_driver} of {} cards", this.driver, alike().count()));
    }
    if !this.key.host.is_empty() {
        let of_host: Vec<usize> =
            (0..fleet.cards.len()).filter(|other| fleet.cards[*other].key.host == this.key.host).collect();
        let with_alarm = of_host.iter().filter(|other| fleet.faults().any(|alarm| alarm.card == **other)).count();
        if with_alarm > 1 {
            grounds.push(format!("{with_alarm} of {} cards of this host have alarms", of_host.len()));
        }
    }
    grounds
}
