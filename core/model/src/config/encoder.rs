//! Encoders: BERT and its relatives over text, ViT and SigLIP over images.

use crate::config::Pass;
use crate::config::fields::{Fields, Stack, chosen};
use crate::problems::{Attention, Conv, Gemm, Second, elementwise, embedding, gelu, of_rows};
use crate::{ModelError, Options};

/// Extents that shaped a pass, by name.
type Extents = Vec<(&'static str, u64)>;

/// Order of normalisation and sum in a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The sum of a block and its input is normalised.
    After,
    /// The input of a block is normalised.
    Before,
}

/// Adds the operations of a text encoder without its head.
pub fn text(pass: &mut Pass, fields: &Fields, options: &Options) -> Result<Extents, ModelError> {
    let (batch, seq) = (chosen(options, "batch", 1)?, chosen(options, "seq", 128)?);
    let (stack, (positions, types)) = (fields.stack()?, fields.positions()?);
    let (rows, hidden) = (batch * seq, stack.hidden);
    for table in [fields.vocabulary()?, positions, types] {
        pass.add("embeddings", "embedding", 1, embedding(rows, table, hidden, pass.dtype))?;
    }
    // Words, positions and types.
    pass.sum("embeddings", 2, [rows, hidden], Second::Same)?;
    pass.add("embeddings", "layernorm", 1, of_rows("layernorm", rows, hidden, pass.dtype, ""))?;
    layers(pass, fields, stack, (batch, seq), Order::After)?;
    Ok(vec![("batch", batch), ("seq", seq)])
}

/// Adds the operations of an image encoder without its head.
pub fn vision(pass: &mut Pass, fields: &Fields, options: &Options) -> Result<Extents, ModelError> {
    let batch = chosen(options, "batch", 1)?;
    let (stack, [image, patch, channels]) = (fields.stack()?, fields.image()?);
    let family = fields.model_type.as_deref().unwrap_or_default();
    // SigLIP has no token of the class.
    let class = u64::from(!family.starts_with("siglip"));
    let seq = (image / patch).pow(2) + class;
    let (rows, hidden) = (batch * seq, stack.hidden);
    let patches = Conv {
        images: batch,
        channels,
        filters: hidden,
        input: vec![image; 2],
        kernel: vec![patch; 2],
        strides: vec![patch; 2],
        dilations: vec![1; 2],
        pads: vec![(0, 0); 2],
        groups: 1,
        bias: true,
        relu: false,
        channels_last: false,
    };
    pass.add("embeddings", "conv2d", 1, patches.problem(pass.dtype))?;
    pass.sum("embeddings", 1, [batch, seq * hidden], Second::Row)?;
    layers(pass, fields, stack, (batch, seq), Order::Before)?;
    pass.add("", "layernorm", 1, of_rows("layernorm", rows, hidden, pass.dtype, ""))?;
    Ok(vec![("batch", batch)])
}

fn layers(
    pass: &mut Pass,
    fields: &Fields,
    stack: Stack,
    (batch, seq): (u64, u64),
    order: Order,
) -> Result<(), ModelError> {
    let Stack { layers, hidden, inner, heads, head_dim, .. } = stack;
    let (rows, width, dtype) = (batch * seq, heads * head_dim, pass.dtype);
    let (attention, mlp) = ("layers.*.attention", "layers.*.mlp");
    if order == Order::Before {
        pass.add(attention, "layernorm", layers, of_rows("layernorm", rows, hidden, dtype, ""))?;
    }
    pass.add(attention, "linear", 3 * layers, Gemm::linear(rows, width, hidden, true).problem(dtype))?;
    let heads = Attention { b: batch, h: heads, kv: heads, s: seq, t: seq, d: head_dim, w: 0, causal: false };
    pass.add(attention, "attention", layers, heads.problem(dtype, "no token is padding"))?;
    pass.add(attention, "linear", layers, Gemm::linear(rows, hidden, width, true).problem(dtype))?;
    let both = "the sum of block and input, with the normalisation after it";
    pass.add(mlp, "add_layernorm", layers, of_rows("add_layernorm", rows, hidden, dtype, both))?;
    pass.add(mlp, "linear", layers, Gemm::linear(rows, inner, hidden, true).problem(dtype))?;
    match fields.hidden_act.as_deref().unwrap_or("gelu") {
        "gelu" => pass.add(mlp, "gelu", layers, gelu(rows * inner, "erf", dtype, ""))?,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => {
            pass.add(mlp, "gelu", layers, gelu(rows * inner, "tanh", dtype, ""))?;
        }
        known @ ("relu" | "silu" | "tanh") => {
            pass.add(mlp, known, layers, elementwise(known, [rows, inner], Second::Same, dtype, ""))?;
        }
        other => pass.unmatched(mlp, &format!("activation {other}"), layers, rows * inner)?,
    }
    pass.add(mlp, "linear", layers, Gemm::linear(rows, hidden, inner, true).problem(dtype))?;
    match order {
        Order::After => pass.add(mlp, "add_layernorm", layers, of_rows("add_layernorm", rows, hidden, dtype, both)),
        // The next layer begins with the normalisation.
        Order::Before => pass.sum(mlp, layers, [rows, hidden], Second::Same),
    }
}
