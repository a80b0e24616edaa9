//! Simulated fleets: false alarms, planted faults and their kinds.

use parallax_schema::device::identity::Identity;
use parallax_schema::record::roofline::{Analysis, Bound};
use parallax_schema::record::{Difference, Outcome, Record, Repeatable, Run, host};
use parallax_schema::testing;
use parallax_schema::testing::{measured, spread};
use parallax_schema::units::Nanos;

use super::*;
use crate::simulated::Random;

const CASES: [&str; 6] = [
    "attention/fwd/b1,h8,s512,d64/f16/flash",
    "matmul/fwd/m512,n512,k512/f16/tiled",
    "matmul/fwd/m512,n512,k512/f32/tiled",
    "softmax/fwd/r512,c512/f32/rows",
    "gelu/fwd/n16777216,tanh/f32/vector",
    "copy/fwd/n16777216/f32/vec4",
];

/// Cards of a host.
const OF_HOST: usize = 8;

/// Returns whether a case is bound by memory.
fn of_memory(case: usize) -> bool {
    case > 2
}

/// Returns `runs` runs of each of `cards` cards. `effect` gives the factor of the time of a card, run and case. Cards differ by 0.5 %,
/// runs by 0.3 %, cases of a run by 0.2 %, and one run of fifty stands beside other load.
fn fleet(seed: u64, [cards, runs]: [usize; 2], effect: impl Fn(usize, usize, usize) -> f64) -> Vec<Run> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    for card in 0..cards {
        let own = 0.005 * random.normal();
        for run in 0..runs {
            let load = if random.uniform() < 0.02 { -0.03 * (1.0 - random.uniform()).ln() } else { 0.0 };
            let speed = own + 0.003 * random.normal() + load;
            let mut time = |case: usize| {
                let base = 1e5 * (case + 1) as f64 * effect(card, run, case);
                spread(base * (speed + 0.002 * random.normal()).exp(), 0.004, 12)
            };
            let times: Vec<(&str, Vec<f64>)> = CASES.iter().enumerate().map(|(i, case)| (*case, time(i))).collect();
            let mut run_of = testing::run("cuda", "NVIDIA H200", &times);
            run_of.started = 1_700_000_000 + (run * 86_400 + card) as u64;
            run_of.environment.insert(host::NAME.to_owned(), format!("node{:03}", card / OF_HOST));
            run_of.devices[0].identity = Identity {
                pci: Some(format!("0000:{:02x}:00.0", 16 * (card % OF_HOST) + 5)),
                uuid: Some(format!("GPU-{card:04}")),
                model: None,
            };
            for (i, case) in CASES.iter().enumerate() {
                measured(&mut run_of, case).analysis = Some(bound_by(of_memory(i)));
            }
            all.push(run_of);
        }
    }
    all
}

fn bound_by(memory: bool) -> Analysis {
    let (bound, peak_flops, peak_bandwidth) = match memory {
        true => (Bound::Memory, None, Some(1e12)),
        false => (Bound::Compute, Some(1e9), None),
    };
    let (floor, peak_link) = (Nanos(5e4), None);
    Analysis { intensity: 0.1, floor, utilisation: 0.9, peak_flops, peak_bandwidth, peak_link, bound }
}

fn found(runs: &[Run]) -> Fleet {
    let mut builder = FleetBuilder::default();
    runs.iter().enumerate().for_each(|(i, run)| builder.add(&format!("{i}.json"), run, |_| true));
    builder.finish(None)
}

#[test]
fn equal_cards_give_few_alarms() {
    let alarms = (0..100).filter(|seed| found(&fleet(*seed, [32, 5], |_, _, _| 1.0)).faults().next().is_some()).count();
    // Two are expected: 1 % for levels and 1 % for runs.
    assert!(alarms <= 6, "{alarms} of 100 fleets");
}

