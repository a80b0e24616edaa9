// Epilogue: the sum multiplied by a function of the gate at the same place.

#import lib/pieces1
#import mlp_glu/share

@group(0) @binding(3) var<storage, read> gate: array<elem>;

fn epilogue(at: u32, column: u32, sum: f32) -> f32 {
    return gate_silu(f32(gate[at])) * sum;
}
