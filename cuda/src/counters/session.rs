//! The two halves of CUPTI's range profiler: the host's half, which knows the metrics, and the ranges of a context.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};

use cudarc::cupti::sys::{
    CUpti_Device_GetChipName_Params as ChipName, CUpti_Profiler_Host_ConfigAddMetrics_Params as AddMetrics,
    CUpti_Profiler_Host_Deinitialize_Params as HostDeinitialize,
    CUpti_Profiler_Host_EvaluateToGpuValues_Params as Evaluate,
    CUpti_Profiler_Host_GetConfigImage_Params as ConfigImage,
    CUpti_Profiler_Host_GetConfigImageSize_Params as ConfigImageSize,
    CUpti_Profiler_Host_Initialize_Params as HostInitialize, CUpti_Profiler_Host_Object as HostObject,
    CUpti_ProfilerRange, CUpti_ProfilerReplayMode, CUpti_ProfilerType,
    CUpti_RangeProfiler_CounterData_GetRangeInfo_Params as RangeInfo,
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params as DataInitialize,
    CUpti_RangeProfiler_DecodeData_Params as Decode, CUpti_RangeProfiler_Disable_Params as Disable,
    CUpti_RangeProfiler_Enable_Params as Enable, CUpti_RangeProfiler_GetCounterDataInfo_Params as DataInfo,
    CUpti_RangeProfiler_GetCounterDataSize_Params as DataSize, CUpti_RangeProfiler_Object as RangeObject,
    CUpti_RangeProfiler_PopRange_Params as Pop, CUpti_RangeProfiler_PushRange_Params as Push,
    CUpti_RangeProfiler_SetConfig_Params as SetConfig, CUpti_RangeProfiler_Start_Params as Start,
    CUpti_RangeProfiler_Stop_Params as Stop,
};
use parallax_schema::record::COUNTERS;

use super::api::{Api, params};
use super::metrics::metric;
use crate::driver::CudaContext;

/// Metrics of a chip, and the image that configures the device for them.
pub(super) struct Host {
    api: &'static Api,
    object: *mut HostObject,
    /// Names of the counters that the chip has, with the factors to their units.
    counters: Vec<(&'static str, f64)>,
    /// Names of their metrics.
    metrics: Vec<CString>,
    config: Vec<u8>,
}

impl Host {
    /// Returns the metrics of a device. Counters that the chip lacks are left out.
    ///
    /// # Errors
    /// CUPTI's message.
    pub(super) fn new(api: &'static Api, device: c_int) -> Result<Host, String> {
        let mut chip = params!(ChipName, pChipName { deviceIndex: usize::try_from(device).unwrap_or(0) });
        api.call("asking for the name of the chip", api.chip_name, &mut chip)?;
        let mut made = params!(
            HostInitialize,
            pHostObject {
                profilerType: CUpti_ProfilerType::CUPTI_PROFILER_TYPE_RANGE_PROFILER,
                pChipName: chip.pChipName,
            }
        );
        api.call("asking for the counters of the chip", api.host_initialize, &mut made)?;
        let object = made.pHostObject;
        let mut host = Host { api, object, counters: Vec::new(), metrics: Vec::new(), config: Vec::new() };
        for counter in COUNTERS {
            let Some(metric) = metric(counter.name) else { continue };
            let name = CString::new(metric.name.into_owned()).map_err(|error| error.to_string())?;
            if host.add(&name).is_ok() {
                host.counters.push((counter.name, metric.scale));
                host.metrics.push(name);
            }
        }
        if host.metrics.is_empty() {
            return Err("CUPTI knows no counter of this chip".to_owned());
        }
        let mut size = params!(ConfigImageSize, configImageSize { pHostObject: object });
        api.call("sizing the configuration", api.config_image_size, &mut size)?;
        host.config = vec![0; size.configImageSize];
        let mut image = params!(
            ConfigImage,
            pConfigImage {
                pHostObject: object,
                configImageSize: host.config.len(),
                pConfigImage: host.config.as_mut_ptr(),
            }
        );
        api.call("making the configuration", api.config_image, &mut image)?;
        Ok(host)
    }

