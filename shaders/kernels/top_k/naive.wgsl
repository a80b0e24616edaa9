// The K largest of each row, by a workgroup: a scan of the row for each of them finds the next one in order. The definition is in
// core/workloads/src/ops/top_k.rs.

#import lib/launch
#import top_k/keys

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> values: array<elem>;
@group(0) @binding(2) var<storage, read_write> indices: array<u32>;

var<workgroup> keys: array<u32, THREADS>;
var<workgroup> places: array<u32, THREADS>;

fn comes_first(key: u32, place: u32, other_key: u32, other_place: u32) -> bool {
    return key > other_key || (key == other_key && place < other_place);
}

@compute @workgroup_size(THREADS)
fn top_k_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    var last_key = 0xffffffffu;
    var last_place = 0u;
    for (var rank = 0u; rank < K; rank++) {
        var key = 0u;
        var place = 0xffffffffu;
        for (var at = thread; at < COLUMNS; at += THREADS) {
            let other = key_of(f32(x[row * COLUMNS + at]));
            let later = rank == 0u || comes_first(last_key, last_place, other, at);
            if later && comes_first(other, at, key, place) {
                key = other;
                place = at;
            }
        }
        keys[thread] = key;
        places[thread] = place;
        workgroupBarrier();
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            if thread < half {
                let other = thread + half;
                if comes_first(keys[other], places[other], keys[thread], places[thread]) {
                    keys[thread] = keys[other];
                    places[thread] = places[other];
                }
            }
            workgroupBarrier();
        }
        last_key = keys[0];
        last_place = places[0];
        workgroupBarrier();
        if thread == 0u {
            values[row * K + rank] = x[row * COLUMNS + last_place];
            indices[row * K + rank] = last_place;
        }
    }
}
