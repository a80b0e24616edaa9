//! Least work of a case.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Flops};

/// The least work a problem needs: operations, and bytes that must cross device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Operations by the field's accepted rule for the workload.
    pub flops: Flops,
    /// Every input element that must be read, once.
    pub read: Bytes,
    /// Every output element, written once.
    pub written: Bytes,
}

impl Cost {
    /// Returns a cost of these operations, bytes read and bytes written.
    pub fn new(flops: u64, read: u64, written: u64) -> Cost {
        Cost { flops: Flops(flops), read: Bytes(read), written: Bytes(written) }
    }

    /// Bytes read plus bytes written.
    pub fn moved(&self) -> Bytes {
        Bytes(self.read.0 + self.written.0)
    }
}

/// Least bytes that must cross the link, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostTransfer {
    /// From the host to the device.
    pub up: Bytes,
    /// From the device to the host.
    pub down: Bytes,
}
