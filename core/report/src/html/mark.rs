//! Mark of a family of workloads: a colour and a shape, the same on every page.

use std::collections::BTreeSet;

use maud::{Markup, html};
use parallax_analysis::Family;

use super::plot::px;

/// Returns the class of a family. It gives the colour and the shape in `plot.css`.
pub(crate) fn class(family: Family) -> &'static str {
    match family {
        Family::Attention => "f0",
        Family::Products => "f1",
        Family::Convolutions => "f2",
        Family::Rows => "f3",
        Family::Memory => "f4",
        Family::Training => "f5",
    }
}

/// Returns the class of a case's family.
pub(crate) fn of_case(case: &str) -> &'static str {
    class(Family::of(case))
}

/// Returns the families of some cases, in the order of tables.
pub(super) fn families<'a>(cases: impl IntoIterator<Item = &'a str>) -> Vec<Family> {
    let found: BTreeSet<Family> = cases.into_iter().map(Family::of).collect();
    found.into_iter().collect()
}

/// Returns the path of a family's shape around a point, as large as a circle of this radius.
pub(super) fn path(family: Family, (x, y): (f64, f64), radius: f64) -> String {
    let r = radius;
    // Side by side, shapes of equal area look equal in size.
    match family {
        Family::Attention => {
            format!("M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z", px(x - r), px(y), d = px(2.0 * r))
        }
        Family::Products => {
            let half = r * 0.89;
            format!("M{} {}h{side}v{side}h-{side}z", px(x - half), px(y - half), side = px(2.0 * half))
        }
        Family::Convolutions => polygon(x, y, r * 1.3, &[(0.0, -1.0), (0.95, 0.75), (-0.95, 0.75)]),
        Family::Rows => polygon(x, y, r * 1.28, &[(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)]),
        Family::Memory => polygon(x, y, r * 1.12, &CROSS),
        Family::Training => polygon(x, y, r * 1.3, &[(0.0, 1.0), (-0.95, -0.75), (0.95, -0.75)]),
    }
}

/// Returns a family's shape with its own class.
pub(super) fn shape(family: Family, at: (f64, f64), radius: f64, role: &str) -> Markup {
    html! { path class=(role) d=(path(family, at, radius)) {} }
}

/// Corners of a cross with thick arms.
const CROSS: [(f64, f64); 12] = [
    (-0.38, -1.0),
    (0.38, -1.0),
    (0.38, -0.38),
    (1.0, -0.38),
    (1.0, 0.38),
    (0.38, 0.38),
    (0.38, 1.0),
    (-0.38, 1.0),
    (-0.38, 0.38),
    (-1.0, 0.38),
    (-1.0, -0.38),
    (-0.38, -0.38),
];

/// Returns a closed path through corners around a point.
fn polygon(x: f64, y: f64, scale: f64, corners: &[(f64, f64)]) -> String {
    let corner = |(i, (dx, dy)): (usize, &(f64, f64))| {
        format!("{}{} {}", if i == 0 { "M" } else { "L" }, px(x + dx * scale), px(y + dy * scale))
    };
    corners.iter().enumerate().map(corner).collect::<String>() + "z"
}

/// Returns the marks of families with their names.
pub(super) fn legend(families: &[Family]) -> Markup {
    html! { @for family in families { span class=(class(*family)) { i {} (family.name()) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_differ_in_colour_and_shape() {
        let classes: BTreeSet<&str> = Family::ALL.map(class).into();
        let shapes: BTreeSet<String> = Family::ALL.map(|family| path(family, (10.0, 10.0), 3.5)).into();
        assert_eq!((classes.len(), shapes.len()), (6, 6));
        let plot = include_str!("plot.css");
        for class in classes {
            assert!(plot.contains(&format!(".{class} {{ --run:")), "{class} has a colour");
        }
    }

    #[test]
    fn a_case_has_the_mark_of_its_family() {
        assert_eq!(of_case("attention/fwd/b1,h8,s512,d64/f16/flash"), class(Family::Attention));
        let cases = ["copy/fwd/n1/f32/vec4", "rope/fwd/b1,h1,s1,d2/f32/pairs", "read/fwd/n1/f32/vec4"];
        assert_eq!(families(cases), [Family::Attention, Family::Memory]);
    }
}
