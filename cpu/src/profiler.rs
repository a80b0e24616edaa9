//! The processor as a profiler.

use std::pin::Pin;

use async_trait::async_trait;
use parallax_ir::device::{BackendError, Coming, Prepared, Profiler, Transfer};
use parallax_ir::parallel::current_num_threads;
use parallax_ir::{Case, Inputs};
use parallax_schema::case::{DType, Tuning};
use parallax_schema::device::clock::smallest_move;
use parallax_schema::device::{Caps, Clock, ClockInfo, DeviceInfo, DeviceKind, Dialect};
use parallax_schema::units::{Bytes, Nanos};
use web_time::Instant;

use crate::case::HostCase;

/// Function that lets other tasks run: see [`Profiler::yield_now`].
pub type YieldNow = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// Environment of the code, as far as the code cannot query it.
pub struct HostEnvironment {
    /// The processor's name.
    pub name: String,
    /// Compilation target: `host`, `wasm`.
    pub api: &'static str,
    /// Memory, if known.
    pub memory: Option<Bytes>,
    /// Features besides threads.
    pub features: Vec<String>,
    /// Function that lets other tasks run.
    pub yield_now: YieldNow,
}

/// A processor as a profiler.
pub struct Cpu {
    device: DeviceInfo,
    clock: ClockInfo,
    opened: Instant,
    yield_now: YieldNow,
}

impl Cpu {
    /// Opens the processor. It is always available.
    pub fn open(place: HostEnvironment) -> Cpu {
        let threads = current_num_threads() as u32;
        let caps = Caps {
            dialect: Dialect::Cpu,
            // Most processors emulate 16-bit floats; the baseline is f32.
            dtypes: vec![DType::F32],
            subgroup: None,
            shared_bytes: 0,
            max_invocations: 0,
            max_workgroup: [0; 3],
            max_grid: [0; 3],
            max_binding: Bytes(u64::MAX),
            max_storage_buffers: None,
            memory: place.memory,
            compute_capability: None,
            ranks: 1,
            compute_units: Some(threads),
            matrices: Vec::new(),
            in_a_browser: false,
            matrix_units: false,
            cuda: None,
            cube: false,
            no_cube: None,
            tuning: Default::default(),
        };
        let (count, how) = match threads {
            1 => ("1 thread".to_owned(), "plain code on one thread"),
            n => (format!("{n} threads"), "plain multi-threaded code"),
        };
        let device = DeviceInfo {
            name: place.name,
            vendor: String::new(),
            kind: DeviceKind::Cpu,
            api: place.api.to_owned(),
            driver: String::new(),
            identity: Default::default(),
            ranks: 1,
            caps,
            limits: Default::default(),
            features: [vec![count], place.features].concat(),
        };
        let opened = Instant::now();
        let step = smallest_move(100, || Nanos(opened.elapsed().as_nanos() as f64));
        let clock = ClockInfo {
            clock: Clock::Host,
            step,
            host_step: step,
            zero_share: 0.0,
            negative_share: 0.0,
            launch_jitter: Nanos(0.0),
            note: Some(format!("{how}, a point of reference and not tuned")),
        };
        Cpu { device, clock, opened, yield_now: place.yield_now }
    }
}

