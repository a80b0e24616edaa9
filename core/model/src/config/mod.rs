//! `config.json` of a Hugging Face model: the operations of its family, by its fields.

mod decoder;
mod encoder;
mod fields;

use parallax_schema::case::DType;
use parallax_schema::record::{Model, ModelFormat};

use crate::config::fields::Fields;
use crate::problems::{Second, StandIn, elementwise, unmatched};
use crate::tally::Tally;
use crate::{ModelError, Options};

/// Known families, for messages.
const FAMILIES: &str = "bert, roberta, vit, deit, dinov2, siglip, siglip2, llama, mistral, qwen2, qwen3";

/// Operations of a pass while it is built.
struct Pass {
    tally: Tally,
    dtype: DType,
}

impl Pass {
    fn add(&mut self, layer: &str, kind: &str, count: u64, stand_in: StandIn) -> Result<(), ModelError> {
        self.tally.add((kind, layer), count, stand_in, None)
    }

    /// Adds an operation of elements that no problem stands for.
    fn unmatched(&mut self, layer: &str, kind: &str, count: u64, elements: u64) -> Result<(), ModelError> {
        let stand_in = unmatched(format!("the suite has no {kind}"), &[elements], elements, Some(self.dtype));
        self.add(layer, kind, count, stand_in)
    }

    /// Adds sums of two matrices, or of a matrix and a row.
    fn sum(&mut self, layer: &str, count: u64, extents: [u64; 2], second: Second) -> Result<(), ModelError> {
        self.add(layer, "sum", count, elementwise("add", extents, second, self.dtype, ""))
    }
}

