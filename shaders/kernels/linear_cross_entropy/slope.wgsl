// Gradient of a logit of a row, from the row's log-sum-exp, target and gradient of its loss.

fn slope_of(column: u32, chosen: u32, logit: f32, lse_of_row: f32, dloss_of_row: f32) -> f32 {
    if chosen >= CLASSES {
        return 0.0;
    }
    return (exp(logit - lse_of_row) - select(0.0, 1.0, column == chosen)) * dloss_of_row;
}
