//! Shapes of a preset with other extents.

use parallax_ir::{Axis, AxisKind};
use parallax_schema::spec::sweep::{Change, parse};

/// Returns the shapes with every combination of one change of each list. Empty for a workload without one of the extents.
pub fn shapes(lists: &[String], axes: &[Axis], preset: &[&str]) -> Vec<String> {
    let mut shapes: Vec<String> = preset.iter().map(|shape| (*shape).to_owned()).collect();
    for list in lists.iter().filter_map(|list| parse(list).ok()) {
        let has = |key: &str| axes.iter().any(|axis| axis.key == key && !matches!(axis.kind, AxisKind::Word(_)));
        if !list.iter().flatten().all(|(key, _)| has(key)) {
            return Vec::new();
        }
        shapes = shapes.iter().flat_map(|shape| list.iter().map(|change| changed(shape, change))).collect();
    }
    let mut once = Vec::new();
    for shape in shapes {
        if !once.contains(&shape) {
            once.push(shape);
        }
    }
    once
}

/// Returns a shape with the extents of a change, which replace its own or are added to them.
fn changed(shape: &str, change: &Change) -> String {
    let key_of = |part: &str| part.find(|c: char| c.is_ascii_digit()).map(|at| part[..at].to_owned());
    let stays = |part: &&str| key_of(part).is_none_or(|key| change.iter().all(|(changed, _)| *changed != key));
    let news = change.iter().map(|(key, number)| format!("{key}{number}"));
    shape.split(',').filter(stays).map(str::to_owned).chain(news).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Shape;
    use parallax_schema::case::Direction;
    use parallax_workloads::find;

    const HEADLINE: &str = "n8,c8,h128,k3,p1,nchw";

    fn swept(lists: &[&str]) -> Vec<String> {
        let workload = find("depthwise_conv2d").expect("registered");
        let lists: Vec<String> = lists.iter().map(|list| (*list).to_owned()).collect();
        let canonical = |text: &String| Shape::parse(workload.axes, text).expect("valid").to_string();
        shapes(&lists, workload.axes, &[HEADLINE]).iter().map(canonical).collect()
    }

    #[test]
    fn any_extent_takes_a_list_and_of_several_lists_every_combination_comes() {
        assert_eq!(swept(&[]), [HEADLINE]);
        assert_eq!(swept(&["c8xh128,c32xh256"]), [HEADLINE, "n8,c32,h256,k3,p1,nchw"]);
        let all = swept(&["n1,n4", "w64,s2", "k5,k3"]);
        assert_eq!(all.len(), 8, "{all:?}");
        assert!(all.contains(&"n4,c8,h128,w64,k5,p1,nchw".to_owned()), "{all:?}");
        assert!(all.contains(&"n1,c8,h128,k3,s2,p1,nchw".to_owned()), "{all:?}");
        assert_eq!(swept(&["h128"]), [HEADLINE], "once");
        assert_eq!(swept(&["q7"]), [""; 0], "no such extent");
        assert!(find("depthwise_conv2d").expect("registered").form(Direction::Fwd).is_some());
    }

    #[test]
    fn letters_may_be_an_x_and_numbers_may_have_places() {
        let pair = |key: &str, number: &str| (key.to_owned(), number.to_owned());
        assert_eq!(parse("x4xp0.5").expect("valid"), [[pair("x", "4"), pair("p", "0.5")]]);
        for mistake in ["", "8", "c8x", "c8,,n2", "c8xc9", "c", "c8h3", "c-1"] {
            assert!(parse(mistake).is_err(), "{mistake}");
        }
    }
}
