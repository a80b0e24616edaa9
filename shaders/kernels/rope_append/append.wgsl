// Copies of rows to their pages: the last stage of `separate`. The definition is in core/workloads/src/ops/rope_append.

#import lib/launch
#import rope_append/place
#import rope_append/row
#if !CODED
#import lib/pieces{WIDTH}
#endif

#if CODED
#if WIDTH == 4
alias moved = vec4<u32>;
#else
alias moved = u32;
#endif
@group(0) @binding(0) var<storage, read> codes: array<moved>;
@group(0) @binding(1) var<storage, read> code_scales: array<f32>;
#else
@group(0) @binding(0) var<storage, read> qkv: array<stored>;
@group(0) @binding(1) var<storage, read> rotated: array<stored>;
#endif
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> lengths: array<u32>;
#if CODED
@group(0) @binding(4) var<storage, read_write> cache: array<moved>;
@group(0) @binding(5) var<storage, read_write> scales: array<f32>;
#else
@group(0) @binding(4) var<storage, read_write> cache: array<stored>;
#endif

@compute @workgroup_size(THREADS)
fn rope_append_append(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= COUNT {
        return;
    }
    // Rows of new tokens: all keys, then all values.
    let i = index % ROW_PIECES;
    let row = index / ROW_PIECES;
    let key_head = row % KEY_HEADS;
    let value = row / (TOKENS * KEY_HEADS);
    let token = row / KEY_HEADS % TOKENS;
    let position = position_of(token);
    if position == PADDING {
        return;
    }
    let to = cache_row(token, position, value, key_head);
#if CODED
    cache[to * ROW_PIECES + i] = codes[index];
    if i == 0u {
        scales[to] = code_scales[row];
    }
#else
    if value == 0u {
        cache[to * ROW_PIECES + i] = rotated[index];
    } else {
        let head = token * TOKEN_HEADS + HEADS + KEY_HEADS + key_head;
        cache[to * ROW_PIECES + i] = qkv[head * ROW_PIECES + i];
    }
#endif
}
