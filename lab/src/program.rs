//! Reflection of a kernel source: its entry point, workgroup and bindings.

use naga::back::pipeline_constants::process_overrides;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess, TypeInner};
use parallax_shaders::BindingKind;

use crate::bounds;
use crate::error::{LabError, Label};
use crate::guard::{self, Guarded};
use crate::layout::{Layout, Layouts, type_name};
use crate::overrides::{self, Override};
use crate::request::{BindingPoint, Side};

/// Largest length of a kernel source in bytes.
pub const LONGEST: usize = 1 << 16;

/// Bytes of stack that the compiler takes at most for a kernel source of the longest length: it recurses into each operand.
pub const STACK: usize = 1 << 30;

/// Extension of WGSL that naga does not know. Its functions need no directive there.
const SUBGROUPS: &str = "enable subgroups;";

/// Returns a kernel source with spaces in place of the extension, also in lists: `enable f16, subgroups;`. Spaces keep the places of
/// messages.
fn without_subgroups(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    for part in text.split_inclusive(';') {
        // The directive follows comments and other directives.
        let start = part.rfind('\n').map_or(0, |line| line + 1);
        let (before, line) = part.split_at(start);
        let names = line.trim_start().strip_prefix("enable").and_then(|names| names.strip_suffix(';'));
        let others = |names: &str| {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "subgroups");
            names.collect::<Vec<_>>().join(", ")
        };
        match names.filter(|names| names.split(',').any(|name| name.trim() == "subgroups")).map(others) {
            None => found.push_str(part),
            Some(others) => {
                let directive = if others.is_empty() { others } else { format!("enable {others};") };
                found.push_str(before);
                found.push_str(&format!("{directive:<width$}", width = line.len()));
            }
        }
    }
    found
}

/// A kernel source with the reflection of one entry point.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Kernel.
    pub label: Label,
    /// WGSL for the compiler of this platform.
    pub wgsl: String,
    /// Entry point.
    pub entry: String,
    /// Names of all compute entry points.
    pub entries: Vec<String>,
    /// Threads in one workgroup.
    pub workgroup: [u32; 3],
    /// Workgroup memory in bytes.
    pub shared_bytes: u32,
    /// Whether the kernel source has f16.
    pub half: bool,
    /// Bindings that the entry point uses, by group and number.
    pub bindings: Vec<Reflected>,
    /// Pipeline-overridable constants of the kernel source.
    pub overrides: Vec<Override>,
    /// Their values in the request, by key.
    pub constants: Vec<(String, f64)>,
    /// Variant whose loops end. `None` without loops.
    pub guarded: Option<Guarded>,
}

/// A binding by reflection.
#[derive(Debug, Clone, PartialEq)]
pub struct Reflected {
    /// Group and number.
    pub point: BindingPoint,
    /// Name of the variable.
    pub name: String,
    /// Kind.
    pub kind: BindingKind,
    /// Type in WGSL.
    pub type_name: String,
    /// Layout.
    pub layout: Layout,
    /// Whether it has atomics.
    pub atomic: bool,
}

impl Reflected {
    /// Declaration in messages, as in ``read_write `y`: array<f32>``.
    pub fn declaration(&self) -> String {
        format!("{} `{}`: {}", kind_name(self.kind), self.name, self.type_name)
    }
}

/// Name of a binding's kind in WGSL.
pub(crate) fn kind_name(kind: BindingKind) -> &'static str {
    match kind {
        BindingKind::Uniform => "uniform",
        BindingKind::Read => "read",
        BindingKind::ReadWrite => "read_write",
    }
}

/// Capabilities of kernels from outside: those of WebGPU in browsers, without experimental ones.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER
}

