//! Send and receive: `out[r, i] = x[r - 1, i]` around a ring of the ranks.
//!
//! Every rank sends to the next and receives from the one before it, at the same time. Pipelines move activations this way.

use parallax_ir::{Collective, Workload};

use crate::exchange;
use crate::exchange::{Block, Blocks, Exchange};

/// Definition of the workload.
pub fn workload() -> Workload {
    exchange::workload(Exchange {
        about: "every GPU sends to the next in a ring",
        collective: Collective::SendRecv,
        buffers: |p| exchange::buffers(p, [p["n"]; 2], BLOCKS),
        row_cost: |p, _| exchange::row_cost(p, BLOCKS),
        rows: |p, inputs| exchange::rows(p, inputs, BLOCKS),
        host: |p, inputs, outputs| exchange::host(p, inputs, outputs, BLOCKS),
    })
}

const BLOCKS: Blocks = Blocks { length: |p| p["n"], sources };

/// The message of the rank before.
fn sources(gpus: u64, (rank, _): Block) -> Vec<Block> {
    vec![((rank + gpus - 1) % gpus, 0)]
}
