//! JSON formats against their schemas, and their values against the runs.

use jsonschema::Validator;
use parallax_report::ci::{bmf, custom_smaller_is_better, pytorch};
use parallax_schema::record::NamedRun;
use serde_json::{Value, json};

use crate::{CASE, OTHER, empty, full};

const BMF: &str = include_str!("schemas/bmf.schema.json");
const CUSTOM: &str = include_str!("schemas/custom-benchmark.schema.json");
const PYTORCH: &str = include_str!("schemas/pytorch-v3.schema.json");

fn validator(schema: &str) -> Validator {
    jsonschema::validator_for(&serde_json::from_str(schema).expect("JSON")).expect("a valid schema")
}

fn valid(schema: &str, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).expect("JSON");
    let errors: Vec<String> =
        validator(schema).iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}\n{text}");
    value
}

#[test]
fn bencher_gets_latency_and_rates_with_intervals() {
    let runs = [full("a", 1.0)];
    let written = valid(BMF, &bmf(&runs));
    let summary = runs[0].run.records[0].timing().expect("timed").summary;
    let latency = &written[CASE]["latency"];
    assert_eq!(*latency, json!({ "value": summary.median, "lower_value": summary.low, "upper_value": summary.high }));
    // 2 million operations in 100 ns; the shortest time is the highest rate.
    let throughput = &written[CASE]["throughput"];
    let number = |key: &str| throughput[key].as_f64().expect("a number");
    assert!((number("value") - 2e13).abs() < 1e10, "{throughput}");
    assert!(number("lower_value") < number("value") && number("value") < number("upper_value"), "{throughput}");
    let items = written[OTHER]["items-per-second"]["value"].as_f64().expect("a number");
    assert!((items - 4e6).abs() < 1e4 && written[CASE].get("items-per-second").is_none(), "{items}");
    let few = written["copy/fwd/n4/f32/few"]["latency"].as_object().expect("an object");
    assert_eq!(few.keys().collect::<Vec<_>>(), ["value"], "three samples have no interval");
    assert_eq!(written.as_object().expect("an object").len(), 3, "a case without a time has no metric");
    let wrong = json!({ CASE: { "latency": { "lower_value": 1.0 } } });
    assert!(!validator(BMF).is_valid(&wrong));
}

#[test]
fn several_runs_have_names_apart() {
    let runs = [full("a", 1.0), full("b", 2.0)];
    let written = valid(BMF, &bmf(&runs));
    let of = |run: &str| written[format!("{CASE} ({run})")]["latency"]["value"].as_f64().expect("a number");
    assert!((of("b") / of("a") - 2.0).abs() < 1e-9);
    let names: std::collections::BTreeSet<String> = valid(CUSTOM, &custom_smaller_is_better(&runs))
        .as_array()
        .expect("a list")
        .iter()
        .map(|result| result["name"].to_string())
        .collect();
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn github_action_benchmark_gets_times_with_half_their_interval() {
    let written = valid(CUSTOM, &custom_smaller_is_better(&[full("a", 1.0)]));
    let results = written.as_array().expect("a list");
    let names: Vec<&str> = results.iter().filter_map(|result| result["name"].as_str()).collect();
    assert_eq!(names, [CASE, OTHER, "copy/fwd/n4/f32/few"]);
    assert_eq!(results[0]["unit"], "ns");
    let half: f64 = results[0]["range"]
        .as_str()
        .and_then(|range| range.strip_prefix("± "))
        .expect("a range")
        .parse()
        .expect("a number");
    assert!(half > 0.0 && half < 0.3, "{half}");
    let extra = results[0]["extra"].as_str().expect("a string");
    assert!(extra.contains("40 samples") && !extra.contains('\u{1b}'), "{extra}");
    assert!(results[2].get("range").is_none(), "three samples have no interval");
    let none = custom_smaller_is_better(&[NamedRun::new("a", empty())]);
    assert_eq!(none, "[]\n");
    assert!(!validator(CUSTOM).is_valid(&json!([{ "name": "a", "value": "1", "unit": "ns" }])));
}

#[test]
fn pytorchs_database_gets_a_record_per_metric() {
    let written = valid(PYTORCH, &pytorch(&[full("a", 1.0)]));
    let records = written.as_array().expect("a list");
    let metrics = |case: &str| -> Vec<&str> {
        let of_case = records.iter().filter(|record| record["model"]["name"] == case);
        of_case.map(|record| record["metric"]["name"].as_str().expect("a name")).collect()
    };
    assert_eq!(metrics(CASE), ["median_time_ns", "flops_per_s"]);
    assert_eq!(metrics(OTHER), ["median_time_ns", "flops_per_s", "samples_per_s", "accuracy"]);
    let modes = [CASE, OTHER].map(|case| {
        let record = records.iter().find(|record| record["model"]["name"] == case).expect("there");
        record["benchmark"]["mode"].as_str().expect("a mode")
    });
    assert_eq!(modes, ["inference", "training"]);
    let first = &records[0];
    assert_eq!((&first["schema_version"], &first["timestamp"]), (&json!("v3"), &json!(1_700_000_000u64)));
    assert_eq!(first["dependencies"]["parallax"]["sha"], "0000000");
    assert_eq!(first["runners"][0]["gpu_count"], 1);
    let mut wrong = written.clone();
    wrong[0]["metric"]["extra_info"]["samples"] = json!(40);
    assert!(!validator(PYTORCH).is_valid(&wrong), "the database holds strings");
}
