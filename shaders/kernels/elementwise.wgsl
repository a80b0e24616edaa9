// Element-wise operations, in pieces. The definition is in core/workloads/src/ops/elementwise.rs.
//
// Beyond 80 of either sign a logistic function is zero or one in f32. Arguments of exponentials are clamped to that, so that nothing
// overflows.

#import gelu/share
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> a: array<stored>;
// Bindings of operations with two operands.
@group(0) @binding(1) var<storage, read> b: array<stored>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;
// Binding of operations with one operand.
@group(0) @binding(1) var<storage, read_write> result: array<stored>;

// Logistic function. A NaN may be lost: callers multiply by their argument or restore it.
fn logistic(x: piece) -> piece {
    return piece(1.0) / (piece(1.0) + exp(clamp(-x, piece(-80.0), piece(80.0))));
}

// silu. Below -80 the function is zero in f32.
fn silu(x: piece) -> piece {
    return larger(x, piece(-80.0)) * logistic(x);
}

fn keep_nan(x: piece, value: piece) -> piece {
    return select(value, x, nan_in(x));
}

fn of_two(x: piece, y: piece) -> piece {
    if OP == 0u {
        return x + y;
    }
    if OP == 1u {
        return x - y;
    }
    if OP == 2u {
        return x * y;
    }
    if OP == 3u {
        return x / y;
    }
    if OP == 4u {
        return silu(x) * y;
    }
    return gelu_tanh(x) * y;
}

fn of_one(x: piece) -> piece {
    if OP == 6u {
        return piece_relu(x);
    }
    if OP == 7u {
        return silu(x);
    }
    if OP == 8u {
        return keep_nan(x, logistic(x));
    }
    if OP == 9u {
        return keep_nan(x, 2.0 * logistic(2.0 * x) - piece(1.0));
    }
    return x * clamp(x + piece(3.0), piece(0.0), piece(6.0)) * (1.0 / 6.0);
}

@compute @workgroup_size(THREADS)
fn elementwise_binary(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    var other = at;
    if ROW {
        other = at % COLUMNS;
    }
    if COLUMN {
        other = at / COLUMNS;
    }
    out[at] = stored(of_two(piece(a[at]), piece(b[other])));
}

@compute @workgroup_size(THREADS)
fn elementwise_unary(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    result[at] = stored(of_one(piece(a[at])));
}
