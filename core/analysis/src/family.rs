//! Six families of workloads, for tables and plots without room for all workloads.

use parallax_schema::case::workload_of;

/// Family of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Attention, state-space models, and blocks of transformers around them.
    Attention,
    /// GEMMs and layers that consist of one.
    Products,
    /// Convolutions and pooling.
    Convolutions,
    /// Normalisation, softmax and other work on rows.
    Rows,
    /// Copies, tables, sorting and exchanges between GPUs, dominated by data movement.
    Memory,
    /// Losses, optimizers and whole training steps.
    Training,
}

impl Family {
    /// All families, in the order of tables.
    pub const ALL: [Family; 6] =
        [Family::Attention, Family::Products, Family::Convolutions, Family::Rows, Family::Memory, Family::Training];

    /// Returns the family of a case, problem or workload by its string. An unknown workload belongs to [`Family::Memory`].
    pub fn of(case: &str) -> Family {
        match workload_of(case) {
            "attention" | "attention_block" | "attention_decode" | "encoder" | "encoder_layer" | "gated_delta"
            | "gated_delta_update" | "rope" | "rope_append" | "ssm_scan" | "ssm_update" => Family::Attention,
            "fma" | "grouped_matmul" | "linear" | "matmul" | "matmul_f8" | "matmul_i8" | "matmul_q4" | "matmul_q8"
            | "mlp_gelu" | "mlp_glu" => Family::Products,
            "causal_conv1d" | "conv2d" | "conv3d" | "conv_block" | "deform_conv2d" | "depthwise_conv2d"
            | "depthwise_conv3d" | "nms" | "pool" | "resize" | "roi_align" | "separable_conv3d" => Family::Convolutions,
            "add_layernorm" | "elementwise" | "fft" | "gelu" | "hadamard" | "layernorm" | "quantize" | "reduce"
            | "rmsnorm" | "sample" | "scan" | "softmax" | "softmax_v" | "standard_scaler" | "top_k" => Family::Rows,
            "adamw"
            | "cross_entropy"
            | "dropout"
            | "linear_cross_entropy"
            | "loss_sigmoid"
            | "loss_smape"
            | "train_step" => Family::Training,
            _ => Family::Memory,
        }
    }

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Family::Attention => "attention",
            Family::Products => "matrix products",
            Family::Convolutions => "convolutions",
            Family::Rows => "norms, softmax, rows",
            Family::Memory => "memory and tables",
            Family::Training => "training",
        }
    }

    /// Name in paths and attributes of pages.
    pub fn key(self) -> &'static str {
        match self {
            Family::Attention => "attention",
            Family::Products => "products",
            Family::Convolutions => "convolutions",
            Family::Rows => "rows",
            Family::Memory => "memory",
            Family::Training => "training",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::all;

    #[test]
    fn every_workload_has_its_family() {
        let memory: Vec<&str> =
            all().iter().map(|workload| workload.name).filter(|name| Family::of(name) == Family::Memory).collect();
        let want = [
            "all_gather",
            "all_reduce",
            "all_to_all",
            "broadcast",
            "copy",
            "embedding",
            "embedding_bag",
            "embedding_select",
            "hash_embedding",
            "link",
            "moe_route",
            "prefetch",
            "read",
            "reduce_scatter",
            "send_recv",
            "sort_by_key",
            "transfer",
            "transpose",
            "upload_compute",
        ];
        assert_eq!(memory, want, "a new workload is put into a family");
        assert_eq!(Family::of("attention/fwd/b1,h8,s512,d64/f16/flash"), Family::Attention);
        assert!(Family::ALL.iter().all(|family| all().iter().any(|workload| Family::of(workload.name) == *family)));
    }
}
