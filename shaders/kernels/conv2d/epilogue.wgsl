// What becomes of a sum of an output channel: the channel's number is added, from the `bias` of the text that imports this; it is
// normalised, with that text's `mean`, `variance`, `gamma` and `beta`; and what is negative becomes zero.

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
