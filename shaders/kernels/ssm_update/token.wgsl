// Bindings of an update of states by one token, and the numbers of a head. See core/workloads/src/ops/ssm_update.rs.

#import lib/pieces{WIDTH}
#import lib/softplus

@group(0) @binding(0) var<storage, read_write> state: array<piece>;
@group(0) @binding(1) var<storage, read> x: array<elem>;
@group(0) @binding(2) var<storage, read> dt: array<elem>;
@group(0) @binding(3) var<storage, read> b: array<stored>;
@group(0) @binding(4) var<storage, read> c: array<stored>;
@group(0) @binding(5) var<storage, read> heads: array<f32>;
#if GATED
@group(0) @binding(6) var<storage, read> z: array<elem>;
@group(0) @binding(7) var<storage, read_write> out: array<elem>;
#else
@group(0) @binding(6) var<storage, read_write> out: array<elem>;
#endif

// Number of rows of all states.
const ALL_ROWS: u32 = SEQUENCES * HEADS * D;

// Step of a head of a sequence.
fn step_of(of_head: u32) -> f32 {
    return softplus(f32(dt[of_head]) + heads[2u * HEADS + of_head % HEADS]);
}

// First piece of B and C of a head of a sequence.
fn first_piece(of_head: u32) -> u32 {
    return (of_head / HEADS * GROUPS + of_head % HEADS / (HEADS / GROUPS)) * PIECES;
}

// Stores the result of a row from its sum.
fn give(row: u32, sum: f32) {
    var result = fma(heads[HEADS + row / D % HEADS], f32(x[row]), sum);
#if GATED
    result *= silu(f32(z[row]));
#endif
    out[row] = elem(result);
}
