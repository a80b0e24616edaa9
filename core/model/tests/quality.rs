//! Measures of quality against scikit-learn and seqeval: `tools/quality/fixtures.py` writes their values.

use parallax_model::quality::{
    Confusion, Entity, EntityScores, Match, QualityError, Rates, auc, auc_macro, auc_micro, bootstrap, entities_of_tags,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixtures {
    classes: Vec<Classes>,
    entities: Vec<Entities>,
}

#[derive(Deserialize)]
struct Classes {
    classes: usize,
    truth: Vec<usize>,
    predicted: Vec<usize>,
    scores: Vec<f64>,
    confusion: Vec<u64>,
    per_class: [Vec<f64>; 3],
    #[serde(rename = "macro")]
    macro_average: [f64; 3],
    micro: [f64; 3],
    weighted: [f64; 3],
    auc_macro: Option<f64>,
    auc_micro: Option<f64>,
    baseline_micro: Option<f64>,
}

#[derive(Deserialize)]
struct Entities {
    truth: Vec<Vec<String>>,
    predicted: Vec<Vec<String>>,
    types: Vec<String>,
    per_type: [Vec<f64>; 3],
    micro: [f64; 3],
    #[serde(rename = "macro")]
    macro_average: [f64; 3],
}

fn fixtures() -> Fixtures {
    serde_json::from_str(include_str!("quality/measures.json")).expect("a fixture")
}

fn same(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-12, "{got} is not {want}");
}

fn same_rates(got: Rates, want: [f64; 3]) {
    [got.precision, got.recall, got.f1].into_iter().zip(want).for_each(|(got, want)| same(got, want));
}

#[test]
fn classes_have_the_values_of_scikit_learn() {
    for case in fixtures().classes {
        let matrix = Confusion::new(case.classes, &case.truth, &case.predicted).expect("a fixture");
        let k = case.classes;
        let counts: Vec<u64> = (0..k * k).map(|at| matrix.count(at / k, at % k)).collect();
        assert_eq!(counts, case.confusion);
        for (class, rates) in matrix.per_class().into_iter().enumerate() {
            same_rates(rates, case.per_class.each_ref().map(|of| of[class]));
        }
        same_rates(matrix.macro_average(), case.macro_average);
        same_rates(matrix.micro(), case.micro);
        same_rates(matrix.weighted(), case.weighted);
        same(matrix.accuracy(), case.micro[0]);
        let areas = [(auc_macro as fn(_, _, _) -> _, case.auc_macro), (auc_micro, case.auc_micro)];
        for (area, want) in areas {
            let got: Result<f64, QualityError> = area(k, &case.truth, &case.scores);
            // One class of two makes an area of all pairs, which scikit-learn's fixture leaves out.
            match want {
                Some(want) => same(got.expect("an area"), want),
                None => assert!(got.is_err() || case.truth.iter().all(|class| *class == case.truth[0])),
            }
        }
        let (most, _) = matrix.majority();
        let constant: Vec<f64> = (0..case.truth.len() * k).map(|at| f64::from(u8::from(at % k == most))).collect();
        if let Some(want) = case.baseline_micro {
            same(auc_micro(k, &case.truth, &constant).expect("an area"), want);
            if case.auc_macro.is_some() {
                same(auc_macro(k, &case.truth, &constant).expect("an area"), 0.5);
            }
        }
    }
}

#[test]
fn entities_have_the_values_of_seqeval() {
    for case in fixtures().entities {
        let spans = |rows: &[Vec<String>]| -> Vec<Vec<Entity>> {
            rows.iter().map(|tags| entities_of_tags(tags).expect("BIO")).collect()
        };
        let (truth, predicted) = (spans(&case.truth), spans(&case.predicted));
        let documents = || truth.iter().zip(&predicted).map(|(truth, predicted)| (&truth[..], &predicted[..]));
        let scores = EntityScores::new(documents(), Match::Strict);
        same_rates(scores.micro(), case.micro);
        same_rates(scores.macro_average(), case.macro_average);
        for (at, label) in case.types.iter().enumerate() {
            same_rates(scores.0[label].rates(), case.per_type.each_ref().map(|of| of[at]));
        }
        // A strict match is a relaxed one too.
        assert!(EntityScores::new(documents(), Match::Relaxed).micro().f1 >= scores.micro().f1);
    }
}

#[test]
fn relaxed_matches_need_a_common_position() {
    let entity = |start, end, label: &str| Entity { start, end, label: label.to_owned() };
    // Two predictions share one true entity; the second true entity only touches a prediction.
    let truth = [entity(0, 10, "drug"), entity(12, 15, "drug"), entity(20, 22, "dose")];
    let predicted = [entity(0, 4, "drug"), entity(5, 12, "drug"), entity(20, 22, "drug")];
    let relaxed = EntityScores::new([(&truth[..], &predicted[..])], Match::Relaxed);
    same_rates(relaxed.0["drug"].rates(), [2.0 / 3.0, 0.5, 4.0 / 7.0]);
    same_rates(relaxed.0["dose"].rates(), [0.0, 0.0, 0.0]);
    same_rates(relaxed.micro(), [2.0 / 3.0, 1.0 / 3.0, 4.0 / 9.0]);
    assert_eq!(EntityScores::new([(&truth[..], &predicted[..])], Match::Strict).micro().f1, 0.0);
    // An entity that is predicted twice counts once.
    let twice = [truth[0].clone(), truth[0].clone()];
    same_rates(EntityScores::new([(&truth[..1], &twice[..])], Match::Strict).micro(), [1.0; 3]);
}

#[test]
fn impossible_inputs_are_refused() {
    assert_eq!(Confusion::new(2, &[], &[]), Err(QualityError::Empty));
    assert_eq!(Confusion::new(2, &[0], &[0, 1]), Err(QualityError::Lengths { truth: 1, predicted: 2 }));
    assert_eq!(Confusion::new(2, &[0, 2], &[0, 0]), Err(QualityError::Class { item: 1, class: 2, classes: 2 }));
    assert_eq!(auc(&[true, false], &[0.5, f64::NAN]), Err(QualityError::NotANumber(1)));
    assert_eq!(auc(&[true, true], &[0.5, 0.1]), Err(QualityError::OneClass(1)));
    assert_eq!(auc_macro(3, &[0, 1], &[0.0; 6]), Err(QualityError::OneClass(2)));
    assert_eq!(entities_of_tags(&["O", "X-a"]), Err(QualityError::Tag { index: 1, tag: "X-a".to_owned() }));
    assert!(entities_of_tags(&["B-"]).is_err() && entities_of_tags(&["B"]).is_err());
}

#[test]
fn intervals_are_seeded_and_have_about_their_width() {
    // 80 % of 400 items: the standard error of the share is two percent.
    let right: Vec<bool> = (0..400).map(|item| item % 5 != 0).collect();
    let share = |at: &[usize]| Some(at.iter().filter(|item| right[**item]).count() as f64 / at.len() as f64);
    let (low, high) = bootstrap(400, 2000, 7, share).expect("values");
    assert!((low - 0.76).abs() < 0.01 && (high - 0.84).abs() < 0.01, "{low} to {high}");
    assert_eq!(bootstrap(400, 2000, 7, share), Some((low, high)));
    assert_eq!(bootstrap(400, 10, 7, |_| None), None);
    assert_eq!(bootstrap(1, 10, 7, share), Some((0.0, 0.0)));
}
