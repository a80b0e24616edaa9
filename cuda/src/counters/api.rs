//! Calls of CUPTI's range profiler, resolved once.

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

use cudarc::cupti::sys::{
    CUpti_Device_GetChipName_Params as ChipName, CUpti_Profiler_Host_ConfigAddMetrics_Params as AddMetrics,
    CUpti_Profiler_Host_Deinitialize_Params as HostDeinitialize,
    CUpti_Profiler_Host_EvaluateToGpuValues_Params as Evaluate,
    CUpti_Profiler_Host_GetConfigImage_Params as ConfigImage,
    CUpti_Profiler_Host_GetConfigImageSize_Params as ConfigImageSize,
    CUpti_Profiler_Host_Initialize_Params as HostInitialize, CUpti_Profiler_Initialize_Params as Initialize,
    CUpti_RangeProfiler_CounterData_GetRangeInfo_Params as RangeInfo,
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params as DataInitialize,
    CUpti_RangeProfiler_DecodeData_Params as Decode, CUpti_RangeProfiler_Disable_Params as Disable,
    CUpti_RangeProfiler_Enable_Params as Enable, CUpti_RangeProfiler_GetCounterDataInfo_Params as DataInfo,
    CUpti_RangeProfiler_GetCounterDataSize_Params as DataSize, CUpti_RangeProfiler_PopRange_Params as Pop,
    CUpti_RangeProfiler_PushRange_Params as Push, CUpti_RangeProfiler_SetConfig_Params as SetConfig,
    CUpti_RangeProfiler_Start_Params as Start, CUpti_RangeProfiler_Stop_Params as Stop, CUptiResult,
};
use libloading::Library;

use crate::cupti::WANTED;
use crate::{ffi, libraries};

/// Returns a structure of arguments of a call with its size up to the last field, with the given fields, and with zeros elsewhere.
macro_rules! params {
    ($type:ident, $last:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        // SAFETY: a plain C structure, whose fields are numbers, pointers and enums that have a zero.
        let mut params: $type = unsafe { std::mem::zeroed() };
        params.structSize = std::mem::offset_of!($type, $last) + size_of_val(&params.$last);
        $(params.$field = $value;)*
        params
    }};
}
pub(super) use params;

/// A call with one structure of arguments.
type Call<Params> = unsafe extern "C" fn(*mut Params) -> c_int;

/// Calls of the range profiler. The library stays loaded until the process ends.
pub(super) struct Api {
    initialize: Call<Initialize>,
    pub(super) chip_name: Call<ChipName>,
    pub(super) host_initialize: Call<HostInitialize>,
    pub(super) host_deinitialize: Call<HostDeinitialize>,
    pub(super) add_metrics: Call<AddMetrics>,
    pub(super) config_image_size: Call<ConfigImageSize>,
    pub(super) config_image: Call<ConfigImage>,
    pub(super) evaluate: Call<Evaluate>,
    pub(super) enable: Call<Enable>,
    pub(super) disable: Call<Disable>,
    pub(super) set_config: Call<SetConfig>,
    pub(super) start: Call<Start>,
    pub(super) stop: Call<Stop>,
    pub(super) push: Call<Push>,
    pub(super) pop: Call<Pop>,
    pub(super) decode: Call<Decode>,
    pub(super) data_size: Call<DataSize>,
    pub(super) data_initialize: Call<DataInitialize>,
    pub(super) data_info: Call<DataInfo>,
    pub(super) range_info: Call<RangeInfo>,
    result_string: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    _library: Library,
}

static API: OnceLock<Result<Api, String>> = OnceLock::new();

/// Returns the calls, after CUPTI's initialisation. The search runs once.
///
/// # Errors
/// The reason of the absence of the profiler.
pub(super) fn api() -> Result<&'static Api, String> {
    let load = || {
        let (api, _) = libraries::load(&WANTED, resolve)
            .map_err(|places| format!("hardware counters need CUPTI of CUDA 12.6 or newer: {places}"))?;
        let mut params = params!(Initialize, pPriv {});
        api.call("starting CUPTI's profiler", api.initialize, &mut params)?;
        Ok(api)
    };
    API.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// Resolves the calls in a file. CUPTI looks for its own parts by name, so those beside the file are loaded first.