#[test]
fn planted_faults_are_found_with_their_kinds() {
    let effect = |card: usize, run: usize, case: usize| match card {
        3 => 1.05,
        20 if of_memory(case) => 1.12,
        41 if run % 3 == 1 => 1.25,
        55 => 0.94,
        _ => 1.0,
    };
    let mut runs = fleet(9, [64, 8], effect);
    let wrong: Vec<&mut Record> = runs
        .iter_mut()
        .filter(|run| run.device().identity.uuid.as_deref() == Some("GPU-0030"))
        .map(|run| &mut run.records[1])
        .collect();
    for record in wrong {
        record.outcome = Outcome::Fail { check: testing::exact() };
    }
    let fleet = found(&runs);
    let of = |card: usize| -> Vec<&Fault> {
        let name = format!("GPU-{card:04}");
        fleet.alarms.iter().filter(|alarm| fleet.cards[alarm.card].key.uuid == name).map(|alarm| &alarm.fault).collect()
    };
    assert_eq!(fleet.alarms.len(), 5, "{:?}", fleet.alarms);
    assert!(
        matches!(of(3)[..], [Fault::Slow { group: Group::All, ratio, .. }] if (ratio - 1.05).abs() < 0.02),
        "{:?}",
        of(3)
    );
    assert!(
        matches!(of(20)[..], [Fault::Slow { group: Group::Memory, ratio, .. }] if (ratio - 1.12).abs() < 0.02),
        "{:?}",
        of(20)
    );
    assert!(matches!(of(41)[..], [Fault::Unsteady { slow: 3, runs: 8, .. }]), "{:?}", of(41));
    assert!(matches!(of(55)[..], [Fault::Fast { group: Group::All, .. }]), "{:?}", of(55));
    assert!(matches!(of(30)[..], [Fault::Wrong { cases }] if cases[..] == [CASES[1]]), "{:?}", of(30));
    let missing = Missing::Cases { card: 30, count: 1, reason: format!("{}: its results are wrong", CASES[1]) };
    assert_eq!(fleet.missing, [missing]);
    assert_eq!((fleet.cards.len(), fleet.runs, fleet.faults().count()), (64, 512, 4));
    assert!(fleet.detectable.is_some_and(|share| share > 0.01 && share < 0.04), "{:?}", fleet.detectable);
}

#[test]
fn a_slow_host_and_a_missing_card_are_named() {
    let runs = fleet(4, [40, 3], |card, _, _| if (16..20).contains(&card) { 1.08 } else { 1.0 });
    let fleet = found(&runs[..runs.len() - 3]);
    assert_eq!(fleet.faults().count(), 4, "{:?}", fleet.alarms);
    for alarm in fleet.faults() {
        let grounds = alarm.grounds.join("; ");
        assert!(grounds.contains("4 of 8 cards of this host have alarms"), "{grounds}");
    }
    assert_eq!(fleet.missing, [Missing::Cards { host: "node004".to_owned(), has: 7, usual: 8 }]);
    let slow = &fleet.attributes[0];
    assert_eq!((slow.attribute, slow.value.as_str(), slow.cards, slow.alarms), (Attribute::Host, "node002", 8, 4));
}

#[test]
fn wrong_results_are_found_in_a_case_without_fixed_bits_too() {
    let mut runs = fleet(3, [8, 2], |_, _, _| 1.0);
    let differs = Repeatable::Differs(Difference { by: 1e-3, of_bound: 0.01 });
    for run in &mut runs {
        measured(run, CASES[4]).check.repeatable = Some(differs);
    }
    runs[4].records[4].outcome = Outcome::Fail { check: testing::exact() };
    measured(&mut runs[9], CASES[5]).check.repeatable = Some(differs);
    let fleet = found(&runs);
    let alarms: Vec<(usize, &Fault)> = fleet.alarms.iter().map(|alarm| (alarm.card, &alarm.fault)).collect();
    let wrong = Fault::Wrong { cases: vec![CASES[4].to_owned()] };
    let unrepeatable = Fault::Unrepeatable { cases: vec![CASES[5].to_owned()] };
    assert_eq!(alarms, [(2, &wrong), (4, &unrepeatable)]);
}

#[test]
fn few_cards_are_not_tested_and_copies_count_once() {
    let runs = fleet(1, [5, 2], |card, _, _| if card == 0 { 2.0 } else { 1.0 });
    let twice: Vec<Run> = runs.iter().chain(&runs).cloned().collect();
    let fleet = found(&twice);
    assert_eq!((fleet.untested.as_slice(), fleet.alarms.len()), (&["NVIDIA H200".to_owned()][..], 0));
    assert_eq!((fleet.runs, fleet.duplicates), (10, 10));
}
