//! Kernel of a loaded module, ready to launch.

use cudarc::driver::sys;

/// A kernel with its launch configuration.
pub(crate) struct Function {
    pub(crate) handle: sys::CUfunction,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Blocks of a cluster; `[1; 3]` means no cluster.
    pub(crate) cluster: [u32; 3],
    pub(crate) dynamic_shared_bytes: u32,
}

impl Function {
    pub(crate) fn in_clusters(&self) -> bool {
        self.cluster != [1; 3]
    }
}
