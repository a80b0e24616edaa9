//! Interface of a kernel: of WGSL by reflection, of a launch from the driver's data.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use parallax_schema::device::Launch;
use parallax_schema::units::percent;

/// Error of a rejected kernel source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Line of the final source, from one, if known.
    pub line: Option<usize>,
    /// Compiler message with an excerpt of the source.
    pub message: String,
}

/// Returns one line per entry point of a kernel source: bindings with their access, threads of a workgroup, workgroup
/// memory.
///
/// # Errors
/// Invalid source, or missing entry point.
pub fn wgsl(text: &str, entries: &[&str]) -> Result<Vec<String>, Rejected> {
    let module = naga::front::wgsl::parse_str(text).map_err(|e| Rejected {
        line: e.location(text).map(|at| at.line_number as usize),
        message: e.emit_to_string(text),
    })?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).map_err(|e| Rejected {
        line: e.location(text).map(|at| at.line_number as usize),
        message: e.emit_to_string(text),
    })?;
    entries.iter().map(|entry| reflect(&module, &info, entry)).collect()
}

fn reflect(module: &naga::Module, info: &naga::valid::ModuleInfo, name: &str) -> Result<String, Rejected> {
    let missing = || Rejected { line: None, message: format!("there is no entry point `{name}`") };
    let index = module.entry_points.iter().position(|entry| entry.name == name).ok_or_else(missing)?;
    let mut bindings = Vec::new();
    let mut memory = 0;
    for (handle, global) in module.global_variables.iter() {
        if info.get_entry_point(index)[handle].is_empty() {
            continue;
        }
        match (global.space, &global.binding) {
            (naga::AddressSpace::WorkGroup, _) => memory += module.types[global.ty].inner.size(module.to_ctx()),
            (naga::AddressSpace::Storage { access }, Some(binding)) => {
                let access = if access.contains(naga::StorageAccess::STORE) { "read_write" } else { "read" };
                let name = global.name.as_deref().unwrap_or("?");
                bindings.push((binding.group, binding.binding, format!("{name} ({access})")));
            }
            _ => {}
        }
    }
    bindings.sort();
    let bindings: Vec<String> =
        bindings.into_iter().map(|(group, binding, what)| format!("@{group}.{binding} {what}")).collect();
    let [x, y, z] = module.entry_points[index].workgroup_size;
    Ok(format!("{name}: {}; {x}×{y}×{z} threads, {memory} B of workgroup memory", bindings.join(", ")))
}

/// Returns a line about a launch; `None` if the driver reports no registers.
pub fn launch(launch: &Launch) -> Option<String> {
    let registers = launch.registers?;
    let spilled = launch.spilled.map_or(0, |bytes| bytes.0);
    let occupancy = launch.occupancy.map_or_else(|| "unknown".to_owned(), percent);
    let (entry, shared) = (&launch.entry, launch.shared.0);
    Some(format!("{entry}: {registers} registers, {spilled} B spilled, {shared} B shared, occupancy {occupancy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::units::Bytes;

    const TEXT: &str = "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n\
                        @group(0) @binding(0) var<storage, read> x: array<f32>;\n\
                        var<workgroup> tile: array<f32, 8>;\n\
                        @compute @workgroup_size(4, 2) fn both(@builtin(local_invocation_index) i: u32) {\n\
                        tile[i] = x[i];\n y[i] = tile[7u - i];\n}\n\
                        @compute @workgroup_size(1) fn one() { y[0] = 1.0; }\n";

    #[test]
    fn each_entry_point_shows_what_it_uses() {
        let lines = wgsl(TEXT, &["both", "one"]).expect("valid");
        let want = [
            "both: @0.0 x (read), @0.1 y (read_write); 4×2×1 threads, 32 B of workgroup memory",
            "one: @0.1 y (read_write); 1×1×1 threads, 0 B of workgroup memory",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn what_is_rejected_has_a_line() {
        let broken = wgsl(&TEXT.replace("tile[i] = x[i];", "tile[i] = x[i"), &["both"]).expect_err("no WGSL");
        assert!(broken.line.is_some_and(|line| line >= 5), "{broken:?}");
        let mistyped = wgsl(&TEXT.replace("= 1.0", "= 1u"), &["one"]).expect_err("a type too many");
        assert_eq!(mistyped.line, Some(8), "{mistyped:?}");
        let missing = wgsl(TEXT, &["two"]).expect_err("no such entry");
        assert!(missing.message.contains("two") && missing.line.is_none());
    }

    #[test]
    fn launches_tell_what_the_driver_told() {
        let told = Launch {
            entry: "k".to_owned(),
            registers: Some(40),
            shared: Bytes(1024),
            spilled: Some(Bytes(8)),
            occupancy: Some(0.5),
            ..Launch::default()
        };
        let line = launch(&told).expect("registers are known");
        assert!(line.starts_with("k: 40 registers, 8 B spilled, 1024 B shared, occupancy 50"), "{line}");
        assert_eq!(launch(&Launch::default()), None);
    }
}
