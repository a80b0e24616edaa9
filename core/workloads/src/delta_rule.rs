//! Parts of the gated delta rule: inputs of tokens, a step of the recurrence, and bounds of errors.
//!
//! Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024, arXiv 2412.06464), in the order of flash-linear-attention. A head has
//! a state of `dk` rows and `dv` columns. A token has a key `k` of unit length, a value `v`, a decay `α = e^g` and a strength `β`.
//! The state becomes `S ← α · (S − β · k · (kᵀS)) + β · k · vᵀ`. That is `α · S + k · δᵀ` for `δ = β · (v − α · Sᵀk)`. The result is
//! `Sᵀq / √dk`.

use parallax_ir::stress::smallest_normal;
use parallax_ir::{Draw, Problem, Shape, Tolerance};
use parallax_schema::case::DType;

use crate::vector;

/// Most magnitude of the logarithm of a decay by [`decay`].
pub const MOST_DECAY: f64 = 0.5;

/// Element of keys of unit length, for rows of `dk` elements. Pairs of elements are points of a circle; a last one is alone.
pub fn key(shape: &Shape, draw: Draw) -> f64 {
    let rows = shape["dk"];
    let place = draw.index % rows;
    let second = place % 2;
    let alone = second == 0 && place + 1 == rows;
    let pair = draw.of(draw.index - second);
    let sign = if pair.bits() & 1 == 0 { 1.0 } else { -1.0 };
    if alone {
        return sign / (rows as f64).sqrt();
    }
    // Rational points of a half of the circle, which are the same on every platform.
    let t = 2.0 * pair.uniform() - 1.0;
    let point = if second == 0 { 1.0 - t * t } else { 2.0 * t };
    sign * point / (1.0 + t * t) * (2.0 / rows as f64).sqrt()
}

/// Logarithm of a decay: at most zero, with four orders of magnitude among neighbouring heads.
pub fn decay(shape: &Shape, draw: Draw) -> f64 {
    -MOST_DECAY * 0.25f64.powi((draw.index % shape["h"] % 4) as i32) * draw.uniform()
}

/// Strength of a token, from zero to one.
pub fn strength(_: &Shape, draw: Draw) -> f64 {
    draw.uniform()
}

/// Factor of results: the inverse of the square root of `dk`.
pub fn scale(p: &Problem) -> f64 {
    1.0 / (p["dk"] as f64).sqrt()
}

/// Changes some columns of a state by a token. `state` has the columns one after the other.
pub fn take_in(state: &mut [f64], key: &[f64], values: &[f64], decay: f64, strength: f64) {
    let decay = decay.exp();
    for (column, value) in state.chunks_mut(key.len()).zip(values) {
        let known: f64 = column.iter().zip(key).map(|(state, key)| state * key).sum();
        for (state, key) in column.iter_mut().zip(key) {
            *state = decay * (*state - strength * key * known) + strength * key * value;
        }
    }
}

/// Computes the result of each of some columns of a state, by a query.
pub fn read(p: &Problem, state: &[f64], query: &[f64], out: &mut [f64]) {
    for (out, column) in out.iter_mut().zip(state.chunks(query.len())) {
        *out = scale(p) * column.iter().zip(query).map(|(state, query)| state * query).sum::<f64>();
    }
}

/// Changes a state in f32 by a token, and gives the result. The state has its rows one after the other.
pub fn take_in_on_host(state: &mut [f32], token: &HostToken, delta: &mut [f32], out: &mut [f32]) {
    let columns = token.value.len();
    let decay = token.decay.exp();
    delta.fill(0.0);
    for (row, key) in state.chunks_exact(columns).zip(token.key) {
        vector::add(delta, *key, row);
    }
    for (delta, value) in delta.iter_mut().zip(token.value) {
        *delta = token.strength * (value - decay * *delta);
    }
    out.fill(0.0);
    for ((row, key), query) in state.chunks_exact_mut(columns).zip(token.key).zip(token.query) {
        vector::replace(row, |state| state * decay);
        vector::add(row, *key, delta);
        vector::add(out, *query * token.scale, row);
    }
}

/// Inputs of a head's token on the host.
pub struct HostToken<'a> {
    /// Query.
    pub query: &'a [f32],
    /// Key.
    pub key: &'a [f32],
    /// Value.
    pub value: &'a [f32],
    /// Logarithm of the decay.
    pub decay: f32,
    /// Strength.
    pub strength: f32,
    /// Factor of the result.
    pub scale: f32,
}

/// Magnitudes from which errors follow.
#[derive(Clone, Copy)]
pub struct Ranges {
    /// Most deviation of values and of elements of states.
    pub deviation: f64,
    /// Largest magnitude of a chunk's sums of logarithms of decays.
    pub exponents: f64,
}

