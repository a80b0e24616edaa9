//! Levels of cards in groups of cases, and alarms by them.

use std::collections::{BTreeMap, BTreeSet};

use parallax_schema::record::roofline::Bound;

use super::build::FleetRun;
use super::card::Card;
use super::found::{Alarm, Fault};
use super::groups::{Group, median};
use super::outlier::{self, FEWEST_CARDS, outliers, unsteady};

/// Share of the largest distance that a wider group needs for its name to be given.
const AS_FAR: f64 = 0.7;

/// Levels of cards and runs in groups of cases, as logarithms relative to the median card.
pub(super) struct Levels {
    /// Groups with cases.
    groups: Vec<Group>,
    /// By group, card and run; absent for a run without a case of the group.
    of_runs: Vec<Vec<Vec<Option<f64>>>>,
    /// Cases with a time, by card.
    pub timed: Vec<BTreeSet<String>>,
}

impl Levels {
    pub fn new(cases: &[(String, Option<Bound>)], of_cards: &[Vec<&FleetRun>]) -> Levels {
        let mut times: Vec<BTreeMap<usize, Vec<f64>>> = vec![BTreeMap::new(); cases.len()];
        for (card, runs) in of_cards.iter().enumerate() {
            for (series, time) in runs.iter().flat_map(|run| &run.times) {
                times[*series].entry(card).or_default().push(*time);
            }
        }
        // A series on one card alone says nothing about it.
        let centre = |cards: BTreeMap<usize, Vec<f64>>| {
            let shared = cards.len() > 1;
            median(cards.into_values().filter_map(median).collect()).filter(|_| shared)
        };
        let centres: Vec<Option<f64>> = times.into_iter().map(centre).collect();
        let shared = |group: Group| {
            let of_group = cases.iter().zip(&centres).filter(|((case, bound), _)| group.has(case, *bound));
            of_group.filter(|(_, centre)| centre.is_some()).count()
        };
        // A group of one case, or of all, adds nothing to the first.
        let all = shared(Group::All);
        let groups: Vec<Group> = Group::EVERY
            .into_iter()
            .filter(|group| *group == Group::All || (shared(*group) > 1 && shared(*group) < all))
            .collect();
        let level = |group: Group, run: &FleetRun| {
            let of_group = run.times.iter().filter(|(series, _)| group.has(&cases[*series].0, cases[*series].1));
            median(of_group.filter_map(|(series, time)| Some(time - centres[*series]?)).collect())
        };
        let of_card = |group: Group, runs: &Vec<&FleetRun>| runs.iter().map(|run| level(group, run)).collect();
        let of_runs = groups.iter().map(|group| of_cards.iter().map(|runs| of_card(*group, runs)).collect()).collect();
        let timed = of_cards
            .iter()
            .map(|runs| runs.iter().flat_map(|run| &run.times).map(|(series, _)| cases[*series].0.clone()).collect());
        Levels { groups, of_runs, timed: timed.collect() }
    }

    /// Level of a card in a group.
    fn level(&self, group: usize, card: usize) -> Option<f64> {
        median(self.of_runs[group][card].iter().flatten().copied().collect())
    }

    pub fn card(&self, card: usize, runs: &[&FleetRun]) -> Card {
        let newest = runs[runs.len() - 1];
        let samples: usize = runs.iter().map(|run| run.facts.samples).sum();
        let slowed: usize = runs.iter().map(|run| run.facts.slowed).sum();
        Card {
            key: newest.key.clone(),
            driver: newest.driver.clone(),
            runs: runs.len(),
            cases: self.timed[card].len(),
            level: self.level(0, card).map(f64::exp),
            temperature_c: median(runs.iter().flat_map(|run| &run.facts.temperatures).copied().collect()),
            slowed: slowed as f64 / samples.max(1) as f64,
        }
    }

    /// Returns the alarms by times among cards of one kind, and the smallest slow-down over all cases that is found.
    pub fn alarms(&self, cards: &[usize], resolution: f64) -> (Vec<Alarm>, Option<f64>) {
        let mut far: BTreeMap<usize, Vec<(Group, f64, f64)>> = BTreeMap::new();
        let mut detectable = None;
        for (at, group) in self.groups.iter().enumerate() {
            let known: Vec<(usize, f64)> =
                cards.iter().filter_map(|card| Some((*card, self.level(at, *card)?))).collect();
            let levels: Vec<f64> = known.iter().map(|(_, level)| *level).collect();
            let found = outliers(&levels, self.groups.len());
            if *group == Group::All && levels.len() >= FEWEST_CARDS {
                let smallest = outlier::detectable(&levels, &found, self.groups.len());
                detectable = Some(smallest.max(resolution.ln_1p()).exp_m1());
            }
            for outlier in found.into_iter().filter(|outlier| outlier.distance.abs() > resolution.ln_1p()) {
                let deviations = outlier.distance / outlier.deviation;
                far.entry(known[outlier.position].0).or_default().push((*group, outlier.distance, deviations));
            }
        }
        let mut alarms: Vec<Alarm> = far.into_iter().map(|(card, groups)| farthest(card, &groups)).collect();
        let own = |card: &usize| {
            let level = self.level(0, *card)?;
            Some(self.of_runs[0][*card].iter().flatten().map(|run| run - level).collect::<Vec<f64>>())
        };
        let runs: Vec<Vec<f64>> = cards.iter().map(|card| own(card).unwrap_or_default()).collect();
        alarms.extend(unsteady(&runs, resolution).into_iter().map(|(at, slow, excess)| Alarm {
            card: cards[at],
            fault: Fault::Unsteady { slow, runs: runs[at].len(), ratio: excess.exp() },
            grounds: Vec::new(),
        }));
        (alarms, detectable)
    }
}

/// Returns the alarm of a card in the widest group that is about as far away as any.
fn farthest(card: usize, groups: &[(Group, f64, f64)]) -> Alarm {
    let largest = groups.iter().map(|(_, distance, _)| distance.abs()).fold(0.0, f64::max);
    let &(group, distance, deviations) =
        groups.iter().find(|(_, distance, _)| distance.abs() >= AS_FAR * largest).expect("one is the largest");
    let ratio = distance.exp();
    let others = groups.iter().filter(|(other, ..)| *other != group && group != Group::All);
    let named: Vec<String> =
        others.map(|(other, distance, _)| format!("{}: {:.3}×", other.name(), distance.exp())).collect();
    let grounds = if named.is_empty() { Vec::new() } else { vec![format!("also {}", named.join(", "))] };
    let fault = match distance > 0.0 {
        true => Fault::Slow { group, ratio, deviations },
        false => Fault::Fast { group, ratio, deviations: -deviations },
    };
    Alarm { card, fault, grounds }
}
