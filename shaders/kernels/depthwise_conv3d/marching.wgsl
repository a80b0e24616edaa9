// Depthwise convolution by threads that march along the slowest axis: against `direct` and `tiled`, an element of the image is
// read from device memory once, in pieces, and there are no barriers.
//
// Each slice of the image is added to the results that it has a part in, IN_FLIGHT of them: what a thread keeps is results in
// the making. The oldest is complete after each step and is written. With FLIP taps are taken in reverse, as the gradient of
// the image asks for.

#import depthwise_conv3d/walk
#import lib/launch

#when BIASED @group(0) @binding(3) var<storage, read> bias: array<elem>;

@compute @workgroup_size(THREADS)
fn depthwise_marching(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Neighbouring threads have neighbouring memory: channels first where these are last, and columns otherwise.
    let item = flat_group(group, groups) * THREADS + lane;
    var walk = walk_of(item / CHANNELS, item % CHANNELS);
    if !CHANNELS_LAST {
        walk.c = walk.n % C;
        walk.n /= C;
    }
    if walk.n >= N {
        return;
    }
    var taps = array<value, KD * KH * KW>();
    for (var tap = 0u; tap < KD * KH * KW; tap++) {
        taps[tap] = tap_value(walk.c, tap);
    }
    var sums = array<array<array<value, ALONG>, DOWN>, IN_FLIGHT>();
    let end = min(walk.z + STRIP, OD);
    for (var step = walk.z; step < end + IN_FLIGHT - 1u; step++) {
        for (var r = 0u; r < SD; r++) {
            let z = step * SD + r - PD;
            for (var row = 0u; row < WINDOW_ROWS; row++) {
                let window = window_of(walk, z, row);
                for (var i = 0u; i < KD; i++) {
                    // Tap i of this slice belongs to the result that began so many steps ago.
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
                            let number = (i * KH + j) * KW + k;
                            let tap = select(number, KD * KH * KW - 1u - number, FLIP);
                            for (var along = 0u; along < ALONG; along++) {
                                sums[ago][down][along] += window[along * SW + k * LW] * taps[tap];
                            }
                        }
                    }
                }
            }
        }
        let z = step - (IN_FLIGHT - 1u);
        if step >= walk.z + IN_FLIGHT - 1u {
            for (var down = 0u; down < DOWN; down++) {
                if walk.y + down < OH {
                    write_row(walk, z, walk.y + down, sums[IN_FLIGHT - 1u][down]);
                }
            }
        }
        for (var ago = IN_FLIGHT - 1u; ago > 0u; ago--) {
            sums[ago] = sums[ago - 1u];
        }
        sums[0] = array<array<value, ALONG>, DOWN>();
    }
}

fn finished(sum: value, c: u32) -> value {
    var result = sum;
#when BIASED     result += bias_value(c);
    if RELU {
        result = max(result, value());
    }
    return result;
}
