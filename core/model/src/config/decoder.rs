//! Decoders: Llama, Mistral and Qwen.

use crate::config::Pass;
use crate::config::fields::{Fields, Stack, chosen};
use crate::problems::{Attention, Gemm, Second, StandIn, elementwise, embedding, of_rows, rope};
use crate::{ModelError, Options, Phase};
use parallax_schema::case::DType;

/// Adds the operations of a decoder. In the phase `decode`, `seq` is the number of tokens before and with the new one.
pub fn decoder(pass: &mut Pass, fields: &Fields, options: &Options) -> Result<Vec<(&'static str, u64)>, ModelError> {
    let (batch, seq) = (chosen(options, "batch", 1)?, chosen(options, "seq", 512)?);
    let Stack { layers, hidden, inner, heads, kv_heads, head_dim } = fields.stack()?;
    let vocabulary = fields.vocabulary()?;
    let tokens = if options.phase == Phase::Decode { 1 } else { seq };
    let (rows, dtype) = (batch * tokens, pass.dtype);
    let (width, kv_width) = (heads * head_dim, kv_heads * head_dim);
    let family = fields.model_type.as_deref().unwrap_or_default();
    let bias = fields.attention_bias.unwrap_or(family == "qwen2");
    let norm = |rows, columns| of_rows("rmsnorm", rows, columns, dtype, "");
    let (attention, mlp) = ("layers.*.attention", "layers.*.mlp");

    pass.add("embeddings", "embedding", 1, embedding(rows, vocabulary, hidden, dtype))?;
    pass.add(attention, "rmsnorm", layers, norm(rows, hidden))?;
    pass.add(attention, "linear", layers, Gemm::linear(rows, width, hidden, bias).problem(dtype))?;
    pass.add(attention, "linear", 2 * layers, Gemm::linear(rows, kv_width, hidden, bias).problem(dtype))?;
    if family == "qwen3" {
        pass.add(attention, "rmsnorm", layers, norm(rows * heads, head_dim))?;
        pass.add(attention, "rmsnorm", layers, norm(rows * kv_heads, head_dim))?;
    }
    pass.add(attention, "rope", layers, rope(batch, heads, tokens, head_dim, dtype))?;
    pass.add(attention, "rope", layers, rope(batch, kv_heads, tokens, head_dim, dtype))?;
    let [all, windowed, window] = fields.windows(layers)?;
    for (layers, w) in [(all, 0), (windowed, window)] {
        let heads_of = Attention { b: batch, h: heads, kv: kv_heads, s: tokens, t: seq, d: head_dim, w, causal: true };
        if layers > 0 {
            pass.add(attention, "attention", layers, heads_of.problem(dtype, ""))?;
        }
    }
    pass.add(attention, "linear", layers, Gemm::linear(rows, hidden, width, false).problem(dtype))?;
    pass.sum(attention, layers, [rows, hidden], Second::Same)?;
    pass.add(mlp, "rmsnorm", layers, norm(rows, hidden))?;
    pass.add(mlp, "linear", 2 * layers, Gemm::linear(rows, inner, hidden, false).problem(dtype))?;
    match fields.hidden_act.as_deref().unwrap_or("silu") {
        "silu" | "swish" => pass.add(mlp, "gated silu", layers, gated("swiglu", [rows, inner], dtype))?,
        "gelu" | "gelu_new" | "gelu_pytorch_tanh" => {
            pass.add(mlp, "gated gelu", layers, gated("geglu", [rows, inner], dtype))?;
        }
        other => pass.unmatched(mlp, &format!("gated {other}"), layers, rows * inner)?,
    }
    pass.add(mlp, "linear", layers, Gemm::linear(rows, hidden, inner, false).problem(dtype))?;
    pass.sum(mlp, layers, [rows, hidden], Second::Same)?;
    pass.add("head", "rmsnorm", 1, norm(rows, hidden))?;
    // Only the last token of a sequence is followed by another.
    pass.add("head", "linear", 1, Gemm::linear(batch, vocabulary, hidden, false).problem(dtype))?;
    Ok(vec![("batch", batch), ("seq", seq)])
}

/// Gate of an MLP: the activation of one product times the other.
fn gated(op: &str, extents: [u64; 2], dtype: DType) -> StandIn {
    elementwise(op, extents, Second::Same, dtype, "")
}
