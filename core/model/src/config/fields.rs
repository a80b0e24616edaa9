//! Fields of a configuration.

use parallax_schema::case::DType;
use serde::Deserialize;

use crate::{ModelError, Options};

/// Largest width, length or count of a configuration.
const MOST: u64 = 1 << 24;
/// Largest number of layers.
const MOST_LAYERS: u64 = 10_000;

/// Fields that families share. All are optional in the file.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Fields {
    pub model_type: Option<String>,
    pub vision_config: Option<Box<Fields>>,
    hidden_size: Option<u64>,
    intermediate_size: Option<u64>,
    num_hidden_layers: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    vocab_size: Option<u64>,
    max_position_embeddings: Option<u64>,
    type_vocab_size: Option<u64>,
    image_size: Option<u64>,
    patch_size: Option<u64>,
    num_channels: Option<u64>,
    sliding_window: Option<u64>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<u64>,
    layer_types: Option<Vec<String>>,
    pub hidden_act: Option<String>,
    pub attention_bias: Option<bool>,
    #[serde(alias = "dtype")]
    torch_dtype: Option<String>,
}

/// Widths and counts of a stack of layers.
#[derive(Debug, Clone, Copy)]
pub struct Stack {
    pub layers: u64,
    pub hidden: u64,
    pub inner: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
}

impl Fields {
    /// Returns the configuration whose operations are listed: of the vision tower, where the file has one.
    pub fn of_model(self) -> Fields {
        let outer = self.model_type.clone();
        match self.vision_config {
            None => self,
            Some(mut vision) => {
                let family = outer.map(|outer| format!("{outer}_vision_model"));
                vision.model_type = vision.model_type.take().or(family);
                *vision
            }
        }
    }

    /// Element type of the weights; f32 where the file has none or an unknown one.
    pub fn element_type(&self) -> DType {
        match self.torch_dtype.as_deref() {
            Some("float16") => DType::F16,
            Some("bfloat16") => DType::BF16,
            _ => DType::F32,
        }
    }

    /// Returns the stack of layers.
    pub fn stack(&self) -> Result<Stack, ModelError> {
        let hidden = within("hidden_size", self.hidden_size, None, MOST)?;
        let layers = within("num_hidden_layers", self.num_hidden_layers, None, MOST_LAYERS)?;
        let inner = within("intermediate_size", self.intermediate_size, Some(4 * hidden), MOST)?;
        let heads = within("num_attention_heads", self.num_attention_heads, None, hidden)?;
        let kv_heads = within("num_key_value_heads", self.num_key_value_heads, Some(heads), heads)?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(field("num_attention_heads", format!("is {heads}, no multiple of {kv_heads} key-value heads")));
        }
        if self.head_dim.is_none() && !hidden.is_multiple_of(heads) {
            return Err(field("hidden_size", format!("is {hidden}, no multiple of {heads} heads")));
        }
        let head_dim = within("head_dim", self.head_dim, Some(hidden / heads), MOST)?;
        Ok(Stack { layers, hidden, inner, heads, kv_heads, head_dim })
    }

    /// Numbers of layers whose queries see all keys before them, and of those that see a window; keys of the window.
    pub fn windows(&self, layers: u64) -> Result<[u64; 3], ModelError> {
        let Some(window) = self.sliding_window.filter(|_| self.use_sliding_window != Some(false)) else {
            return Ok([layers, 0, 0]);
        };
        let window = within("sliding_window", Some(window), None, MOST)?;
        let windowed = match &self.layer_types {
            Some(types) if types.len() as u64 == layers => {
                types.iter().filter(|of| *of == "sliding_attention").count() as u64
            }
            Some(types) => {
                return Err(field("layer_types", format!("has {} entries for {layers} layers", types.len())));
            }
            // As the files of Qwen 2 say, the layers from this one on.
            None => layers.saturating_sub(self.max_window_layers.unwrap_or(0)),
        };
        Ok([layers - windowed, windowed, window])
    }

    /// Number of token embeddings.
    pub fn vocabulary(&self) -> Result<u64, ModelError> {
        within("vocab_size", self.vocab_size, None, MOST)
    }

    /// Number of position embeddings, and of token types.
    pub fn positions(&self) -> Result<(u64, u64), ModelError> {
        let positions = within("max_position_embeddings", self.max_position_embeddings, Some(512), MOST)?;
        Ok((positions, within("type_vocab_size", self.type_vocab_size, Some(2), MOST)?))
    }

    /// Image edge, patch edge and channels.
    pub fn image(&self) -> Result<[u64; 3], ModelError> {
        let image = within("image_size", self.image_size, Some(224), MOST)?;
        let patch = within("patch_size", self.patch_size, Some(16), image)?;
        Ok([image, patch, within("num_channels", self.num_channels, Some(3), MOST)?])
    }
}

/// Returns an extent that the caller chose, or the default.
pub fn chosen(options: &Options, name: &'static str, default: u64) -> Result<u64, ModelError> {
    within(name, Some(options.extent(name, default)), None, MOST)
}

fn within(name: &str, value: Option<u64>, default: Option<u64>, most: u64) -> Result<u64, ModelError> {
    match value.or(default) {
        None => Err(field(name, "is missing".to_owned())),
        Some(value) if value == 0 || value > most => Err(field(name, format!("is {value}; it can be 1 to {most}"))),
        Some(value) => Ok(value),
    }
}

fn field(name: &str, problem: String) -> ModelError {
    ModelError::Field { field: name.to_owned(), problem }
}
