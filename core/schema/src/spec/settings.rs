//! The one list of settings. Flags of the command line, keys of a URL query and of a settings file, and the controls of the
//! page are made from it. A setting therefore has the same name, values and default everywhere.

use std::fmt;

use crate::case::{DType, Preset, named, nearest};
use crate::device::Launching;
use crate::spec::setting_values::{add, directions, on_off, positive, push, put, seconds, switch, whole, words};
use crate::spec::{Cache, InputSet, Spec, SpecError, sweep};

/// Description of one setting.
pub struct Setting {
    /// Name: the flag without dashes, the key of the query and of the settings file.
    pub name: &'static str,
    /// Purpose in a few words, without a full stop.
    pub about: &'static str,
    /// Further description in sentences, without the last full stop; mostly empty.
    pub more: &'static str,
    /// Allowed values.
    pub values: Values,
    /// Whether it may be given several times.
    pub repeatable: bool,
    /// Part of a run that it affects.
    pub scope: Scope,
    /// Whether a short help shows it.
    pub usual: bool,
    /// Control in the page; without one, only a link can set it there.
    pub control: Option<Control>,
    set: fn(&mut Spec, &str) -> Result<(), SpecError>,
    get: fn(&Spec) -> Vec<String>,
}

/// Allowed values of a setting.
pub enum Values {
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// `on` or `off`.
    Switch,
    /// A number, with a placeholder for help texts that names its unit.
    Number(&'static str),
    /// A string with its own syntax, with a placeholder for help texts.
    Text(&'static str),
}

/// Part of a run that a setting affects, in the order of the run. A program that only plans uses settings up to
/// [`Scope::Planning`]; a program that only checks uses those up to [`Scope::Computing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Selection among the presets' cases. It does not affect cases that are named individually.
    Preset,
    /// Selection of cases, however they were named.
    Cases,
    /// Launch of cases on a device, on which a plan depends.
    Planning,
    /// Computation of the cases.
    Computing,
    /// Measurement of the cases.
    Measuring,
    /// Contents of the trace.
    Trace,
}

/// Control of a setting in the page.
pub struct Control {
    /// Heading.
    pub title: &'static str,
    /// A few words beside the heading; backticks mark code.
    pub hint: &'static str,
    /// Example for a text field.
    pub example: &'static str,
    /// Words that the page shows only if the link already has them.
    pub unoffered: &'static [&'static str],
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Setting {
    /// Sets a value in a spec; a repeatable setting keeps earlier values.
    ///
    /// # Errors
    /// An invalid value.
    pub fn set(&self, spec: &mut Spec, value: &str) -> Result<(), SpecError> {
        (self.set)(spec, value)
    }

    /// Returns its values in a spec, as they would be written. Empty for an unset value without a default.
    pub fn get(&self, spec: &Spec) -> Vec<String> {
        (self.get)(spec)
    }

    /// Returns its default values.
    pub fn default(&self) -> Vec<String> {
        self.get(&Spec::default())
    }

    /// Whether its name without a value can only mean `on`.
    pub fn is_off_by_default(&self) -> bool {
        matches!(self.values, Values::Switch) && self.default() == ["off"]
    }

    /// Returns a placeholder for help texts: its words if they are short, or the kind of its string or number.
    pub fn placeholder(&self) -> String {
        match self.values {
            Values::Switch => "on|off".to_owned(),
            Values::Number(what) | Values::Text(what) => what.to_owned(),
            Values::Words(words) => match words().join("|") {
                few if few.len() <= 16 => few,
                _ => self.name.to_uppercase(),
            },
        }
    }
}

/// Returns the setting with a name.
///
/// # Errors
/// An unknown name; the error lists the known ones.
pub fn setting(name: &str) -> Result<&'static Setting, SpecError> {
    SETTINGS.iter().find(|s| s.name == name).ok_or_else(|| SpecError::Key(name.to_owned()))
}

