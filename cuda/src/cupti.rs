//! Activity records of the hardware from CUPTI, NVIDIA's profiling interface, loaded at run time.
//!
//! CUPTI fills buffers with activity records. Each kernel, copy and fill has one, with its device, stream, begin and end. Each call
//! into the driver or the runtime has one too. It carries the correlation number of the work that it launched.
//!
//! CUPTI records only between [`Recording::begin`] and the end of the recording. A failure here is no error of the case: the caller
//! falls back to events.

use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::cupti::sys::{
    CUpti_ActivityAPI as ApiRecord, CUpti_ActivityKernel9 as KernelRecord, CUpti_ActivityKind as Kind,
    CUpti_ActivityMemcpy6 as CopyRecord, CUpti_ActivityMemset4 as FillRecord,
};
use libloading::Library;

use crate::ffi;
use crate::libraries;
use crate::libraries::Wanted;

pub(crate) const WANTED: Wanted = Wanted {
    stem: "cupti",
    versions: libraries::OF_TOOLKIT,
    windows: &[],
    variable: None,
    toolkit: Some("extras/CUPTI/lib64"),
    wheel: "cuda_cupti",
};

/// Recorded activities: kernels without serialisation, copies, fills, and calls that may have launched them. Libraries launch
/// through the runtime, kernels of this suite through the driver.
const KINDS: [Kind; 5] = [
    Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    Kind::CUPTI_ACTIVITY_KIND_MEMCPY,
    Kind::CUPTI_ACTIVITY_KIND_MEMSET,
    Kind::CUPTI_ACTIVITY_KIND_DRIVER,
    Kind::CUPTI_ACTIVITY_KIND_RUNTIME,
];

type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The calls, resolved once. The library stays loaded until the process ends, because it keeps the callbacks.
struct Api {
    register: unsafe extern "C" fn(BufferRequested, BufferCompleted) -> c_int,
    enable: unsafe extern "C" fn(c_int) -> c_int,
    disable: unsafe extern "C" fn(c_int) -> c_int,
    flush: unsafe extern "C" fn(u32) -> c_int,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> c_int,
    timestamp: unsafe extern "C" fn(*mut u64) -> c_int,
    _library: Library,
}

/// Kind of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A kernel ran on the device.
    Kernel,
    /// Bytes were copied.
    Copy,
    /// Bytes were set.
    Fill,
    /// The host called the driver or the runtime.
    Call,
}

/// An activity record, with times in nanoseconds of CUPTI's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) what: What,
    /// Name of a kernel, or source and destination memory of a copy.
    pub(crate) name: Option<String>,
    /// Device of the activity; zero for calls, like the stream.
    pub(crate) device: u32,
    pub(crate) stream: u32,
    /// Bytes that were copied or set.
    pub(crate) bytes: Option<u64>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Number shared by a call and the work that it launched.
    pub(crate) correlation: u32,
}

/// Records of the current recording. A thread of CUPTI may deliver buffers.
static RECORDS: Mutex<Vec<Activity>> = Mutex::new(Vec::new());

static API: OnceLock<Option<Api>> = OnceLock::new();

/// CUPTI, if it is installed and has accepted the callbacks. The search runs once.
fn api() -> Option<&'static Api> {
    let load = || {
        let (api, _) = libraries::load(&WANTED, |file, _| resolve(file)).ok()?;
        // SAFETY: both callbacks are functions of this program, which is never unloaded.
        (unsafe { (api.register)(buffer_requested, buffer_completed) } == SUCCESS).then_some(api)
    };
    API.get_or_init(load).as_ref()
}

/// `CUPTI_SUCCESS`.
const SUCCESS: c_int = 0;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: deliver buffers even with incomplete records.
const FLUSH_FORCED: u32 = 1;

fn resolve(file: &Path) -> Result<Api, libloading::Error> {
    // SAFETY: CUPTI's initialisers touch no memory of this program. Every symbol has the signature of its header, with enums as
    // integers and records as bytes.
    unsafe {
        ffi::resolve!(file => Api {
            register: c"cuptiActivityRegisterCallbacks",
            enable: c"cuptiActivityEnable",
            disable: c"cuptiActivityDisable",
            flush: c"cuptiActivityFlushAll",
            next: c"cuptiActivityGetNextRecord",
            timestamp: c"cuptiGetTimestamp",
        })
    }
}

/// A running recording. Its drop stops CUPTI.
pub(crate) struct Recording {
    api: &'static Api,
}

impl Recording {
    /// Begins a recording. `None` without CUPTI, or where it refuses (another profiler uses it, for example).
    pub(crate) fn begin() -> Option<Recording> {
        // Created first: its drop disables the enabled kinds when a later kind is refused.
        let recording = Recording { api: api()? };
        records().clear();
        for kind in KINDS {
            // SAFETY: a plain call.
            if unsafe { (recording.api.enable)(kind as c_int) } != SUCCESS {
                return None;
            }
        }
        Some(recording)
    }

