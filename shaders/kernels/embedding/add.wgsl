// Atomic addition to the binding `sums`, whose words are bits of f32.

fn add_to_sums(at: u32, term: f32) {
    var seen = atomicLoad(&sums[at]);
    loop {
        let tried = atomicCompareExchangeWeak(&sums[at], seen, bitcast<u32>(bitcast<f32>(seen) + term));
        if tried.exchanged {
            break;
        }
        seen = tried.old_value;
    }
}
