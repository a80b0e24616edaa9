// Values multiplied by a function of the gate, in pieces. The definition is in core/workloads/src/ops/mlp_glu.rs.

#import lib/launch
#import lib/pieces{WIDTH}
#import mlp_glu/share

@group(0) @binding(0) var<storage, read> gate: array<stored>;
@group(0) @binding(1) var<storage, read> values: array<stored>;
@group(0) @binding(2) var<storage, read_write> hidden: array<stored>;

@compute @workgroup_size(THREADS)
fn mlp_glu_product(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    if GELU {
        hidden[at] = stored(gelu_tanh(piece(gate[at])) * piece(values[at]));
    } else {
        hidden[at] = stored(gate_silu(piece(gate[at])) * piece(values[at]));
    }
}
