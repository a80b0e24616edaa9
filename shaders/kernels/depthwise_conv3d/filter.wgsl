// Gradient of the filters of a depthwise convolution, in parts: image and gradient are read once for all taps, in pieces.
//
// A thread walks along strips as in `marching`, with the gradients of IN_FLIGHT results and a sum per tap. A workgroup has BESIDE
// channels. PARTS workgroups share the strips of the same channels, and each stores a part. With BIASED the gradients themselves
// are summed too.

#import depthwise_conv3d/walk
#import lib/launch

@group(0) @binding(2) var<storage, read_write> parts: array<f32>;

var<workgroup> of_threads: array<value, THREADS>;

// Sum over the threads of the same channel, for the first of them. All threads must call.
fn over_walkers(lane: u32, mine: value) -> value {
    of_threads[lane] = mine;
    workgroupBarrier();
    for (var half = THREADS / 2u; half >= BESIDE; half /= 2u) {
        if lane < half {
            of_threads[lane] += of_threads[lane + half];
        }
        workgroupBarrier();
    }
    let sum = of_threads[lane];
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(THREADS)
fn depthwise_filter(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    let part = flat / GROUPS;
    if part >= PARTS {
        return;
    }
    // Where channels are not last, a group is one channel.
    let c = flat % GROUPS * BESIDE + lane % BESIDE;
    var sums = array<value, KD * KH * KW>();
    var of_bias = value();
    var number = part * (THREADS / BESIDE) + lane / BESIDE;
    if CHANNELS_LAST && c >= CHANNELS {
        number = WALKS;
    }
    for (; number < WALKS; number += PARTS * (THREADS / BESIDE)) {
        let walk = walk_of(number, c);
        var gradients = array<array<array<value, ALONG>, DOWN>, IN_FLIGHT>();
        let end = min(walk.z + STRIP, OD);
        for (var step = walk.z; step < end + IN_FLIGHT - 1u; step++) {
            for (var ago = IN_FLIGHT - 1u; ago > 0u; ago--) {
                gradients[ago] = gradients[ago - 1u];
            }
            for (var down = 0u; down < DOWN; down++) {
                gradients[0][down] = array<value, ALONG>();
                if step < end && walk.y + down < OH {
                    gradients[0][down] = gradients_of(walk, step, walk.y + down);
                }
                if BIASED {
                    for (var along = 0u; along < ALONG; along++) {
                        of_bias += gradients[0][down][along];
                    }
                }
            }
            for (var r = 0u; r < SD; r++) {
                let z = step * SD + r - PD;
                for (var row = 0u; row < WINDOW_ROWS; row++) {
                    let window = window_of(walk, z, row);
                    for (var i = 0u; i < KD; i++) {
                        // Tap i of this slice belongs to the result that began this number of steps ago.
                        let ago = i * LD / SD;
                        if i * LD % SD != r {
                            continue;
                        }
                        for (var j = 0u; j < KH; j++) {
                            let down = (row - j * LH) / SH;
                            if row < j * LH || (row - j * LH) % SH != 0u || down >= DOWN {
                                continue;
                            }
                            for (var k = 0u; k < KW; k++) {
                                for (var along = 0u; along < ALONG; along++) {
                                    let gradient = gradients[ago][down][along];
                                    sums[(i * KH + j) * KW + k] += gradient * window[along * SW + k * LW];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    let mine = lane < BESIDE && (!CHANNELS_LAST || c < CHANNELS);
    for (var tap = 0u; tap < KD * KH * KW; tap++) {
        let sum = over_walkers(lane, sums[tap]);
        if mine {
            store_sum(part * PART_COLUMNS, c, tap, sum);
        }
    }
    if BIASED {
        let sum = over_walkers(lane, of_bias);
        if mine {
            store_bias(part * PART_COLUMNS + C * KD * KH * KW, c, sum);
        }
    }
}