fn resolve(file: &Path, folder: Option<&Path>) -> Result<Api, libloading::Error> {
    for part in folder.iter().flat_map(|folder| ["nvperf_host", "nvperf_target"].map(|stem| (folder, stem))) {
        for file in libraries::libraries_in(part.0, part.1) {
            // SAFETY: NVIDIA's libraries may be loaded anywhere. A failure shows when CUPTI needs the part.
            std::mem::forget(unsafe { Library::new(file) });
        }
    }
    // SAFETY: CUPTI's initialisers touch no memory of this program. Every symbol has the signature of its header, with results as
    // integers.
    unsafe {
        ffi::resolve!(file => Api {
            initialize: c"cuptiProfilerInitialize",
            chip_name: c"cuptiDeviceGetChipName",
            host_initialize: c"cuptiProfilerHostInitialize",
            host_deinitialize: c"cuptiProfilerHostDeinitialize",
            add_metrics: c"cuptiProfilerHostConfigAddMetrics",
            config_image_size: c"cuptiProfilerHostGetConfigImageSize",
            config_image: c"cuptiProfilerHostGetConfigImage",
            evaluate: c"cuptiProfilerHostEvaluateToGpuValues",
            enable: c"cuptiRangeProfilerEnable",
            disable: c"cuptiRangeProfilerDisable",
            set_config: c"cuptiRangeProfilerSetConfig",
            start: c"cuptiRangeProfilerStart",
            stop: c"cuptiRangeProfilerStop",
            push: c"cuptiRangeProfilerPushRange",
            pop: c"cuptiRangeProfilerPopRange",
            decode: c"cuptiRangeProfilerDecodeData",
            data_size: c"cuptiRangeProfilerGetCounterDataSize",
            data_initialize: c"cuptiRangeProfilerCounterDataImageInitialize",
            data_info: c"cuptiRangeProfilerGetCounterDataInfo",
            range_info: c"cuptiRangeProfilerCounterDataGetRangeInfo",
            result_string: c"cuptiGetResultString",
        })
    }
}

impl Api {
    /// Makes a call. `doing` completes the sentence "... failed".
    ///
    /// # Errors
    /// CUPTI's message, with a remedy for missing permission.
    pub(super) fn call<P>(&self, doing: &str, call: Call<P>, params: &mut P) -> Result<(), String> {
        // SAFETY: the structure belongs to the call by its type. Its pointers are valid, by the callers in this module.
        match unsafe { call(params) } {
            0 => Ok(()),
            code => Err(format!("{doing} failed: {}", self.said(code))),
        }
    }

    fn said(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the argument outlives the call.
        let known = unsafe { (self.result_string)(code, &mut text) } == 0 && !text.is_null();
        // SAFETY: CUPTI's strings are static, and end with a zero.
        let text = known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        format!("{}{}", text.unwrap_or_else(|| format!("error {code}")), remedy(code))
    }
}

/// Returns the remedy for a result, after a colon; empty for most.
fn remedy(code: c_int) -> &'static str {
    use CUptiResult as Code;
    let is = |known: Code| code == known as c_int;
    if is(Code::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) || is(Code::CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
    {
        ": the driver reserves hardware counters for administrators; `parallax doctor` shows the setting that opens them"
    } else if is(Code::CUPTI_ERROR_HARDWARE_BUSY) || is(Code::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
        ": another profiler uses the counters; end it"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_structures_end_at_their_last_fields() {
        // The C macro for sizes leaves the padding at the end out.
        assert_eq!(params!(Stop, isAllPassSubmitted {}).structSize, 41);
        assert_eq!(params!(SetConfig, targetNestingLevel {}).structSize, 90);
        assert_eq!(params!(Initialize, pPriv {}).structSize, 16);
    }

    #[test]
    fn missing_permission_has_a_remedy() {
        assert!(remedy(CUptiResult::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES as c_int).contains("doctor"));
        assert!(remedy(CUptiResult::CUPTI_ERROR_HARDWARE_BUSY as c_int).contains("another profiler"));
        assert_eq!(remedy(CUptiResult::CUPTI_ERROR_UNKNOWN as c_int), "");
    }
}
