//! Tests over known workloads: tables of a workload's time along one extent, with the two sides that they compare.

use parallax_ir::Shape;
use parallax_schema::catalog::Sides;
use parallax_schema::device::Dialect;
use parallax_workloads::all;

#[test]
fn scalings_rise_along_their_axis_in_canonical_shapes_that_are_valid() {
    let mut found = 0;
    for workload in all() {
        let Some((axis, scaling)) = workload.scaling() else { continue };
        found += 1;
        let parse = |text: &str| Shape::parse(workload.axes, text).unwrap_or_else(|e| panic!("{e}"));
        let extents: Vec<u64> = scaling.shapes.iter().map(|text| parse(text)[axis.key]).collect();
        assert!(extents.windows(2).all(|pair| pair[0] < pair[1]), "{}: {extents:?}", workload.name);
        for text in scaling.shapes_in(Dialect::Cuda) {
            let shape = parse(&text);
            assert_eq!(shape.to_string(), text);
            assert_eq!((workload.validate)(&shape), Ok(()), "{text}");
            let kind = scaling.per.map_or(1, |key| shape[key]);
            assert!(shape[axis.key].is_multiple_of(kind), "{text}");
        }
        if let Sides::Variants { base, other, .. } = scaling.sides {
            let known = |name| workload.forms.iter().all(|form| form.variant(name).is_some());
            assert!(known(base) && known(other), "{}: {base}, {other}", workload.name);
        }
    }
    assert!(found > 2, "{found}");
}
