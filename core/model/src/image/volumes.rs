//! Seeded volumes: a solid body of one of four shapes, in noise.

use parallax_ir::{Draw, splitmix64};

use crate::examples::Rows;

/// Voxels along each side.
pub const SIDE: usize = 8;
/// Shapes of the bodies: the classes.
pub const SHAPES: [&str; 4] = ["cube", "cylinder", "octahedron", "sphere"];
/// Standard deviation of the noise; a body is one.
const NOISE: f64 = 0.25;

/// Returns `count` volumes, `[SIDE, SIDE, SIDE]` each, with the shape of each.
///
/// Body and noise depend on `seed` and the volume's position alone. A body has a half-width of 2.5 to 3.5 voxels, and lies within
/// the volume.
pub fn volumes(count: usize, seed: u64) -> Rows {
    let (mut values, mut targets) = (Vec::with_capacity(count * SIDE.pow(3)), Vec::with_capacity(count));
    for item in 0..count {
        let stream = splitmix64(seed ^ splitmix64(item as u64 + 1));
        let draw = |at: u64| Draw::new(stream, at);
        let shape = draw(0).below(SHAPES.len() as u64) as usize;
        let half = 2.5 + draw(1).uniform();
        let centre = [2, 3, 4].map(|at| half + (SIDE as f64 - 2.0 * half) * draw(at).uniform());
        targets.push(shape);
        for (voxel, at) in (0..SIDE.pow(3)).zip(5..) {
            let place = [voxel / (SIDE * SIDE), voxel / SIDE % SIDE, voxel % SIDE];
            let from = |axis: usize| (place[axis] as f64 + 0.5 - centre[axis]).abs();
            let body = if within(shape, [0, 1, 2].map(from), half) { 1.0 } else { 0.0 };
            values.push((body + NOISE * draw(at).normal()) as f32);
        }
    }
    Rows { values, width: SIDE.pow(3), targets }
}

/// Whether a place is in a body, by its distances along the axes.
fn within(shape: usize, [z, y, x]: [f64; 3], half: f64) -> bool {
    match SHAPES[shape] {
        "cube" => z.max(y).max(x) <= half,
        "cylinder" => z <= half && y * y + x * x <= half * half,
        "octahedron" => z + y + x <= half,
        _ => z * z + y * y + x * x <= half * half,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_seeded_and_of_all_shapes() {
        let rows = volumes(40, 1);
        assert_eq!(rows.values.len(), 40 * rows.width);
        assert!((0..SHAPES.len()).all(|shape| rows.targets.contains(&shape)));
        assert_eq!(volumes(3, 1).values, rows.values[..3 * rows.width]);
        assert_ne!(volumes(3, 2).values, rows.values[..3 * rows.width]);
    }

    #[test]
    fn bodies_of_one_half_width_lie_in_each_other() {
        // Octahedron, sphere, cylinder, cube.
        for place in [[0.0, 0.0, 4.0], [2.0, 2.0, 2.0], [1.0, 3.0, 2.0], [3.9, 2.0, 3.0], [3.9, 3.9, 3.9]] {
            let inside = [2, 3, 1, 0].map(|shape| within(shape, place, 4.0));
            assert!(inside.is_sorted(), "{place:?}: {inside:?}");
        }
    }
}