    /// Time of CUPTI's clock, which the records use.
    pub(crate) fn now(&self) -> Option<u64> {
        let mut now = 0;
        // SAFETY: the argument outlives the call.
        (unsafe { (self.api.timestamp)(&mut now) } == SUCCESS).then_some(now)
    }

    /// Ends the recording and returns its records. The caller has waited for the device.
    pub(crate) fn finish(self) -> Option<Vec<Activity>> {
        // SAFETY: a plain call. It returns after CUPTI has passed all buffers to the callback.
        let flushed = unsafe { (self.api.flush)(FLUSH_FORCED) };
        (flushed == SUCCESS).then(|| std::mem::take(&mut *records()))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        for kind in KINDS {
            // SAFETY: a plain call; disabling a kind that is not enabled does nothing.
            let _ = unsafe { (self.api.disable)(kind as c_int) };
        }
    }
}

fn records() -> std::sync::MutexGuard<'static, Vec<Activity>> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Layout of a buffer. Records are aligned to eight bytes; a megabyte holds thousands of them.
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("eight is a power of two"),
};

extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    // SAFETY: the layout has a size. The memory is zeroed, so that gaps between fields hold readable bytes.
    let memory = unsafe { std::alloc::alloc_zeroed(BUFFER) };
    // SAFETY: CUPTI passes three places to write to. A size of zero reports missing memory, and CUPTI drops the records.
    unsafe {
        *buffer = memory;
        *size = if memory.is_null() { 0 } else { BUFFER.size() };
        // Zero: as many records as fit.
        *most_records = 0;
    }
}

extern "C" fn buffer_completed(_context: *mut c_void, _stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    if let Some(Some(api)) = API.get() {
        let valid = valid.min(BUFFER.size());
        // SAFETY: the buffer belongs to this program again. CUPTI wrote `valid` bytes of it, and the rest are zeros.
        let bytes = unsafe { std::slice::from_raw_parts(buffer, valid) };
        let mut record = std::ptr::null_mut();
        // SAFETY: CUPTI iterates over its own records in its own buffer, and returns another code than success at the end.
        while unsafe { (api.next)(buffer, valid, &mut record) } == SUCCESS {
            let offset = (record as usize).wrapping_sub(buffer as usize);
            let parsed = bytes.get(offset..).and_then(parse);
            records().extend(parsed.map(|(activity, name)| {
                // SAFETY: CUPTI's names end with a zero and stay in place as long as it is loaded.
                let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
                let name = name.map(|name| name.to_string_lossy().into_owned()).or(activity.name);
                Activity { name, ..activity }
            }));
        }
    }
    // SAFETY: allocated by `buffer_requested` with this layout, and freed once.
    unsafe { std::alloc::dealloc(buffer, BUFFER) };
}

/// Parses the record at the beginning of `bytes`. Returns the activity and the address of its name, if any. `None` for other kinds.
///
/// CUPTI appends fields to its records in new versions. The fields read here have kept their places since version 9 of CUDA.
fn parse(bytes: &[u8]) -> Option<(Activity, *const c_char)> {
    use std::mem::offset_of;
    let half = |offset: usize| Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?));
    let full = |offset: usize| Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?));
    let kind = half(0)?;
    let is = |known: Kind| kind == known as u32;
    // Fields common to all records of device work.
    let work = |what, [start, end]: [usize; 2], [device, stream, correlation]: [usize; 3]| {
        Some(Activity {
            what,
            name: None,
            device: half(device)?,
            stream: half(stream)?,
            bytes: None,
            start: full(start)?,
            end: full(end)?,
            correlation: half(correlation)?,
        })
    };
    if is(Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) || is(Kind::CUPTI_ACTIVITY_KIND_KERNEL) {
        type R = KernelRecord;
        let times = [offset_of!(R, start), offset_of!(R, end)];
        let place = [offset_of!(R, deviceId), offset_of!(R, streamId), offset_of!(R, correlationId)];
        let activity = work(What::Kernel, times, place)?;
        // CUPTI runs on machines with 64-bit addresses.
        let name = full(offset_of!(KernelRecord, name))? as usize;
        Some((activity, std::ptr::with_exposed_provenance(name)))
    } else if is(Kind::CUPTI_ACTIVITY_KIND_MEMCPY) {
        type R = CopyRecord;
        let times = [offset_of!(R, start), offset_of!(R, end)];
        let place = [offset_of!(R, deviceId), offset_of!(R, streamId), offset_of!(R, correlationId)];
        let byte = |offset: usize| bytes.get(offset).copied();
        let name = copied(byte(offset_of!(R, copyKind))?, [offset_of!(R, srcKind), offset_of!(R, dstKind)].map(byte));
        let bytes = Some(full(offset_of!(R, bytes))?);
        Some((Activity { name: Some(name), bytes, ..work(What::Copy, times, place)? }, std::ptr::null()))
    } else if is(Kind::CUPTI_ACTIVITY_KIND_MEMSET) {
        type R = FillRecord;
        let times = [offset_of!(R, start), offset_of!(R, end)];
        let place = [offset_of!(R, deviceId), offset_of!(R, streamId), offset_of!(R, correlationId)];
        let bytes = Some(full(offset_of!(R, bytes))?);
        Some((Activity { bytes, ..work(What::Fill, times, place)? }, std::ptr::null()))
    } else if is(Kind::CUPTI_ACTIVITY_KIND_DRIVER) || is(Kind::CUPTI_ACTIVITY_KIND_RUNTIME) {
        let activity = Activity {
            what: What::Call,
            name: None,
            device: 0,
            stream: 0,
            bytes: None,
            start: full(offset_of!(ApiRecord, start))?,
            end: full(offset_of!(ApiRecord, end))?,
            correlation: half(offset_of!(ApiRecord, correlationId))?,
        };
        Some((activity, std::ptr::null()))
    } else {
        None
    }
}

