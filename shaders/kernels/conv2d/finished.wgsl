// What becomes of a sum of an output channel: the channel's number is added, from the `bias` of the text that imports this, and
// what is negative becomes zero.

fn finished(channel: u32, sum: f32) -> f32 {
    var value = sum;
#when BIAS     value += f32(bias[channel]);
    if RELU {
        value = max(value, 0.0);
    }
    return value;
}
