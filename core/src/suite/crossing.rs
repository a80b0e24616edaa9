//! Transfers over the link between host and device.

use super::{Access, Problem, Role, Stage, StageOp};
use crate::units::Bytes;

/// Least bytes that must cross the link, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostTransfer {
    /// From the host to the device.
    pub up: Bytes,
    /// From the device to the host.
    pub down: Bytes,
}

impl Problem {
    /// Least transfers of one execution; zero if all buffers lie on the device.
    pub fn crossing(&self) -> HostTransfer {
        let bytes = |wanted: fn(Role) -> bool| self.bytes(|b| b.place.is_host() && wanted(b.role));
        HostTransfer {
            up: bytes(|role| role.fill().is_some()),
            down: bytes(|role| matches!(role, Role::Output { .. } | Role::InOut { .. })),
        }
    }
}

impl Stage {
    /// Least transfers of this stage alone, in a case of this problem.
    pub fn crossing(&self, problem: &Problem) -> HostTransfer {
        let touches = |name: &str, access| self.args.iter().any(|arg| arg.buffer == name && arg.access == access);
        let whole = |access| problem.bytes(|b| b.place.is_host() && touches(b.name, access));
        let bytes = |access| match self.work {
            StageOp::CopyRange(part) => whole(access).min(part.bytes),
            _ => whole(access),
        };
        HostTransfer { up: bytes(Access::Read), down: bytes(Access::Write) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Case;
    use crate::testing::mock::caps;

    #[test]
    fn what_crosses_is_what_lies_in_host_memory() {
        for (text, (up, down), stages) in [
            ("link/fwd/n5,upload/f32/copy", (20, 0), vec![(20, 0)]),
            ("link/fwd/n5,download/f16/copy", (0, 10), vec![(0, 10)]),
            ("copy/fwd/n5/f32/scalar", (0, 0), vec![(0, 0)]),
            ("transfer/fwd/n5,k2,down,pinned/f32/separate", (0, 40), vec![(0, 20), (0, 20)]),
            ("upload_compute/fwd/n2,k1,c2,pinned/f32/serial", (128, 0), vec![(64, 0), (0, 0), (64, 0), (0, 0)]),
        ] {
            let case: Case = text.parse().expect("valid");
            let crossing = |(up, down): (u64, u64)| HostTransfer { up: Bytes(up), down: Bytes(down) };
            assert_eq!(case.problem.crossing(), crossing((up, down)), "{text}");
            let program = case.program(&caps()).expect("stages");
            let found: Vec<HostTransfer> = program.stages.iter().map(|stage| stage.crossing(&case.problem)).collect();
            assert_eq!(found, stages.into_iter().map(crossing).collect::<Vec<_>>(), "{text}");
        }
    }
}
