//! Compilation of kernels before their cases are prepared, on other processors.
//!
//! The pipelines wait here until a case takes them. A failed compilation leaves nothing: the case compiles again, and reports the error.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::compile::{CompiledUnit, Unit, UnitKey};
use crate::gpu::Gpu;

/// Kernels that are compiled ahead.
pub struct Ahead {
    shared: Arc<Shared>,
    /// Largest number of threads that compile.
    threads: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified at the end of each compilation.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Kernels that no thread has begun.
    waiting: VecDeque<Unit>,
    /// Kernels that a thread has begun; `None` until its end.
    begun: HashMap<UnitKey, Option<Finished>>,
    /// Number of threads.
    threads: usize,
}

/// Pipelines of a kernel; `None` after a failure.
type Finished = Option<CompiledUnit>;

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }
}

impl Ahead {
    /// Creates an empty set. One processor remains for the caller.
    pub fn new() -> Ahead {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Ahead { shared: Arc::default(), threads: processors.saturating_sub(1).max(1) }
    }

    /// Starts the compilation of kernels, and forgets those of earlier calls that are not among them.
    pub fn start(&self, gpu: &Gpu, units: Vec<Unit>) {
        let mut state = self.shared.state();
        state.waiting.clear();
        state.begun.retain(|key, _| units.iter().any(|unit| unit.key() == *key));
        for unit in units {
            let key = unit.key();
            if !state.begun.contains_key(&key) && !state.waiting.iter().any(|waiting| waiting.key() == key) {
                state.waiting.push_back(unit);
            }
        }
        for _ in state.threads..self.threads.min(state.threads + state.waiting.len()) {
            let (shared, device) = (self.shared.clone(), gpu.device.clone());
            state.threads += 1;
            thread::spawn(move || compile_waiting(&shared, &device));
        }
    }

    /// Returns the pipelines of a kernel, after a wait if a thread compiles them. `None` if the caller has to compile it.
    pub async fn take(&self, _gpu: &Gpu, unit: &Unit) -> Option<CompiledUnit> {
        let key = unit.key();
        let mut state = self.shared.state();
        // Threads are busy with other kernels.
        state.waiting.retain(|waiting| waiting.key() != key);
        while let Some(begun) = state.begun.get(&key) {
            if begun.is_some() {
                return state.begun.remove(&key).flatten().flatten();
            }
            state = self.shared.done.wait(state).expect("no panic while held");
        }
        None
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state().waiting.clear();
    }
}

/// Compiles kernels until none waits.
fn compile_waiting(shared: &Shared, device: &wgpu::Device) {
    let mut state = shared.state();
    while let Some(unit) = state.waiting.pop_front() {
        state.begun.insert(unit.key(), None);
        drop(state);
        let finished = catch_unwind(AssertUnwindSafe(|| unit.compile_quietly(device))).ok().flatten();
        state = shared.state();
        // A later call may have forgotten the kernel.
        if let Some(begun) = state.begun.get_mut(&unit.key()) {
            *begun = Some(finished);
        }
        shared.done.notify_all();
    }
    state.threads -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Checks;
    use crate::compile::ProgramSource;
    use crate::source::{Form, assemble_all, embedded};
    use crate::{Wgpu, WgpuOptions, open};
    use parallax_ir::KernelSources;
    use parallax_workloads::parse_case;
    use pollster::block_on;

    fn units(sources: &KernelSources, case: &str) -> Vec<Unit> {
        let case = parse_case(case).expect("valid");
        let program = case.program(&parallax_schema::testing::caps()).expect("a kernel variant");
        let (texts, places) = assemble_all(sources, &program, case.problem.dtype, Form::HERE).expect("a text");
        ProgramSource::new(&program, (texts, &places), |_| None, Checks::NONE).units()
    }

    /// Waits until the threads have begun or compiled every kernel.
    fn take_when_begun(wgpu: &Wgpu, ahead: &Ahead, unit: &Unit) -> Option<CompiledUnit> {
        while !ahead.shared.state().begun.contains_key(&unit.key()) {
            thread::yield_now();
        }
        block_on(ahead.take(wgpu.gpu(), unit))
    }

    #[test]
    fn kernels_are_compiled_once_and_failures_are_left_to_the_case() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let ahead = Ahead::new();
        let case = "attention/fwd/b1,h1,s5,d3/f32/manual";
        let right = units(&embedded(), case);
        let lookup = |file: &str| Ok((file == "attention/flash.wgsl").then(|| "fn attention_flash( {".to_owned()));
        let wrong = units(&embedded().with_lookup(lookup), "attention/fwd/b1,h1,s5,d3/f32/flash");
        ahead.start(wgpu.gpu(), right.iter().chain(&wrong).chain(&right).cloned().collect());
        for unit in &right {
            let compiled = take_when_begun(&wgpu, &ahead, unit).expect("it compiles");
            assert_eq!(compiled.pipelines.len(), unit.key().entries());
            assert!(compiled.pipeline.0 > 0.0);
            assert!(block_on(ahead.take(wgpu.gpu(), unit)).is_none(), "the case has it");
        }
        assert!(take_when_begun(&wgpu, &ahead, &wrong[0]).is_none());
        assert_eq!(wgpu.gpu().incident(), Ok(()), "the case reports the error");
    }

    #[test]
    fn kernels_of_an_earlier_announcement_are_forgotten() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let ahead = Ahead::new();
        let case = |d: u32| units(&embedded(), &format!("attention/fwd/b1,h1,s5,d{d}/f32/flash"));
        ahead.start(wgpu.gpu(), case(3));
        assert!(take_when_begun(&wgpu, &ahead, &case(3)[0]).is_some());
        ahead.start(wgpu.gpu(), case(5));
        ahead.start(wgpu.gpu(), case(7));
        assert!(block_on(ahead.take(wgpu.gpu(), &case(5)[0])).is_none());
        assert!(take_when_begun(&wgpu, &ahead, &case(7)[0]).is_some());
    }
}
