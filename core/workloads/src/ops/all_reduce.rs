//! All-reduce: `out[r, i] = Σ x[s, i]` over all ranks `s`, on every rank `r`.
//!
//! Data-parallel training sums its gradients this way. A rank sends and receives at least `2 (gpus - 1) / gpus` of a message.

use parallax_ir::{Collective, Workload};

use crate::exchange;
use crate::exchange::{Block, Blocks, Exchange};

/// Definition of the workload.
pub fn workload() -> Workload {
    exchange::workload(Exchange {
        about: "every GPU gets the sum over all GPUs",
        collective: Collective::AllReduce,
        buffers: |p| exchange::buffers(p, [p["n"]; 2], BLOCKS),
        row_cost: |p, _| exchange::row_cost(p, BLOCKS),
        rows: |p, inputs| exchange::rows(p, inputs, BLOCKS),
        host: |p, inputs, outputs| exchange::host(p, inputs, outputs, BLOCKS),
    })
}

const BLOCKS: Blocks = Blocks { length: |p| p["n"], sources };

/// Every rank's whole message.
fn sources(gpus: u64, _: Block) -> Vec<Block> {
    (0..gpus).map(|rank| (rank, 0)).collect()
}