/// Returns PyTorch's profiler name of a copy: its direction, and the kinds of memory at both ends.
fn copied(way: u8, memories: [Option<u8>; 2]) -> String {
    let way = match way {
        1 => "HtoD",
        2 => "DtoH",
        8 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "Unknown",
    };
    let [from, to] = memories.map(|memory| match memory {
        Some(1) => "Pageable",
        Some(2) => "Pinned",
        Some(3 | 6) => "Device",
        Some(4) => "Array",
        Some(5 | 7) => "Managed",
        _ => "Unknown",
    });
    format!("Memcpy {way} ({from} -> {to})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cupti::sys::{CUpti_ActivityKernel4, CUpti_ActivityKernel10};

    fn bytes_of<T>(record: &T) -> &[u8] {
        // SAFETY: these tests zero their records as a whole, so that no byte of them is undefined.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
    }

    fn zeroed<T>() -> T {
        // SAFETY: used for plain C structures, whose fields are numbers, pointers and enums that have a zero.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn kernel_records_of_every_version_are_read() {
        let name = c"attention_flash";
        let want = Activity {
            what: What::Kernel,
            name: None,
            device: 3,
            stream: 17,
            bytes: None,
            start: 1 << 60,
            end: (1 << 60) + 7,
            correlation: 42,
        };
        let want = Some((want, name.as_ptr()));
        macro_rules! check {
            ($($record:ty),*) => {$({
                let mut record: $record = zeroed();
                record.kind = Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
                record.start = 1 << 60;
                record.end = (1 << 60) + 7;
                record.completed = 5;
                record.deviceId = 3;
                record.streamId = 17;
                record.correlationId = 42;
                record.name = name.as_ptr();
                assert_eq!(parse(bytes_of(&record)), want);
            })*};
        }
        check!(CUpti_ActivityKernel4, KernelRecord, CUpti_ActivityKernel10);
    }

    #[test]
    fn calls_are_read_and_other_kinds_are_not() {
        let mut record: ApiRecord = zeroed();
        record.kind = Kind::CUPTI_ACTIVITY_KIND_DRIVER;
        record.cbid = 307;
        record.start = 10;
        record.end = 20;
        record.correlationId = 3;
        let want = Activity {
            what: What::Call,
            name: None,
            device: 0,
            stream: 0,
            bytes: None,
            start: 10,
            end: 20,
            correlation: 3,
        };
        assert_eq!(parse(bytes_of(&record)), Some((want, std::ptr::null())));
        record.kind = Kind::CUPTI_ACTIVITY_KIND_NAME;
        assert_eq!(parse(bytes_of(&record)), None);
    }

    #[test]
    fn copies_and_fills_say_where_and_how_much() {
        let mut copy: CopyRecord = zeroed();
        copy.kind = Kind::CUPTI_ACTIVITY_KIND_MEMCPY;
        (copy.copyKind, copy.srcKind, copy.dstKind) = (1, 2, 3);
        (copy.bytes, copy.start, copy.end) = (1 << 33, 10, 30);
        (copy.deviceId, copy.streamId, copy.correlationId) = (1, 14, 9);
        let want = Activity {
            what: What::Copy,
            name: Some("Memcpy HtoD (Pinned -> Device)".to_owned()),
            device: 1,
            stream: 14,
            bytes: Some(1 << 33),
            start: 10,
            end: 30,
            correlation: 9,
        };
        assert_eq!(parse(bytes_of(&copy)), Some((want.clone(), std::ptr::null())));
        let mut fill: FillRecord = zeroed();
        fill.kind = Kind::CUPTI_ACTIVITY_KIND_MEMSET;
        (fill.bytes, fill.start, fill.end) = (1 << 33, 10, 30);
        (fill.deviceId, fill.streamId, fill.correlationId) = (1, 14, 9);
        let want = Activity { what: What::Fill, name: None, ..want };
        assert_eq!(parse(bytes_of(&fill)), Some((want, std::ptr::null())));
        assert_eq!(copied(2, [Some(3), Some(1)]), "Memcpy DtoH (Device -> Pageable)");
    }

    #[test]
    fn a_record_that_is_cut_off_is_none() {
        let mut record: ApiRecord = zeroed();
        record.kind = Kind::CUPTI_ACTIVITY_KIND_RUNTIME;
        assert_eq!(parse(&bytes_of(&record)[..20]), None);
        assert_eq!(parse(&[]), None);
    }
}
