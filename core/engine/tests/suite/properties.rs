//! Properties of readers for any text: they never panic, and an accepted text survives a round trip.
//!
//! The seed is fixed, so that a change fails for its own sake. The same readers are fuzzed without end in `fuzz/`.

use std::sync::OnceLock;

use parallax_analysis::compare::{Options, compare};
use parallax_engine::plan::plan;
use parallax_schema::case::problem_of;
use parallax_schema::device::DeviceKind;
use parallax_schema::record::{Better, NamedRun, Run, Suite};
use parallax_schema::spec::schedule::Schedule;
use parallax_schema::spec::settings::{SETTINGS, Setting, Values};
use parallax_schema::spec::{Spec, filter, query};
use parallax_schema::testing;
use parallax_schema::testing::caps;
use parallax_testing::mock::{Fault, Mock};
use parallax_workloads::{all, parse_case};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(42), failure_persistence: None, cases: 500, ..ProptestConfig::default() }
}

/// Every case of every preset, skipped ones included.
fn cases() -> &'static [String] {
    static CASES: OnceLock<Vec<String>> = OnceLock::new();
    CASES.get_or_init(|| {
        let of = |preset| {
            let plan = plan(&Spec::from_pairs([("preset", preset)]).expect("valid"), &caps()).expect("cases");
            let run = plan.cases.into_iter().map(|p| p.case.to_string());
            run.chain(plan.skips.into_iter().map(|s| s.case.to_string())).collect::<Vec<_>>()
        };
        ["quick", "standard", "full", "awkward"].into_iter().flat_map(of).collect()
    })
}

/// A run of a few cases with scores, on a device of any kind, as steady or restless as it comes.
fn measured_run() -> impl Strategy<Value = Run> {
    let kinds = vec![DeviceKind::Discrete, DeviceKind::Integrated, DeviceKind::Software, DeviceKind::Cpu];
    let figures = proptest::collection::vec((0..4usize, 10.0..1e6f64, 0.0..0.2f64, 3..60usize), 1..5);
    let restless = (100.0..1e4f64, 0.0..0.3f64);
    (select(vec!["cuda", "wgpu", "browser"]), select(kinds), figures, restless).prop_map(
        |(target, kind, figures, (reference, wander))| {
            let names: Vec<String> = figures.iter().map(|(case, ..)| format!("softmax/fwd/r{case}/f32/row")).collect();
            let samples = figures.iter().map(|(_, median, width, n)| testing::spread(*median, *width, *n));
            let cases: Vec<(&str, Vec<f64>)> = names.iter().map(String::as_str).zip(samples).collect();
            let mut run = testing::run(target, "X", &cases);
            run.devices[0].kind = kind;
            run.drift = testing::drift(&testing::spread(reference, wander, 20));
            for (name, (_, value, ..)) in names.iter().zip(&figures) {
                testing::measured(&mut run, name).scores = vec![testing::score("auroc", value.recip(), Better::Higher)];
            }
            run
        },
    )
}

/// Strings that are nearly cases: pieces of real ones, numbers and noise in any order.
fn nearly_case() -> impl Strategy<Value = String> {
    let pieces: Vec<String> = cases().iter().flat_map(|c| c.split(['/', ',']).map(str::to_owned)).collect();
    let piece = prop_oneof![4 => select(pieces), 1 => "[a-z]{0,2}[0-9]{0,22}", 1 => any::<String>()];
    let shape = proptest::collection::vec(piece.clone(), 0..6).prop_map(|parts| parts.join(","));
    let workload = select(all().iter().map(|w| w.name).collect::<Vec<_>>());
    let loose = (piece.clone(), piece.clone(), shape.clone(), piece.clone(), piece.clone())
        .prop_map(|(a, b, c, d, e)| [a, b, c, d, e].join("/"));
    let tight = (workload, shape, piece).prop_map(|(w, shape, variant)| format!("{w}/fwd/{shape}/f32/{variant}"));
    prop_oneof![loose, tight, any::<String>()]
}

