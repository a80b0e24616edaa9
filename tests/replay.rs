//! A profiler that replays kept results of a device: the bytes of every output, as the device left them.
//!
//! A kept result belongs to the assembled sources, the launches, the constants, the inputs, the adapter with its driver, and the
//! backend's own code. A check of it computes reference and tolerance anew.

use std::ops::Range;
use std::path::Path;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Prepared, Profiler, Sample, settle};
use parallax_ir::{Case, Inputs, KernelSources, Role};
use parallax_schema::device::{Compiled, Dialect, Launch, MemoryStats, Trace};
use parallax_schema::units::Nanos;
use parallax_shaders::source::{Form, assemble_all};
use parallax_shaders::{Wgpu, WgpuOptions};

use crate::memo::{Key, Memo};

/// A wgpu device whose results are kept.
pub struct Replaying {
    /// The device itself.
    pub device: Wgpu,
    memo: Memo,
    /// Adapter, driver, guards and the backend's code.
    backend: Key,
    texts: KernelSources,
    form: Form,
}

impl Replaying {
    /// Opens a device with these options.
    ///
    /// # Panics
    /// No adapter. A machine that tests has one, llvmpipe at least.
    pub fn open(options: WgpuOptions) -> Replaying {
        let (texts, checks) = (options.texts.clone(), options.checks);
        let device = pollster::block_on(parallax_shaders::open(options)).expect("an adapter (llvmpipe will do)");
        let (about, form) = (device.device(), device.form());
        let backend = backend_code().with(&about.name).with(&about.driver).with(&about.api).with(format!("{checks:?}"));
        Replaying { device, memo: Memo::new("wgpu"), backend, texts, form }
    }

    /// Key of a case's result; `None` if its sources cannot be assembled, an error that its preparation reports.
    fn key(&self, case: &Case, inputs: &Inputs) -> Option<Key> {
        let (program, first) = case.whole_program(&self.device.device().caps)?;
        let dtype = case.problem.dtype;
        let (program, _) = settle(&self.texts, program, dtype, Dialect::Wgsl).ok()?;
        let (texts, _) = assemble_all(&self.texts, &program, dtype, self.form).ok()?;
        let mut key = self.backend.clone().with(format!("{first} {:?} {dtype:?}", program.stages));
        for text in &texts {
            key = key.with(&text.wgsl);
        }
        for (index, spec) in case.problem.buffers().iter().enumerate() {
            let (storage, role) = (spec.elem.storage(dtype), spec.role);
            let set_up = matches!(role, Role::Setup { .. });
            let treated = (role.poisoned(), role.restored(), set_up, spec.place.is_host());
            key = key.with(format!("{} {} {storage:?} {treated:?}", spec.name, spec.len));
            if spec.role.fill().is_some() {
                let mut bytes = vec![0; spec.bytes(dtype).0 as usize];
                inputs.write(index, 0, &mut bytes);
                key = key.with(bytes);
            }
        }
        Some(key)
    }

    /// Returns the case as a kept result, if `kept` is set and there is one. Otherwise it is prepared on the device, and its
    /// results are kept when it is dropped.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn prepare(
        &mut self,
        case: &Case,
        inputs: &Inputs,
        kept: bool,
    ) -> Result<Box<dyn Prepared>, BackendError> {
        let key = self.key(case, inputs);
        let entry = key.as_ref().filter(|_| kept).and_then(|key| self.memo.get(key));
        if let Some(journal) = entry.and_then(|bytes| Journal::from_bytes(&bytes)) {
            return Ok(Box::new(Replay { journal, at: 0, compiled: Compiled::default() }));
        }
        let device = self.device.prepare(case, inputs, 1).await?;
        let keep = key.map(|key| (self.memo.clone(), key));
        Ok(Box::new(Recording { device, journal: Journal::default(), keep }))
    }
}