#[async_trait(?Send)]
impl Profiler for Cpu {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.device.caps.tuning = tuning;
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as f64)
    }

    async fn yield_now(&self) {
        (self.yield_now)().await;
    }

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        Ok(Nanos(0.0))
    }

    async fn transfer(&mut self, _way: Transfer, _bytes: u64) -> Result<Option<Nanos>, BackendError> {
        Ok(None)
    }

    async fn prefetch(&mut self, _coming: &Coming<'_>) {}

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        if sets > 1 {
            return Err(BackendError::Unsupported("cold caches: the host computes in one place".to_owned()));
        }
        Ok(Box::new(HostCase::new(&case.problem, inputs, self.opened, self.yield_now)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_engine::measure::check::check_once;
    use parallax_ir::device::{Batch, Contents, POISON};
    use parallax_ir::{BufferSpec, Problem, Role, Workload};
    use parallax_schema::case::{CPU_VARIANT, Direction};
    use parallax_workloads::ops::hash_embedding;
    use parallax_workloads::{find, parse_case};

    fn here() -> HostEnvironment {
        let yield_now: YieldNow = || Box::pin(std::future::ready(()));
        HostEnvironment {
            name: "a processor".to_owned(),
            api: "host",
            memory: None,
            features: vec!["some".to_owned()],
            yield_now,
        }
    }

    #[test]
    fn the_device_says_how_many_threads_there_are_and_what_else() {
        let device = Cpu::open(here()).device().clone();
        let threads = current_num_threads();
        let count = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        assert_eq!(
            (device.features, device.caps.compute_units),
            (vec![count, "some".to_owned()], Some(threads as u32))
        );
    }

    #[test]
    fn without_a_host_implementation_the_reference_computes_and_says_so() {
        let mut workload = Workload { name: "hash_embedding", ..hash_embedding::workload() };
        workload.forms[0].host = None;
        let workload: &'static Workload = Box::leak(Box::new(workload));
        let mut cpu = Cpu::open(here());
        for (workload, says_so) in [(workload, true), (find("hash_embedding").expect("registered"), false)] {
            let problem = Problem::new(workload, Direction::Fwd, "r1009,g101,d67,unsorted", DType::F32);
            let case = Case { problem: problem.expect("valid"), variant: CPU_VARIANT };
            let inputs = case.problem.inputs(3);
            let check = pollster::block_on(async {
                let mut prepared = cpu.prepare(&case, &inputs, 1).await?;
                assert_eq!(prepared.compiled().options.iter().any(|o| o.contains("the f64 reference")), says_so);
                prepared.poison(POISON).await?;
                let poisoned = check_once(&cpu, &mut *prepared, &case.problem, &inputs, 1 << 30).await?;
                assert!(!poisoned.passed, "nothing has been computed yet");
                prepared.measure(Batch::new(2)).await?;
                check_once(&cpu, &mut *prepared, &case.problem, &inputs, 1 << 30).await
            });
            let check = check.expect("the host has no errors");
            assert!(check.passed && check.compared == 101 * 67, "{}", check.sentence());
        }
    }

    #[test]
    fn the_set_up_follows_its_inputs_and_no_others() {
        // The set-up of a layer joins weights. That of the gradient is the softmax of `x`.
        for (case, of_setup) in
            [("encoder_layer/fwd/b1,s5,h2,d4,f9/f32/host", vec!["wq", "bq"]), ("softmax/bwd/r3,c5/f32/host", vec!["x"])]
        {
            let case = parse_case(case).expect("valid");
            let specs = case.problem.buffers();
            let outputs: Vec<usize> =
                (0..specs.len()).filter(|index| matches!(specs[*index].role, Role::Output { .. })).collect();
            let of_seed = |seed| {
                let inputs = case.problem.inputs(seed);
                let of = |(index, spec): (usize, &BufferSpec)| {
                    let mut bytes = vec![0; spec.bytes(DType::F32).0 as usize];
                    spec.role.fill().map(|_| inputs.write(index, 0, &mut bytes)).map(|()| (index, bytes))
                };
                specs.iter().enumerate().filter_map(of).collect::<Vec<_>>()
            };
            pollster::block_on(async {
                let mut cpu = Cpu::open(here());
                let mut filled = cpu.prepare(&case, &case.problem.inputs(1), 1).await.expect("small");
                assert!(filled.enqueues());
                for (index, contents) in of_seed(2) {
                    filled.enqueue(&[(index, Contents::Bytes(&contents))]).await.expect("it fits");
                    let mut now = case.problem.inputs(1);
                    of_seed(2).into_iter().filter(|(other, _)| *other <= index).for_each(|(other, bytes)| {
                        now.replace(other, bytes).expect("it fits");
                    });
                    let mut fresh = cpu.prepare(&case, &now, 1).await.expect("small");
                    fresh.measure(Batch::new(1)).await.expect("it runs");
                    for output in &outputs {
                        let bytes = 0..specs[*output].bytes(DType::F32).0;
                        let want = fresh.read_back(*output, bytes.clone()).await.expect("an output");
                        let got = filled.read_back(*output, bytes).await.expect("an output");
                        assert_eq!(got, want, "{case}: after `{}`", specs[index].name);
                    }
                }
                let host = HostCase::new(&case.problem, &case.problem.inputs(1), cpu.opened, cpu.yield_now);
                let host = host.expect("small");
                let used =
                    |name: &str| host.sets_up_from(specs.iter().position(|spec| spec.name == name).expect("there"));
                assert!(
                    of_setup.iter().all(|name| used(name)) && !used(if of_setup.len() == 2 { "x" } else { "dout" })
                );
            });
        }
    }
}