/// A value that a setting takes.
fn value(setting: &'static Setting) -> BoxedStrategy<String> {
    match setting.values {
        Values::Words(words) => select(words()).prop_map(str::to_owned).boxed(),
        Values::Switch => select(vec!["on", "off"]).prop_map(str::to_owned).boxed(),
        Values::Number(_) if setting.name == "seed" => any::<u64>().prop_map(|n| n.to_string()).boxed(),
        Values::Number(_) if setting.name == "repeat" => (1..=1000u32).prop_map(|n| n.to_string()).boxed(),
        Values::Number(_) => (1e-6..3e7f64).prop_map(|n| n.to_string()).boxed(),
        Values::Text(_) => match setting.name {
            "filter" => any::<String>().boxed(),
            "case" => select(cases().to_vec()).boxed(),
            "problem" => select(cases().to_vec()).prop_map(|case| problem_of(&case).to_owned()).boxed(),
            "shape" => select(vec!["c8xh128,c32xh256", "n2"]).prop_map(str::to_owned).boxed(),
            "variant" => select(parallax_engine::plan::settings::variants()).prop_map(str::to_owned).boxed(),
            "set" => select(vec!["matmul.tiled.DEPTH=8", "OWNER_ROWS=100"]).prop_map(str::to_owned).boxed(),
            "schedule" => (0..99u32, 0..9u32, 1..9u32, 1..9u32)
                .prop_map(|(w, u, a, r)| format!("wait={w},warmup={u},active={a},repeat={r}"))
                .boxed(),
            other => panic!("write down the values of `{other}`"),
        },
    }
}

fn pairs() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let setting = select(SETTINGS.iter().collect::<Vec<_>>());
    let pair = setting.prop_flat_map(|setting| value(setting).prop_map(move |value| (setting.name, value)));
    proptest::collection::vec(pair, 0..12)
}

