//! All-gather: `out[r, s·m + i] = x[s, i]` of all ranks `s`, on every rank `r`, with `m` elements on a rank.
//!
//! A message is the result. Training with sharded parameters collects them this way before each layer.

use parallax_ir::{Collective, Workload};

use crate::exchange;
use crate::exchange::{Block, Blocks, Exchange};

/// Definition of the workload.
pub fn workload() -> Workload {
    exchange::workload(Exchange {
        about: "every GPU gets the parts of all GPUs",
        collective: Collective::AllGather,
        buffers: |p| exchange::buffers(p, [exchange::part(p), p["n"]], BLOCKS),
        row_cost: |p, _| exchange::row_cost(p, BLOCKS),
        rows: |p, inputs| exchange::rows(p, inputs, BLOCKS),
        host: |p, inputs, outputs| exchange::host(p, inputs, outputs, BLOCKS),
    })
}

const BLOCKS: Blocks = Blocks { length: exchange::part, sources };

/// Part `s` of the result is the input of rank `s`.
fn sources(_: u64, (_, part): Block) -> Vec<Block> {
    vec![(part, 0)]
}
