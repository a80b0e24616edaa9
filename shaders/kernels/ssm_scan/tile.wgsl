// Tiles of 64 x 64 results with DEPTH products each at a time.
//
// Both factors lie in workgroup memory as vectors of four neighbouring rows or columns, one index of the depth after the other. Of 128
// threads, each has four columns of the result, and eight rows: four of the upper half and four of the lower.

const QUADS: u32 = 16u;
// One vector more between indices of the depth, against bank conflicts of transposed stores.
const STRIDE: u32 = QUADS + 1u;
const VECTORS: u32 = DEPTH * QUADS;

var<workgroup> left: array<vec4<f32>, DEPTH * STRIDE>;
var<workgroup> right: array<vec4<f32>, DEPTH * STRIDE>;

// Declares the factors of a thread for one index of the depth.
#block factors(K)
    let columns = right[K * STRIDE + thread % QUADS];
    let upper = left[K * STRIDE + thread / QUADS];
    let lower = left[K * STRIDE + thread / QUADS + 8u];
#end

// Adds the products of the lower rows.
#block add_lower(COLUMNS)
    sums[4] += lower.x * COLUMNS;
    sums[5] += lower.y * COLUMNS;
    sums[6] += lower.z * COLUMNS;
    sums[7] += lower.w * COLUMNS;
#end

// Adds the products of one index of the depth to the sums of all eight rows.
#block add_products(K)
    #emit factors(K)
    sums[0] += upper.x * columns;
    sums[1] += upper.y * columns;
    sums[2] += upper.z * columns;
    sums[3] += upper.w * columns;
    #emit add_lower(columns)
#end

// Row of a thread's sum.
fn row_of(thread: u32, sum: u32) -> u32 {
    return thread / QUADS * 4u + sum / 4u * 32u + sum % 4u;
}
