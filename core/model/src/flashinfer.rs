//! Workloads of FlashInfer-Bench: a line of JSON for each, or the JSON file of one operation.
//!
//! A definition's name has its constant extents, such as `gemm_n4096_k4096` or `gqa_paged_decode_h32_kv8_d128_ps1`. A workload has
//! the others. Source: the FlashInfer Trace Schema.

use std::collections::BTreeMap;

use parallax_schema::case::DType;
use parallax_schema::record::{Model, ModelFormat};
use serde::Deserialize;

use crate::problems::{Attention, Gemm, StandIn, of_rows, unmatched};
use crate::tally::Tally;
use crate::{ModelError, Options};

/// Workload of a definition, or a definition.
#[derive(Deserialize)]
struct Line {
    definition: Option<String>,
    name: Option<String>,
    workload: Option<Workload>,
    axes: Option<BTreeMap<String, AxisValue>>,
    inputs: Option<BTreeMap<String, Input>>,
}

#[derive(Deserialize)]
struct Workload {
    axes: BTreeMap<String, AxisValue>,
}

/// Tensor of a definition. The inputs of a workload have other fields.
#[derive(Deserialize)]
struct Input {
    dtype: Option<String>,
}

/// Extent, or its description.
#[derive(Deserialize)]
#[serde(untagged)]
enum AxisValue {
    Extent(u64),
    Described { value: Option<u64> },
}

/// Largest extent.
const MOST: u64 = 1 << 32;

/// Reads workloads.
///
/// # Errors
/// A line that is no workload, or an extent without a size.
pub fn read(contents: &[u8], name: &str, options: &Options) -> Result<Model, ModelError> {
    let mut tally = Tally::default();
    for (i, line) in serde_json::Deserializer::from_slice(contents).into_iter::<Line>().enumerate() {
        let wrong = |reason: String| ModelError::Json { expected: "list of workloads", reason };
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let Some(definition) = line.definition.as_ref().or(line.name.as_ref()) else {
            return Err(wrong(format!("workload {} has no `definition`", i + 1)));
        };
        let (operation, mut extents) = constants(definition);
        for (name, axis) in line.axes.iter().flatten().chain(line.workload.iter().flat_map(|workload| &workload.axes)) {
            let (AxisValue::Extent(extent) | AxisValue::Described { value: Some(extent) }) = axis else { continue };
            extents.insert(name.to_lowercase(), *extent);
        }
        extents.extend(options.extents.iter().map(|(name, extent)| (name.to_lowercase(), *extent)));
        let element = line.inputs.iter().flatten().find_map(|(_, input)| element(input.dtype.as_deref()?));
        let dtype = options.dtype.or(element).unwrap_or(DType::BF16);
        tally.add((&operation, ""), 1, stand_in(&operation, &Extents(extents), dtype)?, None)?;
    }
    let extents = options.extents.clone();
    Ok(Model { name: name.to_owned(), format: ModelFormat::Workload, extents, operations: tally.finish() })
}

fn element(name: &str) -> Option<DType> {
    match name {
        "float32" => Some(DType::F32),
        "float16" => Some(DType::F16),
        "bfloat16" => Some(DType::BF16),
        _ => None,
    }
}

/// Returns the operation in a definition's name, and the extents in it.
fn constants(definition: &str) -> (String, BTreeMap<String, u64>) {
    let mut extents = BTreeMap::new();
    let mut words = Vec::new();
    for part in definition.split('_').take(32) {
        let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit());
        match (part.strip_suffix(digits), digits.parse()) {
            (Some(key), Ok(extent)) if !key.is_empty() && !digits.is_empty() => {
                extents.insert(key.to_lowercase(), extent);
            }
            _ => words.push(part),
        }
    }
    (words.join("_"), extents)
}

/// Extents of a workload by name, in lower case.
struct Extents(BTreeMap<String, u64>);

impl Extents {
    /// Returns the extent of the first name that is there.
    fn of(&self, names: &[&str]) -> Result<u64, ModelError> {
        let Some((name, extent)) = names.iter().find_map(|name| self.0.get_key_value(*name)) else {
            return Err(ModelError::Dimensions { names: vec![names[0].to_owned()] });
        };
        match (1..=MOST).contains(extent) {
            true => Ok(*extent),
            false => {
                Err(ModelError::Field { field: name.clone(), problem: format!("is {extent}; it can be 1 to {MOST}") })
            }
        }
    }
}

