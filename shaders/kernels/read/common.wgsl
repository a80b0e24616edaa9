// Parts of the variants of read: widening a vector of 16 bytes, the end of the array, and the sum of a workgroup.

@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, THREADS>;

// Four numbers with the sum of a vector's elements: its elements, or the sums of pairs of halves.
fn widened(vector: vec4<u32>) -> vec4<f32> {
    if PER_VECTOR == 8u {
        let first = vec4<f32>(unpack2x16float(vector.x), unpack2x16float(vector.y));
        return first + vec4<f32>(unpack2x16float(vector.z), unpack2x16float(vector.w));
    }
    return bitcast<vec4<f32>>(vector);
}

// A vector that may reach past the last element, with zeros there.
fn last_vector(index: u32) -> vec4<f32> {
    if index >= VECTORS {
        return vec4<f32>();
    }
    var vector = x[index];
    for (var word = 0u; word < 4u; word++) {
        let element = index * PER_VECTOR + word * (PER_VECTOR / 4u);
        if element >= N {
            vector[word] = 0u;
        } else if PER_VECTOR == 8u && element + 1u >= N {
            vector[word] &= 0xffffu;
        }
    }
    return widened(vector);
}

// Stores the sum of all threads' numbers.
fn write_sum(chunk: u32, lane: u32, mine: vec4<f32>) {
    partial[lane] = (mine.x + mine.y) + (mine.z + mine.w);
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            partial[lane] += partial[lane + half];
        }
    }
    if lane == 0u {
        out[chunk] = partial[0];
    }
}
