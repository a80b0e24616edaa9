//! Reduce-scatter: `out[r, i] = Σ x[s, r·m + i]` over all ranks `s`, with `m` elements of the result on each rank `r`.
//!
//! A message is the input of a rank. Training with sharded parameters sums its gradients this way.

use parallax_ir::{Collective, Workload};

use crate::exchange;
use crate::exchange::{Block, Blocks, Exchange};

/// Definition of the workload.
pub fn workload() -> Workload {
    exchange::workload(Exchange {
        about: "every GPU gets its part of the sum over all GPUs",
        collective: Collective::ReduceScatter,
        buffers: |p| exchange::buffers(p, [p["n"], exchange::part(p)], BLOCKS),
        row_cost: |p, _| exchange::row_cost(p, BLOCKS),
        rows: |p, inputs| exchange::rows(p, inputs, BLOCKS),
        host: |p, inputs, outputs| exchange::host(p, inputs, outputs, BLOCKS),
    })
}

const BLOCKS: Blocks = Blocks { length: exchange::part, sources };

/// The part of every rank's input that has the number of the receiving rank.
fn sources(gpus: u64, (rank, _): Block) -> Vec<Block> {
    (0..gpus).map(|from| (from, rank)).collect()
}
