//! Broadcast: `out[r, i] = x[0, i]`, the data of rank zero, on every rank `r`.
//!
//! The other ranks have data of their own, which must not arrive anywhere.

use parallax_ir::{Collective, Workload};

use crate::exchange;
use crate::exchange::{Block, Blocks, Exchange};

/// Definition of the workload.
pub fn workload() -> Workload {
    exchange::workload(Exchange {
        about: "every GPU gets the data of the first",
        collective: Collective::Broadcast,
        buffers: |p| exchange::buffers(p, [p["n"]; 2], BLOCKS),
        row_cost: |p, _| exchange::row_cost(p, BLOCKS),
        rows: |p, inputs| exchange::rows(p, inputs, BLOCKS),
        host: |p, inputs, outputs| exchange::host(p, inputs, outputs, BLOCKS),
    })
}

const BLOCKS: Blocks = Blocks { length: |p| p["n"], sources };

/// The message of rank zero.
fn sources(_: u64, _: Block) -> Vec<Block> {
    vec![(0, 0)]
}
