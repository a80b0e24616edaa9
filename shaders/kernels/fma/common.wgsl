// Bindings of the variants of fma. The constants come from core/workloads/src/ops/fma.rs.

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read> b: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// Sixteen rounds, unrolled, so that the cost of the loop is negligible.
#block sixteen(TYPE)
fn sixteen(acc: TYPE, factor: TYPE, term: TYPE) -> TYPE {
    var x = fma(acc, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    x = fma(x, factor, term);
    return x;
}
#end
