// GELU and its slope, of a piece.
//
// Beyond 16 of either sign the function is x or zero in f32. Arguments of powers and exponentials are clamped to that, so that
// nothing overflows.

const FAR: f32 = 16.0;
// sqrt(2/pi), and the coefficient of the cube.
const SLOPE: f32 = 0.7978845608;
const CUBE: f32 = 0.044715;

// (1 + tanh(u)) / 2 for u = SLOPE (x + CUBE x^3): a logistic function, without cancellation.
fn tanh_share(x: piece) -> piece {
    let doubled = (2.0 * SLOPE) * x * (piece(1.0) + CUBE * x * x);
    return piece(1.0) / (piece(1.0) + exp(min(-doubled, piece(80.0))));
}

// Normal distribution function by formula 7.1.26 of Abramowitz and Stegun, with an error of at most 7.5e-8.
fn normal_share(x: piece) -> piece {
    let z = abs(x) * 0.7071067812;
    let t = piece(1.0) / (piece(1.0) + 0.3275911 * z);
    let inner = piece(1.421413741) + t * (piece(-1.453152027) + t * 1.061405429);
    let tail = 0.5 * t * (piece(0.254829592) + t * (piece(-0.284496736) + t * inner)) * exp(-z * z);
    return select(piece(1.0) - tail, tail, x < piece(0.0));
}

fn gelu_tanh(x: piece) -> piece {
    let value = larger(x, piece(-FAR));
    return value * tanh_share(min(value, piece(FAR)));
}

fn gelu_erf(x: piece) -> piece {
    let value = larger(x, piece(-FAR));
    return value * normal_share(min(value, piece(FAR)));
}

fn slope_tanh(x: piece) -> piece {
    let near = select(clamp(x, piece(-FAR), piece(FAR)), x, nan_in(x));
    let share = tanh_share(near);
    let inner = (2.0 * SLOPE) * (piece(1.0) + (3.0 * CUBE) * near * near);
    return share + near * share * (piece(1.0) - share) * inner;
}

fn slope_erf(x: piece) -> piece {
    let near = select(clamp(x, piece(-FAR), piece(FAR)), x, nan_in(x));
    return normal_share(near) + near * 0.3989422804 * exp(-0.5 * near * near);
}