/// Digest of the code between a case and the device: the backend's sources and the versions of its dependencies.
fn backend_code() -> Key {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut files = vec![root.join("Cargo.lock")];
    let mut folders = vec![root.join("shaders/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("readable").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let read = |path| std::fs::read(path).expect("a readable source");
    files.iter().fold(Key::default(), |key, path| key.with(read(path)))
}

/// Calls that change or read buffers, in order, with the bytes that each returned.
#[derive(Default)]
struct Journal(Vec<(String, Vec<u8>)>);

impl Journal {
    /// Returns a line of calls and lengths as JSON, then the bytes of all calls.
    fn to_bytes(&self) -> Vec<u8> {
        let calls: Vec<(&str, usize)> = self.0.iter().map(|(call, bytes)| (call.as_str(), bytes.len())).collect();
        let mut all = serde_json::to_vec(&calls).expect("text and numbers");
        all.push(b'\n');
        self.0.iter().for_each(|(_, bytes)| all.extend_from_slice(bytes));
        all
    }

    fn from_bytes(all: &[u8]) -> Option<Journal> {
        let end = all.iter().position(|byte| *byte == b'\n')?;
        let calls: Vec<(String, usize)> = serde_json::from_slice(&all[..end]).ok()?;
        let mut rest = &all[end + 1..];
        let mut journal = Journal::default();
        for (call, length) in calls {
            let (bytes, after) = rest.split_at_checked(length)?;
            journal.0.push((call, bytes.to_vec()));
            rest = after;
        }
        rest.is_empty().then_some(journal)
    }
}

fn poisoning(word: u32) -> String {
    format!("poison {word}")
}

fn measuring(batch: Batch) -> String {
    format!("execute {} {}", batch.lead, batch.repeats)
}

fn reading(buffer: usize, bytes: &Range<u64>) -> String {
    format!("read {buffer} {bytes:?}")
}

/// A kept result.
struct Replay {
    journal: Journal,
    at: usize,
    compiled: Compiled,
}

/// Error of a call that a kept result does not hold. The case then runs on the device.
pub const NOT_KEPT: &str = "the kept result does not hold this call";

impl Replay {
    fn next(&mut self, call: String) -> Result<Vec<u8>, BackendError> {
        let entry = self.journal.0.get_mut(self.at).filter(|(kept, _)| *kept == call);
        self.at += 1;
        entry.map(|(_, bytes)| std::mem::take(bytes)).ok_or_else(|| BackendError::Device(NOT_KEPT.to_owned()))
    }
}

fn only_results<T>() -> Result<T, BackendError> {
    Err(BackendError::Unsupported("kept results have no times and no traces".to_owned()))
}

#[async_trait(?Send)]
impl Prepared for Replay {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    fn launches(&self) -> Vec<Launch> {
        Vec::new()
    }

    fn now(&self) -> Nanos {
        Nanos(0.0)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        self.next(poisoning(word)).map(|_| ())
    }

    /// A replayed execution takes no time.
    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        self.next(measuring(batch)).map(|_| Sample { time: Nanos(0.0), host: Nanos(0.0) })
    }

    async fn call(&mut self, _executions: u32, _until: Awaited) -> Result<Nanos, BackendError> {
        only_results()
    }

    async fn trace(&mut self, _stacks: bool) -> Result<Trace, BackendError> {
        only_results()
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        self.next(reading(buffer, &bytes))
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats::default()
    }
}

/// A case on the device. Its results are kept when it is dropped, unless a call failed.
struct Recording {
    device: Box<dyn Prepared>,
    journal: Journal,
    keep: Option<(Memo, Key)>,
}

impl Recording {
    fn note<T>(&mut self, call: String, result: &Result<T, BackendError>, bytes: Vec<u8>) {
        match result {
            Ok(_) => self.journal.0.push((call, bytes)),
            Err(_) => self.keep = None,
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some((memo, key)) = self.keep.take().filter(|_| !std::thread::panicking()) {
            memo.put(&key, &self.journal.to_bytes());
        }
    }
}

#[async_trait(?Send)]
impl Prepared for Recording {
    fn compiled(&self) -> &Compiled {
        self.device.compiled()
    }

    fn launches(&self) -> Vec<Launch> {
        self.device.launches()
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        let result = self.device.poison(word).await;
        self.note(poisoning(word), &result, Vec::new());
        result
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        let result = self.device.measure(batch).await;
        self.note(measuring(batch), &result, Vec::new());
        result
    }

    async fn call(&mut self, _executions: u32, _until: Awaited) -> Result<Nanos, BackendError> {
        only_results()
    }

    async fn trace(&mut self, _stacks: bool) -> Result<Trace, BackendError> {
        only_results()
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let result = self.device.read_back(buffer, bytes.clone()).await;
        let read = result.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
        self.note(reading(buffer, &bytes), &result, read);
        result
    }

    fn memory(&self) -> MemoryStats {
        self.device.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_survives_its_file() {
        let journal = Journal(vec![(poisoning(7), Vec::new()), (reading(1, &(0..3)), vec![1, 2, 3])]);
        let bytes = journal.to_bytes();
        assert_eq!(Journal::from_bytes(&bytes).expect("whole").0, journal.0);
        assert!(Journal::from_bytes(&bytes[..bytes.len() - 1]).is_none());
        assert!(Journal::from_bytes(&[&bytes[..], b"x"].concat()).is_none());
    }

    #[test]
    fn another_call_is_an_error_and_no_result() {
        let journal = Journal(vec![(poisoning(7), Vec::new()), (reading(1, &(0..3)), vec![1, 2, 3])]);
        let mut replay = Replay { journal, at: 0, compiled: Compiled::default() };
        pollster::block_on(async {
            replay.poison(7).await.expect("kept");
            let error = replay.read_back(1, 0..2).await.expect_err("another range");
            assert_eq!(error, BackendError::Device(NOT_KEPT.to_owned()));
        });
    }
}