/// Reads a configuration.
///
/// # Errors
/// Unknown family, or a missing or impossible field.
pub fn read(contents: &[u8], name: &str, options: &Options) -> Result<Model, ModelError> {
    let fields: Fields = serde_json::from_slice(contents)
        .map_err(|error| ModelError::Json { expected: "model configuration", reason: error.to_string() })?;
    let fields = fields.of_model();
    let family = fields.model_type.clone().unwrap_or_default();
    let dtype = options.dtype.unwrap_or_else(|| fields.element_type());
    let mut pass = Pass { tally: Tally::default(), dtype };
    let extents = match family.as_str() {
        "bert" | "roberta" | "xlm-roberta" => encoder::text(&mut pass, &fields, options)?,
        "vit" | "deit" | "dinov2" | "siglip_vision_model" | "siglip2_vision_model" | "clip_vision_model" => {
            encoder::vision(&mut pass, &fields, options)?
        }
        "llama" | "mistral" | "qwen2" | "qwen3" => decoder::decoder(&mut pass, &fields, options)?,
        _ => return Err(ModelError::Family(family, FAMILIES)),
    };
    if let Some(unknown) = options.extents.keys().find(|name| !extents.iter().any(|(known, _)| known == name)) {
        let known = extents.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(ModelError::UnknownDimension { name: unknown.clone(), known });
    }
    let name = if name == "config" { family } else { name.to_owned() };
    let extents = extents.into_iter().map(|(name, extent)| (name.to_owned(), extent)).collect();
    Ok(Model { name, format: ModelFormat::Config, extents, operations: pass.tally.finish() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;
    use parallax_schema::record::Coverage;

    const LLAMA: &str = r#"{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;
    const SIGLIP: &str = r#"{"model_type": "siglip2", "vision_config": {"model_type": "siglip2_vision_model", "hidden_size": 1152,
        "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16, "image_size": 384, "patch_size": 16,
        "hidden_act": "gelu_pytorch_tanh"}}"#;
    const BERT: &str = r#"{"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu"}"#;

    fn model(config: &str, extents: &[(&str, u64)], phase: Phase) -> Model {
        let extents = extents.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
        read(config.as_bytes(), "config", &Options { extents, dtype: None, phase }).expect("a configuration")
    }

    /// Executions of a problem in a model.
    fn count(model: &Model, problem: &str) -> u64 {
        model.operations.iter().filter(|op| op.problem() == Some(problem)).map(|op| op.count).sum()
    }

    #[test]
    fn problems_of_a_family_have_the_shapes_of_its_fields() {
        let prefill = model(LLAMA, &[("batch", 2), ("seq", 512)], Phase::Prefill);
        let decode = model(LLAMA, &[("seq", 1000)], Phase::Decode);
        let siglip = model(SIGLIP, &[("batch", 4)], Phase::Prefill);
        let bert = model(BERT, &[("seq", 128)], Phase::Prefill);
        for (model, problem, want) in [
            (&prefill, "attention/fwd/b2,h32,kv8,s512,d64,causal/bf16", 16),
            // Queries and the output; keys and values.
            (&prefill, "linear/fwd/m1024,n2048,k2048,nt/bf16", 32),
            (&prefill, "linear/fwd/m1024,n512,k2048,nt/bf16", 32),
            (&prefill, "linear/fwd/m1024,n8192,k2048,nt/bf16", 32),
            (&prefill, "linear/fwd/m1024,n2048,k8192,nt/bf16", 16),
            (&prefill, "rope/fwd/b2,h32,s512,d64/bf16", 16),
            (&prefill, "rmsnorm/fwd/r1024,c2048/bf16", 33),
            (&prefill, "linear/fwd/m2,n128256,k2048,nt/bf16", 1),
            (&prefill, "elementwise/fwd/r4096,c2048,swiglu/bf16", 16),
            (&siglip, "elementwise/fwd/r4,c663552,add,row/f32", 1),
            (&decode, "attention_decode/fwd/b1,h32,kv8,t1000,d64/bf16", 16),
            (&decode, "linear/fwd/m1,n8192,k2048,nt/bf16", 32),
            (&siglip, "conv2d/fwd/n4,c3,m1152,h384,k16,s16,nchw,bias/f32", 1),
            (&siglip, "attention/fwd/b4,h16,s576,d72/f32", 27),
            (&siglip, "linear/fwd/m2304,n4304,k1152,nt/f32", 27),
            (&siglip, "gelu/fwd/n9916416,tanh/f32", 27),
            (&bert, "linear/fwd/m128,n768,k768,nt/f32", 48),
            (&bert, "add_layernorm/fwd/r128,c768/f32", 24),
            (&bert, "gelu/fwd/n393216,erf/f32", 12),
        ] {
            assert_eq!(count(model, problem), want, "{problem} in {:#?}", model.operations);
        }
        let missing = |model: &Model| -> u64 {
            let gap = |op: &&parallax_schema::record::Operation| matches!(op.coverage, Coverage::Missing { .. });
            model.operations.iter().filter(gap).map(|op| op.cost.flops.0 * op.count).sum()
        };
        let all = |model: &Model| -> u64 { model.operations.iter().map(|op| op.cost.flops.0 * op.count).sum() };
        assert_eq!((missing(&prefill), missing(&siglip), missing(&bert)), (0, 0, 0));
        assert!(all(&prefill) > 0);
    }

    #[test]
    fn layers_with_a_window_have_problems_of_their_own() {
        let with = |fields: &str| LLAMA.replacen('{', &format!("{{{fields}, "), 1);
        let windowed = "attention/fwd/b1,h32,kv8,s512,d64,w128,causal/bf16";
        let whole = "attention/fwd/b1,h32,kv8,s512,d64,causal/bf16";
        let types = format!(r#""layer_types": [{}]"#, [r#""sliding_attention", "full_attention""#; 8].join(", "));
        for (fields, counts) in [
            (r#""sliding_window": 128"#.to_owned(), [0, 16]),
            (r#""sliding_window": 128, "use_sliding_window": false"#.to_owned(), [16, 0]),
            (r#""sliding_window": 128, "max_window_layers": 12"#.to_owned(), [12, 4]),
            (format!(r#""sliding_window": 128, {types}"#), [8, 8]),
            (r#""sliding_window": 4096"#.to_owned(), [16, 0]),
            (r#""sliding_window": null"#.to_owned(), [16, 0]),
        ] {
            let model = model(&with(&fields), &[("seq", 512)], Phase::Prefill);
            assert_eq!([whole, windowed].map(|problem| count(&model, problem)), counts, "{fields}");
        }
        let decode = model(&with(r#""sliding_window": 128"#), &[("seq", 1000)], Phase::Decode);
        assert_eq!(count(&decode, "attention_decode/fwd/b1,h32,kv8,t128,d64/bf16"), 16);
    }

    #[test]
    fn operations_of_a_llama_add_up_to_two_for_each_weight_and_token() {
        let prefill = model(LLAMA, &[("seq", 64)], Phase::Prefill);
        let linear = |op: &&parallax_schema::record::Operation| op.kind == "linear" && op.layer.contains("layers");
        let flops: u64 = prefill.operations.iter().filter(linear).map(|op| op.cost.flops.0 * op.count).sum();
        // 16 layers of 2048² for queries and outputs, 2 · 2048 · 512 for keys and values, 3 · 2048 · 8192 for the MLP.
        let weights: u64 = 16 * (2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192);
        assert_eq!(flops, 2 * 64 * weights);
    }

    #[test]
    fn mistakes_in_a_configuration_name_the_field() {
        let error = |config: &str, extents: &[(&str, u64)]| {
            let extents = extents.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
            read(config.as_bytes(), "config", &Options { extents, ..Options::default() }).expect_err(config).to_string()
        };
        for (config, extents, part) in [
            (r#"{"model_type": "mamba"}"#, &[][..], "model type `mamba` is not known"),
            (r#"{"model_type": "llama"}"#, &[], "`hidden_size` is missing"),
            (&LLAMA.replace("16,", "0,"), &[], "`num_hidden_layers` is 0"),
            (&LLAMA.replace("\"num_attention_heads\": 32", "\"num_attention_heads\": 33"), &[], "no multiple"),
            (&LLAMA.replace("2048", "-5"), &[], "invalid value"),
            (&LLAMA.replace("2048", "99999999999"), &[], "`hidden_size` is 99999999999"),
            (
                &LLAMA.replacen('{', r#"{"sliding_window": 9, "layer_types": ["full_attention"], "#, 1),
                &[],
                "1 entries for 16 layers",
            ),
            (LLAMA, &[("frames", 3)], "no dimension is called `frames`"),
            (LLAMA, &[("seq", 0)], "`seq` is 0"),
            (r#"{"model_type": "siglip""#, &[], "EOF"),
        ] {
            let said = error(config, extents);
            assert!(said.contains(part), "{config}: {said}");
        }
    }
}