fn borrowed<'a>(pairs: &'a [(&'static str, String)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    pairs.iter().map(|(key, value)| (*key, value.as_str()))
}

/// A run file with a few records.
fn file() -> &'static str {
    static FILE: OnceLock<String> = OnceLock::new();
    FILE.get_or_init(|| {
        let spec = Spec::from_pairs([("case", "copy/fwd/n1000/f32/vec4"), ("case", "copy/fwd/n1000/bf16/vec4")]);
        let spec = spec.expect("valid");
        let plan = plan(&spec, &caps()).expect("cases");
        let mut mock = Mock::new(|i| 1e5 + (i % 7) as f64, Fault::None);
        let mut run = plan.begin("mock", Suite { version: String::new(), commit: String::new() }, &mock, &spec);
        let (mode, before) = (parallax_schema::session::Mode::Measure, Default::default());
        pollster::block_on(parallax_engine::measure::runner::run(&plan, &spec, mode, &mut mock, &before, |event| {
            run.apply(event);
            parallax_engine::measure::runner::Flow::Continue
        }));
        assert_eq!(run.records.len(), 2);
        serde_json::to_string(&run).expect("serialisable")
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_third_run_leaves_every_pair_alone(runs in [measured_run(), measured_run(), measured_run()], third in 1..3usize) {
        let [base, other, further] = runs;
        let two = vec![NamedRun::new("base", base), NamedRun::new("other", other)];
        let mut three = two.clone();
        three.insert(third, NamedRun::new("further", further));
        if let Ok(alone) = compare(&two, &Options::default()) {
            let among = compare(&three, &Options::default()).expect("the same pairs, and more");
            let place = 3 - third;
            for pair in &alone.pairs {
                prop_assert_eq!(alone.ratio(1, &pair.case), among.ratio(place, &pair.case));
            }
            for pair in &alone.scores {
                let same = among.scores.iter().find(|one| one.case == pair.case && one.name == pair.name).expect("a pair");
                prop_assert_eq!(&pair.differences[1], &same.differences[place]);
            }
            prop_assert_eq!(alone.runs[1].resolution, among.runs[place].resolution);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn case_strings_are_read_or_refused(text in nearly_case()) {
        if let Ok(case) = parse_case(&text) {
            let written = case.to_string();
            prop_assert_eq!(parse_case(&written).map(|c| c.to_string()), Ok(written));
        }
    }

    #[test]
    fn planned_cases_survive_their_string(case in select(cases().to_vec())) {
        prop_assert_eq!(parse_case(&case).map(|c| c.to_string()), Ok(case));
    }

    #[test]
    fn specs_survive_pairs_and_queries(pairs in pairs()) {
        let spec = Spec::from_pairs(borrowed(&pairs)).expect("values that the settings take");
        let written = spec.to_pairs();
        let again = Spec::from_pairs(borrowed(&written));
        prop_assert_eq!(again.as_ref(), Ok(&spec));
        let read = query::read(&query::write(&written));
        let read = Spec::from_pairs(read.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        prop_assert_eq!(read, Ok(spec));
    }

    #[test]
    fn any_setting_and_query_is_read_or_refused(key in "[a-z-]{0,12}", value in any::<String>(), text in any::<String>()) {
        let _ = Spec::from_pairs([(key.as_str(), value.as_str())]);
        for setting in SETTINGS {
            let _ = setting.set(&mut Spec::default(), &value);
        }
        let read = query::read(&text);
        let pairs: Vec<(&str, &str)> = read.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let _ = Spec::from_pairs(pairs.iter().copied());
    }

    #[test]
    fn a_case_is_kept_by_itself_and_by_its_segments(case in select(cases().to_vec()), from in 0..60usize, length in 0..60usize) {
        prop_assert!(filter::keeps(&case, &case));
        let segments: Vec<&str> = case.split(['/', ',']).collect();
        prop_assert!(segments.iter().all(|segment| filter::keeps(segment, &case)), "{}", case);
        // Any part of it with stars around; without them only where it begins and ends between segments.
        let (from, to) = (from.min(case.len()), (from + length).min(case.len()));
        let part = &case[from..to];
        let anywhere = format!("*{part}*");
        prop_assert!(filter::keeps(&anywhere, &case));
        if !part.contains(['/', ',']) && !part.is_empty() {
            prop_assert_eq!(filter::keeps(part, &case), segments.contains(&part), "{} in {}", part, case);
        }
        let longer = format!("{case}x");
        prop_assert!(!filter::keeps(&longer, &case));
    }

    #[test]
    fn any_filter_is_taken(pattern in "[a-z*/,é]{0,8}", text in "[a-z/,é]{0,12}") {
        filter::keeps(&pattern, &text);
        if !pattern.contains('*') && filter::keeps(&pattern, &text) {
            prop_assert!(text.contains(&pattern));
        }
    }

    #[test]
    fn schedules_are_read_or_refused(text in prop_oneof![any::<String>(), "((wait|warmup|active|repeat)=[0-9]{0,11},?){0,5}"]) {
        if let Ok(schedule) = text.parse::<Schedule>() {
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }

    #[test]
    fn broken_run_files_are_refused(at in any::<prop::sample::Index>(), noise in any::<u8>(), text in any::<String>()) {
        let _ = Run::parse(&text);
        let whole = file();
        let at = at.index(whole.len());
        prop_assert!(whole.is_char_boundary(at) && Run::parse(&whole[..at]).is_err() || !whole.is_char_boundary(at));
        let mut changed = whole.as_bytes().to_vec();
        changed[at] = noise;
        if let Ok(run) = Run::parse(&String::from_utf8_lossy(&changed)) {
            // Numbers with more digits than a float has may change in their last bit, so the values are not compared.
            let again = serde_json::to_string(&run).expect("serialisable");
            prop_assert!(Run::parse(&again).is_ok());
        }
    }
}