impl Program {
    /// Reflects a kernel source. `iterations` is the limit of its loops in one invocation.
    ///
    /// # Errors
    /// Invalid WGSL with its line; a missing entry point; a binding that is no buffer.
    pub fn reflect(label: Label, side: &Side, iterations: u32) -> Result<Program, LabError> {
        let text = &side.text;
        if text.len() > LONGEST {
            return Err(LabError::TooLong { label, bytes: text.len() });
        }
        let parsed = without_subgroups(text);
        let rejected = |line: Option<u32>, message: String| LabError::Rejected {
            label,
            line,
            message: message.trim_end().to_owned(),
        };
        let module = naga::front::wgsl::parse_str(&parsed).map_err(|e| match e.emit_to_string(&parsed) {
            // Its message speaks of an internal error, without a place.
            message if message.contains("recursion limit") => {
                rejected(None, "its expressions or types are nested too deeply for the compiler".to_owned())
            }
            message => rejected(e.location(&parsed).map(|at| at.line_number), message),
        })?;
        bounds::few_parts(&module)
            .and_then(|()| bounds::small_constants(&module))
            .map_err(|message| rejected(None, message))?;
        let info = Validator::new(ValidationFlags::all(), capabilities())
            .validate(&module)
            .map_err(|e| rejected(e.location(&parsed).map(|at| at.line_number), e.emit_to_string(&parsed)))?;
        let (entry, entries) = chosen(label, &module, side.entry.as_deref())?;
        let overrides = overrides::of(label, &module, side)?;
        // Sizes may depend on overrides.
        let constants = side.overrides.iter().map(|(key, value)| (key.clone(), *value)).collect();
        let (module, info) = process_overrides(&module, &info, Some((ShaderStage::Compute, &entry)), &constants)
            .map_err(|e| rejected(None, with_causes(&e)))?;
        bounds::modest(&module, &info).map_err(|message| rejected(None, message))?;
        let mut guarded = guard::guarded(&module, iterations);
        if cfg!(target_arch = "wasm32") && parsed != *text {
            // naga does not write the directive.
            guarded.iter_mut().for_each(|guarded| guarded.wgsl.insert_str(0, SUBGROUPS));
        }
        let wgsl = if cfg!(target_arch = "wasm32") { text.clone() } else { parsed };
        let constants = side.overrides.clone().into_iter().collect();
        Program { label, wgsl, entry, entries, overrides, constants, guarded, ..Program::empty(label) }
            .with_interface(&module, &info)
    }

    fn empty(label: Label) -> Program {
        Program {
            label,
            wgsl: String::new(),
            entry: String::new(),
            entries: Vec::new(),
            workgroup: [1; 3],
            shared_bytes: 0,
            half: false,
            bindings: Vec::new(),
            overrides: Vec::new(),
            constants: Vec::new(),
            guarded: None,
        }
    }

    /// Adds the workgroup and the bindings of the entry point.
    fn with_interface(mut self, module: &Module, info: &ModuleInfo) -> Result<Program, LabError> {
        let of_name = |entry: &naga::EntryPoint| entry.stage == ShaderStage::Compute && entry.name == self.entry;
        let missing =
            || LabError::NoEntry { label: self.label, wanted: Some(self.entry.clone()), has: "none".to_owned() };
        let index = module.entry_points.iter().position(of_name).ok_or_else(missing)?;
        let uses = info.get_entry_point(index);
        self.workgroup = module.entry_points[index].workgroup_size;
        let is_half = |scalar: &naga::Scalar| scalar.kind == naga::ScalarKind::Float && scalar.width == 2;
        self.half = module.types.iter().any(|(_, ty)| match &ty.inner {
            TypeInner::Scalar(scalar) | TypeInner::Vector { scalar, .. } | TypeInner::Matrix { scalar, .. } => {
                is_half(scalar)
            }
            _ => false,
        });
        for (handle, global) in module.global_variables.iter().filter(|(handle, _)| !uses[*handle].is_empty()) {
            let kind = match global.space {
                AddressSpace::WorkGroup => {
                    let bytes = bounds::size(module, &module.types[global.ty].inner);
                    self.shared_bytes = self.shared_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
                    continue;
                }
                AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => BindingKind::ReadWrite,
                AddressSpace::Storage { .. } => BindingKind::Read,
                AddressSpace::Uniform => BindingKind::Uniform,
                _ if global.binding.is_some() => BindingKind::Read,
                _ => continue,
            };
            let Some(naga::ResourceBinding { group, binding }) = global.binding else { continue };
            let point = BindingPoint { group, binding };
            let name = global.name.clone().unwrap_or_else(|| format!("{handle:?}"));
            let refused =
                |why: &str| LabError::Binding { label: self.label, point, name: name.clone(), why: why.to_owned() };
            let mut layouts = Layouts::new(module);
            let layout = layouts.of(global.ty).map_err(refused)?;
            let (type_name, atomic) = (type_name(module, global.ty), layouts.atomic);
            self.bindings.push(Reflected { point, name, kind, type_name, layout, atomic });
        }
        self.bindings.sort_by_key(|binding| binding.point);
        Ok(self)
    }
}

/// Returns the message of an error with those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the chosen entry point, and the names of all compute entry points.
fn chosen(label: Label, module: &Module, wanted: Option<&str>) -> Result<(String, Vec<String>), LabError> {
    let compute = module.entry_points.iter().filter(|entry| entry.stage == ShaderStage::Compute);
    let entries: Vec<String> = compute.map(|entry| entry.name.clone()).collect();
    let has = if entries.is_empty() { "none".to_owned() } else { entries.join(", ") };
    match (wanted, &entries[..]) {
        (Some(name), _) if entries.iter().any(|entry| entry == name) => Ok((name.to_owned(), entries)),
        (None, [only]) => Ok((only.clone(), entries)),
        (None, [_, _, ..]) => Err(LabError::SeveralEntries { label, has }),
        (wanted, _) => Err(LabError::NoEntry { label, wanted: wanted.map(str::to_owned), has }),
    }
}
