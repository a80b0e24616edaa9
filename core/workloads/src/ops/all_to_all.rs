//! All-to-all: `out[r, s·m + i] = x[s, r·m + i]`, with `m = n / gpus`: the transpose of a matrix of parts.
//!
//! Layers of experts move their tokens this way.

use parallax_ir::{Collective, Workload};

use crate::exchange;
use crate::exchange::{Block, Blocks, Exchange};

/// Definition of the workload.
pub fn workload() -> Workload {
    exchange::workload(Exchange {
        about: "every GPU sends a part to each GPU",
        collective: Collective::AllToAll,
        buffers: |p| exchange::buffers(p, [p["n"]; 2], BLOCKS),
        row_cost: |p, _| exchange::row_cost(p, BLOCKS),
        rows: |p, inputs| exchange::rows(p, inputs, BLOCKS),
        host: |p, inputs, outputs| exchange::host(p, inputs, outputs, BLOCKS),
    })
}

const BLOCKS: Blocks = Blocks { length: exchange::part, sources };

/// Part `s` of the result on rank `r` is part `r` of rank `s`.
fn sources(_: u64, (rank, part): Block) -> Vec<Block> {
    vec![(part, rank)]
}