    fn add(&self, name: &CStr) -> Result<(), String> {
        let mut names = [name.as_ptr()];
        let mut add = params!(
            AddMetrics,
            numMetrics { pHostObject: self.object, ppMetricNames: names.as_mut_ptr(), numMetrics: 1 }
        );
        self.api.call("adding a metric", self.api.add_metrics, &mut add)
    }

    fn names(&self) -> Vec<*const c_char> {
        self.metrics.iter().map(|name| name.as_ptr()).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut params = params!(HostDeinitialize, pHostObject { pHostObject: self.object });
        let _ = self.api.call("freeing the metrics", self.api.host_deinitialize, &mut params);
    }
}

/// Ranges of a context, whose counters CUPTI reads. The drop ends the profiling of the context.
pub(super) struct Ranges<'h> {
    host: &'h Host,
    object: *mut RangeObject,
    /// Image that CUPTI fills with the counters of all ranges.
    data: Vec<u8>,
    /// Names of the ranges: their numbers.
    names: Vec<CString>,
}

impl<'h> Ranges<'h> {
    /// Starts the profiling of a context, with `count` ranges in each pass.
    ///
    /// # Errors
    /// CUPTI's message.
    pub(super) fn enable(host: &'h Host, context: &CudaContext, count: usize) -> Result<Ranges<'h>, String> {
        let api = host.api;
        let mut enable = params!(Enable, pRangeProfilerObject { ctx: context.cu_context().cast() });
        api.call("opening the counters", api.enable, &mut enable)?;
        let names = (0..count).map(|number| CString::new(number.to_string()).expect("digits")).collect();
        let object = enable.pRangeProfilerObject;
        let mut ranges = Ranges { host, object, data: Vec::new(), names };
        let mut metrics = host.names();
        let mut size = params!(
            DataSize,
            counterDataSize {
                pRangeProfilerObject: object,
                pMetricNames: metrics.as_mut_ptr(),
                numMetrics: metrics.len(),
                maxNumOfRanges: count,
                maxNumRangeTreeNodes: u32::try_from(count).unwrap_or(u32::MAX),
            }
        );
        api.call("sizing the counters", api.data_size, &mut size)?;
        ranges.data = vec![0; size.counterDataSize];
        let mut blank = params!(
            DataInitialize,
            pCounterData {
                pRangeProfilerObject: object,
                counterDataSize: ranges.data.len(),
                pCounterData: ranges.data.as_mut_ptr(),
            }
        );
        api.call("preparing the counters", api.data_initialize, &mut blank)?;
        let mut config = params!(
            SetConfig,
            targetNestingLevel {
                pRangeProfilerObject: object,
                configSize: host.config.len(),
                pConfig: host.config.as_ptr(),
                counterDataImageSize: ranges.data.len(),
                pCounterDataImage: ranges.data.as_mut_ptr(),
                range: CUpti_ProfilerRange::CUPTI_UserRange,
                replayMode: CUpti_ProfilerReplayMode::CUPTI_UserReplay,
                maxRangesPerPass: count,
                numNestingLevels: 1,
                minNestingLevel: 1,
                passIndex: 0,
                targetNestingLevel: 1,
            }
        );
        api.call("configuring the counters", api.set_config, &mut config)?;
        Ok(ranges)
    }

    /// Starts a pass.
    pub(super) fn start(&self) -> Result<(), String> {
        let mut params = params!(Start, pRangeProfilerObject { pRangeProfilerObject: self.object });
        self.host.api.call("starting a pass", self.host.api.start, &mut params)
    }

    /// Ends a pass. Returns whether it was the last.
    pub(super) fn stop(&mut self) -> Result<bool, String> {
        let mut params = params!(Stop, isAllPassSubmitted { pRangeProfilerObject: self.object });
        self.host.api.call("ending a pass", self.host.api.stop, &mut params)?;
        Ok(params.isAllPassSubmitted != 0)
    }

    /// Begins the range with this number.
    pub(super) fn push(&self, number: usize) -> Result<(), String> {
        let name = self.names[number].as_ptr();
        let mut params = params!(Push, pRangeName { pRangeProfilerObject: self.object, pRangeName: name });
        self.host.api.call("beginning a range", self.host.api.push, &mut params)
    }

    /// Ends the range.
    pub(super) fn pop(&self) -> Result<(), String> {
        let mut params = params!(Pop, pRangeProfilerObject { pRangeProfilerObject: self.object });
        self.host.api.call("ending a range", self.host.api.pop, &mut params)
    }

    /// Returns the values of every range, after the last pass.
    ///
    /// # Errors
    /// CUPTI's message; ranges that it dropped.
    pub(super) fn values(&mut self, count: usize) -> Result<Vec<BTreeMap<String, f64>>, String> {
        let api = self.host.api;
        let mut decode = params!(Decode, numOfRangeDropped { pRangeProfilerObject: self.object });
        api.call("reading the counters", api.decode, &mut decode)?;
        let mut info = params!(
            DataInfo,
            numTotalRanges { pCounterDataImage: self.data.as_ptr(), counterDataImageSize: self.data.len() }
        );
        api.call("counting the ranges", api.data_info, &mut info)?;
        if (decode.numOfRangeDropped, info.numTotalRanges) != (0, count) {
            let (kept, dropped) = (info.numTotalRanges, decode.numOfRangeDropped);
            return Err(format!("CUPTI kept {kept} of {count} stages and dropped {dropped}"));
        }
        let mut values = vec![BTreeMap::new(); count];
        for index in 0..count {
            let number = self.number(index)?;
            let of_range = values.get_mut(number).ok_or_else(|| format!("CUPTI names an unknown range {number}"))?;
            *of_range = self.evaluate(index)?;
        }
        Ok(values)
    }

    /// Returns the number of the range at an index of the image.
    fn number(&self, index: usize) -> Result<usize, String> {
        let mut info = params!(
            RangeInfo,
            rangeName {
                pCounterDataImage: self.data.as_ptr(),
                counterDataImageSize: self.data.len(),
                rangeIndex: index,
                rangeDelimiter: c"/".as_ptr(),
            }
        );
        self.host.api.call("asking for the name of a range", self.host.api.range_info, &mut info)?;
        if info.rangeName.is_null() {
            return Err("a range has no name".to_owned());
        }
        // SAFETY: CUPTI's string ends with a zero, and is read before the next call.
        let name = unsafe { CStr::from_ptr(info.rangeName) }.to_string_lossy();
        name.parse().map_err(|_| format!("CUPTI names an unknown range `{name}`"))
    }

    fn evaluate(&self, index: usize) -> Result<BTreeMap<String, f64>, String> {
        let mut metrics = self.host.names();
        let mut found = vec![f64::NAN; metrics.len()];
        let mut evaluate = params!(
            Evaluate,
            pMetricValues {
                pHostObject: self.host.object,
                pCounterDataImage: self.data.as_ptr(),
                counterDataImageSize: self.data.len(),
                rangeIndex: index,
                ppMetricNames: metrics.as_mut_ptr(),
                numMetrics: metrics.len(),
                pMetricValues: found.as_mut_ptr(),
            }
        );
        self.host.api.call("computing the counters", self.host.api.evaluate, &mut evaluate)?;
        let named = self.host.counters.iter().zip(found);
        let values = named.map(|((name, scale), value)| ((*name).to_owned(), value * scale));
        // A ratio of nothing to nothing is no number.
        Ok(values.filter(|(_, value)| value.is_finite() && *value >= 0.0).collect())
    }
}

impl Drop for Ranges<'_> {
    fn drop(&mut self) {
        let mut params = params!(Disable, pRangeProfilerObject { pRangeProfilerObject: self.object });
        let _ = self.host.api.call("closing the counters", self.host.api.disable, &mut params);
    }
}
