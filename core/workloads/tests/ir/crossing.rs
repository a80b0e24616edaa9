//! Tests over known workloads: transfers over the link between host and device.

use parallax_schema::case::HostTransfer;
use parallax_schema::testing::caps;
use parallax_schema::units::Bytes;
use parallax_workloads::parse_case;

#[test]
fn what_crosses_is_what_lies_in_host_memory() {
    for (text, (up, down), stages) in [
        ("link/fwd/n5,upload/f32/copy", (20, 0), vec![(20, 0)]),
        ("link/fwd/n5,download/f16/copy", (0, 10), vec![(0, 10)]),
        ("copy/fwd/n5/f32/scalar", (0, 0), vec![(0, 0)]),
        ("transfer/fwd/n5,k2,down,pinned/f32/separate", (0, 40), vec![(0, 20), (0, 20)]),
        ("upload_compute/fwd/n2,k1,c2,pinned/f32/serial", (128, 0), vec![(64, 0), (0, 0), (64, 0), (0, 0)]),
    ] {
        let case = parse_case(text).expect("valid");
        let crossing = |(up, down): (u64, u64)| HostTransfer { up: Bytes(up), down: Bytes(down) };
        assert_eq!(case.problem.crossing(), crossing((up, down)), "{text}");
        let program = case.program(&caps()).expect("stages");
        let found: Vec<HostTransfer> = program.stages.iter().map(|stage| stage.crossing(&case.problem)).collect();
        assert_eq!(found, stages.into_iter().map(crossing).collect::<Vec<_>>(), "{text}");
    }
}