/// Returns the setting that a misspelt name resembles, as a question, or else the names of all settings.
pub(super) fn suggestion(given: &str) -> String {
    let names = || SETTINGS.iter().map(|setting| setting.name);
    match nearest(given, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the settings are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// Returns a switch that affects the contents of the trace.
const fn traced(
    name: &'static str,
    about: &'static str,
    set: fn(&mut Spec, &str) -> Result<(), SpecError>,
    get: fn(&Spec) -> Vec<String>,
) -> Setting {
    let (values, scope) = (Values::Switch, Scope::Trace);
    Setting { name, about, more: "", values, repeatable: false, scope, usual: false, control: None, set, get }
}

/// Every setting, in the order of display and of writing.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "preset",
        about: "Shapes: quick, standard or full",
        more: "Quick has one of each workload, without backward passes and bf16 unless a filter, a direction or a type selects them. \
               Awkward shapes are small and cross the edges of tiles, huge ones have buffers beyond 4 GiB; both are for verify",
        values: Values::Words(|| words(Preset::ALL)),
        repeatable: false,
        scope: Scope::Preset,
        usual: true,
        // Figures of the awkward shapes mean nothing, and the huge ones do not run in a page.
        control: Some(Control { title: "Preset", hint: "", example: "", unoffered: &["awkward", "huge"] }),
        set: |spec, value| put(&mut spec.preset, named("preset", value, Preset::ALL)),
        get: |spec| vec![spec.preset.name().to_owned()],
    },
    Setting {
        name: "filter",
        about: "Keep cases with these parts",
        more: "Whole segments of the case, with * for anything, as in attention*flash or f16/flash; a space is \"or\"",
        values: Values::Text("PATTERN"),
        repeatable: true,
        scope: Scope::Cases,
        usual: true,
        control: Some(Control {
            title: "Filter",
            hint: "whole segments of a case; `*` is anything; a space is “or”",
            example: "attention*flash",
            unoffered: &[],
        }),
        set: |spec, value| {
            spec.filter.extend(value.split_whitespace().map(str::to_owned));
            Ok(())
        },
        get: |spec| spec.filter.clone(),
    },
    Setting {
        name: "direction",
        about: "Keep this direction",
        more: "Forward, backward, or both as one step; a workload without it has no case then",
        values: Values::Words(|| words(directions())),
        repeatable: true,
        scope: Scope::Preset,
        usual: false,
        control: None,
        set: |spec, value| push(&mut spec.direction, named("direction", value, directions())),
        get: |spec| spec.direction.iter().map(|d| d.name().to_owned()).collect(),
    },
    Setting {
        name: "dtype",
        about: "Keep this element type",
        more: "",
        values: Values::Words(|| words(DType::ALL)),
        repeatable: true,
        scope: Scope::Preset,
        usual: true,
        // WGSL has no bf16; offering it would only offer skips.
        control: Some(Control { title: "Element type", hint: "none: all", example: "", unoffered: &["bf16"] }),
        set: |spec, value| push(&mut spec.dtype, named("dtype", value, DType::ALL)),
        get: |spec| spec.dtype.iter().map(|d| d.name().to_owned()).collect(),
    },
    Setting {
        name: "variant",
        about: "Keep this variant",
        more: "",
        values: Values::Text("VARIANT"),
        repeatable: true,
        scope: Scope::Preset,
        usual: false,
        control: None,
        set: |spec, value| add(&mut spec.variant, value),
        get: |spec| spec.variant.clone(),
    },
    Setting {
        name: "shape",
        about: "Extents that replace the preset's, one after the other",
        more: "As n1,n8,n32, or c8xh128,c32xh256 to change several together; several lists give every combination. A \
               workload without the extent has no case then",
        values: Values::Text("LIST"),
        repeatable: true,
        scope: Scope::Preset,
        usual: false,
        control: None,
        set: |spec, value| {
            sweep::parse(value)?;
            spec.shape.push(value.to_owned());
            Ok(())
        },
        get: |spec| spec.shape.clone(),
    },
    Setting {
        name: "scaling",
        about: "Add the shapes of the scaling tables to the preset",
        more: "For workloads with such a table. Default: on for profile, off otherwise",
        values: Values::Switch,
        repeatable: false,
        scope: Scope::Preset,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.scaling, switch("scaling", value).map(Some)),
        get: |spec| spec.scaling.into_iter().flat_map(on_off).collect(),
    },
    Setting {
        name: "case",
        about: "Select exactly this case, of any shape",
        more: "As workload/direction/shape/dtype/variant; `parallax list` shows some",
        values: Values::Text("CASE"),
        repeatable: true,
        scope: Scope::Cases,
        usual: true,
        control: None,
        set: |spec, value| add(&mut spec.case, value),
        get: |spec| spec.case.clone(),
    },
    Setting {
        name: "problem",
        about: "Select the variants of this problem, of any shape",
        more: "As workload/direction/shape/dtype; with --case, both are selected, and --variant chooses among its variants",
        values: Values::Text("PROBLEM"),
        repeatable: true,
        scope: Scope::Cases,
        usual: false,
        control: None,
        set: |spec, value| add(&mut spec.problem, value),
        get: |spec| spec.problem.clone(),
    },
    Setting {
        name: "seed",
        about: "Seed of the inputs",
        more: "",
        values: Values::Number("NUMBER"),
        repeatable: false,
        scope: Scope::Computing,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.seed, whole("seed", value, 0..=u64::MAX, "a whole number from 0 to 2^64 - 1")),
        get: |spec| vec![spec.seed.to_string()],
    },
    Setting {
        name: "repeat",
        about: "Executions of a check, whose outputs are compared bit by bit",
        more: "For verify, of variants that are declared deterministic; the others are checked once",
        values: Values::Number("NUMBER"),
        repeatable: false,
        scope: Scope::Computing,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.repeat, whole("repeat", value, 1..=1000, "a whole number from 1 to 1000")),
        get: |spec| vec![spec.repeat.to_string()],
    },
    Setting {
        name: "inputs",
        about: "Input set: seeded numbers, or stress inputs",
        more: "Stress inputs are for verify: each operation has its own sets, such as zeros, huge or skewed",
        values: Values::Words(|| words(InputSet::ALL)),
        repeatable: false,
        scope: Scope::Cases,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.inputs, named("inputs", value, InputSet::ALL)),
        get: |spec| vec![spec.inputs.name().to_owned()],
    },
    Setting {
        name: "budget",
        about: "Seconds of samples for the whole run",
        more: "",
        values: Values::Number("SECONDS"),
        repeatable: false,
        scope: Scope::Measuring,
        usual: true,
        control: Some(Control { title: "Time", hint: "seconds", example: "", unoffered: &[] }),
        set: |spec, value| put(&mut spec.budget, seconds("budget", value)),
        get: |spec| vec![spec.budget.to_string()],
    },
    Setting {
        name: "precision",
        about: "Stop a case at this relative width of its 95 % interval",
        more: "Half the interval's width over the median, as in 0.01. Default: 0.01 natively and 0.02 in a \
               page",
        values: Values::Number("SHARE"),
        repeatable: false,
        scope: Scope::Measuring,
        usual: true,
        control: None,
        set: |spec, value| {
            put(&mut spec.precision, positive("precision", value, "a fraction above 0, as in 0.01").map(Some))
        },
        get: |spec| spec.precision.iter().map(f64::to_string).collect(),
    },
    Setting {
        name: "cache",
        about: "State of the caches at the start of an execution",
        more: "Hot: as the last execution left them. Cold: executions cycle through more data than the caches can contain",
        values: Values::Words(|| words(Cache::ALL)),
        repeatable: false,
        scope: Scope::Measuring,
        usual: true,
        control: Some(Control { title: "Caches", hint: "cold: data comes from memory", example: "", unoffered: &[] }),
        set: |spec, value| put(&mut spec.cache, named("cache", value, Cache::ALL)),
        get: |spec| vec![spec.cache.name().to_owned()],
    },
    Setting {
        name: "launch",
        about: "Launch mode of stages",
        more: "On cuda stream or graph, on wgpu and browser one-pass or pass-each. Default: stream and one-pass",
        values: Values::Words(|| words(Launching::ALL)),
        repeatable: false,
        scope: Scope::Planning,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.launch, named("launch", value, Launching::ALL).map(Some)),
        get: |spec| spec.launch.iter().map(|l| l.name().to_owned()).collect(),
    },
    Setting {
        name: "set",
        about: "Value of a tunable",
        more: "As NAME=VALUE for every variant with it, or workload.variant.NAME=VALUE",
        values: Values::Text("NAME=VALUE"),
        repeatable: true,
        scope: Scope::Planning,
        usual: false,
        control: None,
        set: |spec, value| add(&mut spec.set, value),
        get: |spec| spec.set.clone(),
    },
    Setting {
        name: "ceilings",
        about: "Measure the ceilings of the device",
        more: "",
        values: Values::Switch,
        repeatable: false,
        scope: Scope::Measuring,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.ceilings, switch("ceilings", value)),
        get: |spec| on_off(spec.ceilings),
    },
    Setting {
        name: "energy",
        about: "Measure joules per execution of each case",
        more: "In a steady stretch of some seconds after the samples, beside the counter of NVML for a GPU and of RAPL for a \
               processor. The idle power is measured first. A device without a readable counter gives the reason",
        values: Values::Switch,
        repeatable: false,
        scope: Scope::Measuring,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.energy, switch("energy", value)),
        get: |spec| on_off(spec.energy),
    },
    Setting {
        name: "counters",
        about: "Read the hardware counters of each stage",
        more: "Bytes of device memory and caches, hit rates, bank conflicts, busy pipes, reasons of waiting. On cuda, by CUPTI, in \
               executions after the samples that no time includes. Elsewhere, or without permission, the reason",
        values: Values::Switch,
        repeatable: false,
        scope: Scope::Measuring,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.counters, switch("counters", value)),
        get: |spec| on_off(spec.counters),
    },
    Setting {
        name: "clocks",
        about: "Show the clocks of the device during each case",
        more: "Medians and ranges of the clocks of multiprocessors and memory and of the power, and the share of samples with \
               reduced clocks. They are read after each sample, by NVML of NVIDIA's driver",
        values: Values::Switch,
        repeatable: false,
        scope: Scope::Measuring,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.clocks, switch("clocks", value)),
        get: |spec| on_off(spec.clocks),
    },
    Setting {
        name: "schedule",
        about: "Schedule of traced executions of each case",
        more: "As wait=N,warmup=N,active=N,repeat=N: executions that run untraced, that are traced and dropped, and that \
               are kept, and the number of repetitions of these three",
        values: Values::Text("SCHEDULE"),
        repeatable: false,
        scope: Scope::Trace,
        usual: false,
        control: None,
        set: |spec, value| put(&mut spec.schedule, value.parse()),
        get: |spec| vec![spec.schedule.to_string()],
    },
    traced(
        "record-shapes",
        "Record shapes and types of the inputs in the trace",
        |spec, value| put(&mut spec.record_shapes, switch("record-shapes", value)),
        |spec| on_off(spec.record_shapes),
    ),
    traced(
        "profile-memory",
        "Record device memory over time in the trace",
        |spec, value| put(&mut spec.profile_memory, switch("profile-memory", value)),
        |spec| on_off(spec.profile_memory),
    ),
    traced(
        "with-stack",
        "Record the host's call stack at each submission in the trace",
        |spec, value| put(&mut spec.with_stack, switch("with-stack", value)),
        |spec| on_off(spec.with_stack),
    ),
];

#[cfg(test)]
mod tests;
