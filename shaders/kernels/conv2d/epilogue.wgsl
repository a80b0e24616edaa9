// Epilogue of an output channel: adds the bias, normalises, and applies ReLU. The importing kernel binds `bias`, `mean`,
// `variance`, `gamma` and `beta`.

#import lib/nan

fn epilogue(channel: u32, sum: f32) -> f32 {
    var value = sum;
#if BIAS
    value += f32(bias[channel]);
#endif
#if NORMALISED
    value = (value - mean[channel]) / sqrt(variance[channel] + EPS) * f32(gamma[channel]) + f32(beta[channel]);
#endif
    if RELU {
        value = relu(value);
    }
    return value;
}
