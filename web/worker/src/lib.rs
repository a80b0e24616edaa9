//! The worker: the program that measures in a browser. It takes requests from the page and sends responses.
//!
//! The page fetches it into a worker, or into itself if workers cannot measure. The build compiles it in two ways: for memory
//! that threads share, and for one thread. The page chooses one of them. Only this program measures: the page's own program sends
//! requests and shows results. [`parallax_protocol`] has the messages.
//!
//! ```text
//! page ── Request ─► port ─► Worker ─► profiler (parallax-gpu-wgpu, parallax-gpu-cpu)
//!      ◄─ Response ──
//! ```
//!
//! - `port`: receives requests and posts responses.
//! - `worker`: carries out requests. It is independent of the page and of the thread that it runs on.
//! - `compilers`: CubeCL's compilers, fetched when a request names one of their kernels.
//! - `sight`: visibility of the tab.
//! - `sensors`: it, and the energy counter that a command line reads.
//! - `threads`: further workers that compute on the same memory.

mod compilers;
mod port;
mod sensors;
mod sight;
#[cfg(target_feature = "atomics")]
mod threads;
mod worker;

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_looks_for_the_matrices_that_are_asked_for() {
        assert_eq!(parallax_protocol::MATRICES, parallax_shaders::MATRICES);
    }
}