impl Ranges {
    /// Those of the usual inputs. A state of random keys of unit length keeps less energy than it takes in. Its elements have a
    /// deviation below one.
    pub const USUAL: Ranges = Ranges { deviation: 1.0, exponents: 64.0 * MOST_DECAY };

    /// Bound of the errors of a state's elements after these tokens.
    pub fn of_state(self, p: &Problem, tokens: u64) -> f64 {
        let u = 2f64.powi(-24);
        // An addition to a sum of exponents is off by half a unit in its last place, and six follow each other.
        let of_weight = (64.0 + 4.0 * 12f64.sqrt() * 0.5 * self.exponents) * u;
        // Decays and projections end the effect of a token.
        let lasting = tokens.min(256.max(2 * p["dk"])) as f64;
        // `chunked_mma` rounds states, values, inverses and weights to 16-bit types.
        let of_factors = if p.dtype == DType::F32 || tokens == 1 { 0.0 } else { 16.0 * p.dtype.unit_roundoff() };
        let smallest = 2f64.powi(-126) * 64.0 * (tokens * p["dk"]) as f64;
        self.deviation * (8.0 * (of_weight + (4.0 * lasting + 8.0 * lasting.sqrt()) * u) + of_factors) + smallest
    }

    /// Tolerance of last states.
    pub fn states(self, p: &Problem, tokens: u64) -> Tolerance {
        Tolerance {
            abs: self.of_state(p, tokens),
            rel: 0.0,
            reason: "an exponential of a decay is off by a few units of 2^-24, as often as a token's effect lasts; roundings of either \
                     sign add up by their root; chunks have exponents that are differences of sums; eight deviations bound all. Tensor \
                     cores round states, values, inverses and weights to the element type, each by an error of its own",
        }
    }

    /// Tolerance of results.
    pub fn results(self, p: &Problem, tokens: u64) -> Tolerance {
        // The result of a query of a few elements has one of them as its largest factor.
        let of_query = 1.0 + 3.0 * scale(p);
        Tolerance {
            abs: of_query * self.of_state(p, tokens) + smallest_normal(p),
            rel: 2.0 * p.dtype.unit_roundoff() + 16.0 * 2f64.powi(-24),
            reason: "a result is a sum over a state's column, by a query of about √dk in length, divided by √dk; errors of the elements \
                     are of either sign; the sum in f32 is rounded once to the element type",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn keys_have_unit_length_and_decays_are_at_most_one() {
        for rows in [1, 2, 7, 64] {
            let case = parse_case(&format!("gated_delta/fwd/b1,s3,h5,dk{rows},dv2/f32/naive")).expect("valid");
            let inputs = case.problem.inputs(3);
            let keys = inputs.values(1, ..);
            for row in keys.chunks(rows) {
                let length: f64 = row.iter().map(|x| x * x).sum();
                assert!((length - 1.0).abs() < 1e-6, "{rows}: {length}");
            }
            assert!(inputs.values(3, ..).iter().all(|g| (-MOST_DECAY..=0.0).contains(g)));
        }
    }

    #[test]
    fn a_full_strength_replaces_the_value_of_a_key() {
        let (key, mut state) = ([0.6, 0.8], vec![0.0; 4]);
        take_in(&mut state, &key, &[5.0, -1.0], 0.0, 1.0);
        take_in(&mut state, &key, &[2.0, 3.0], 0.0, 1.0);
        let want = [1.2, 1.6, 1.8, 2.4];
        assert!(state.iter().zip(want).all(|(found, want)| (found - want).abs() < 1e-12), "{state:?}");
        // A halved state, of which half of the key's value is left.
        take_in(&mut state, &key, &[0.0, 0.0], -(2f64.ln()), 0.5);
        assert!(state.iter().zip(want).all(|(found, want)| (found - want / 4.0).abs() < 1e-12), "{state:?}");
    }

    #[test]
    fn host_and_reference_agree() {
        let (mut columns, mut rows, mut delta, mut out) = (vec![0.0; 6], vec![0.0; 6], [0.0; 3], [0.0; 3]);
        for token in 0..4 {
            let key = [0.6, if token % 2 == 0 { 0.8 } else { -0.8 }];
            let value = [1.0, -2.0, 0.5 + f64::from(token)];
            take_in(&mut columns, &key, &value, -0.1, 0.75);
            let (key, value) = (key.map(|x| x as f32), value.map(|x| x as f32));
            let query = [0.5f32, -1.0];
            let token = HostToken { query: &query, key: &key, value: &value, decay: -0.1, strength: 0.75, scale: 2.0 };
            take_in_on_host(&mut rows, &token, &mut delta, &mut out);
        }
        for column in 0..3 {
            let of = &columns[2 * column..][..2];
            assert!((0..2).all(|row| (f64::from(rows[3 * row + column]) - of[row]).abs() < 1e-6));
            assert!((f64::from(out[column]) - (of[0] - 2.0 * of[1])).abs() < 1e-6);
        }
    }
}
