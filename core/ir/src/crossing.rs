//! Transfers over the link between host and device.

use parallax_schema::case::HostTransfer;

use super::{Access, Problem, Role, Stage, StageOp};

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