fn stand_in(operation: &str, extents: &Extents, dtype: DType) -> Result<StandIn, ModelError> {
    let heads = || -> Result<[u64; 3], ModelError> {
        let h = extents.of(&["num_qo_heads", "h"])?;
        Ok([h, extents.of(&["num_kv_heads", "kv", "h"])?, extents.of(&["head_dim", "d"])?])
    };
    // Sequences of different lengths have their average.
    let sequences = || -> Result<u64, ModelError> {
        match extents.of(&["batch_size"]) {
            Ok(batch) => Ok(batch),
            Err(_) => Ok(extents.of(&["len_indptr"])?.saturating_sub(1).max(1)),
        }
    };
    match operation {
        "gemm" => {
            let [m, n, k] = [extents.of(&["m"])?, extents.of(&["n"])?, extents.of(&["k"])?];
            Ok(Gemm { b: 1, m, n, k, transposed: true, bias: false, gelu: false }.problem(dtype))
        }
        "rmsnorm" | "fused_add_rmsnorm" => {
            let (rows, columns) = (extents.of(&["batch_size"])?, extents.of(&["hidden_size", "h"])?);
            let note = if operation == "rmsnorm" { "" } else { "the sum with the residual is not computed" };
            Ok(of_rows("rmsnorm", rows, columns, dtype, note))
        }
        "gqa_paged_decode" => {
            let ([h, kv, d], b) = (heads()?, sequences()?);
            let pages = extents.of(&["num_kv_indices", "num_pages"])?;
            let tokens = pages.saturating_mul(extents.of(&["page_size", "ps"])?);
            Ok(Attention { b, h, kv, s: 1, t: tokens.div_ceil(b).max(2), d, w: 0, causal: true }.problem(dtype, ""))
        }
        "gqa_paged_prefill_causal" | "gqa_ragged_prefill_causal" => {
            let ([h, kv, d], b) = (heads()?, sequences()?);
            let tokens = match operation {
                "gqa_ragged_prefill_causal" => extents.of(&["total_kv"])?,
                _ => extents.of(&["num_kv_indices", "num_pages"])?.saturating_mul(extents.of(&["page_size", "ps"])?),
            };
            let s = extents.of(&["total_q"])?.div_ceil(b);
            let attention = Attention { b, h, kv, s, t: tokens.div_ceil(b).max(s), d, w: 0, causal: true };
            Ok(attention.problem(dtype, "all sequences have the average length; keys are dense, not in pages"))
        }
        other => Ok(unmatched(format!("the suite has no {other}"), &[], 0, Some(dtype))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(lines: &str) -> Result<Vec<String>, String> {
        let model = read(lines.as_bytes(), "w", &Options::default()).map_err(|error| error.to_string())?;
        Ok(model.operations.iter().map(|op| format!("{}× {}", op.count, op.problem().unwrap_or("none"))).collect())
    }

    #[test]
    fn names_and_axes_make_a_problem() {
        let gemm = r#"{"definition": "gemm_n4096_k2048", "workload": {"axes": {"M": 7}, "uuid": "a", "inputs": {"A": {"type": "random"}}}}"#;
        for (lines, want) in [
            (format!("{gemm}\n{gemm}\n"), "2× linear/fwd/m7,n4096,k2048,nt/bf16"),
            (
                r#"{"definition": "gqa_paged_decode_h32_kv8_d128_ps16", "workload": {"axes": {"batch_size": 4, "num_kv_indices": 250}}}"#
                    .to_owned(),
                "1× attention_decode/fwd/b4,h32,kv8,t1000,d128/bf16",
            ),
            (
                r#"{"definition": "gqa_ragged_prefill_causal_h32_kv4_d128", "workload": {"axes": {"len_indptr": 3, "total_q": 64, "total_kv": 512}}}"#
                    .to_owned(),
                "1× attention/fwd/b2,h32,kv4,s32,t256,d128,causal/bf16",
            ),
            (
                r#"{"name": "rmsnorm_h7168", "op_type": "rmsnorm", "axes": {"batch_size": {"type": "var", "value": 3}, "hidden_size": {"type": "const", "value": 7168}}, "inputs": {"x": {"shape": ["batch_size"], "dtype": "float16"}}}"#
                    .to_owned(),
                "1× rmsnorm/fwd/r3,c7168/f16",
            ),
            (r#"{"definition": "mla_paged_decode_h16_ckv512", "workload": {"axes": {}}}"#.to_owned(), "1× none"),
        ] {
            assert_eq!(problems(&lines), Ok(vec![want.to_owned()]), "{lines}");
        }
    }

    #[test]
    fn damaged_lines_are_named() {
        for (lines, part) in [
            (r#"{"definition": "gemm_n4_k4", "workload": {"axes": {}}}"#, "--dim m=N"),
            (r#"{"definition": "gemm_n4_k4", "workload": {"axes": {"M": 0}}}"#, "`m` is 0"),
            (r#"{"definition": "gemm_n4_k4", "workload": {"axes": {"M": -1}}}"#, "no list of workloads"),
            (r#"{"workload": {"axes": {"M": 1}}}"#, "has no `definition`"),
            ("{\"definition\": \"gemm_n4_k4\", \"workload\": {\"axes\": {\"M\": 1}}}\n{\"defin", "line 2"),
        ] {
            let said = problems(lines).expect_err(lines);
            assert!(said.contains(part), "{lines}: {said}");
        }
    }
}
