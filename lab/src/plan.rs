//! Plan: the paired bindings of both kernels, their sizes and their launches.

use parallax_shaders::BindingKind;

use crate::contents;
use crate::error::{LabError, Label};
use crate::layout::Layout;
use crate::program::{Program, Reflected};
use crate::request::{BindingPoint, Request, Source};

/// Largest size of one buffer in bytes. Its contents are in the memory of the host too.
const LARGEST: u64 = 1 << 30;

/// A binding of either kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedBinding {
    /// Declaration in A, or in B if A has none.
    pub declared: Reflected,
    /// Declarations in A and in B.
    pub sides: [Option<Reflected>; 2],
    /// Elements of its array, if that is sized at run time.
    pub elements: Option<u64>,
    /// Size in bytes.
    pub bytes: u64,
    /// Source of its contents.
    pub source: Source,
}

impl PlannedBinding {
    /// Group and number.
    pub fn point(&self) -> BindingPoint {
        self.declared.point
    }

    /// Whether the kernels write it.
    pub fn is_output(&self) -> bool {
        self.declared.kind == BindingKind::ReadWrite
    }

    /// Layout and number of elements of its array.
    pub(crate) fn layout(&self) -> (&Layout, u64) {
        (&self.declared.layout, self.elements.unwrap_or(0))
    }

    /// Number of items in a kernel's own type; `None` for a kernel without the binding.
    fn items(&self, label: Label) -> Option<u64> {
        let own = self.sides[label as usize].as_ref()?;
        let elements = own
            .layout
            .runtime()
            .map(|(_, stride, offset)| self.bytes.saturating_sub(u64::from(offset)) / u64::from(stride.max(1)));
        Some(own.layout.items(elements))
    }
}

/// Everything that is known about a comparison without a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// A and B.
    pub programs: [Program; 2],
    /// Bindings of either kernel, by group and number.
    pub bindings: Vec<PlannedBinding>,
    /// Workgroups of A and of B.
    pub grids: [[u32; 3]; 2],
    /// The request.
    pub request: Request,
}

impl Plan {
    /// Reflects both kernels, pairs their bindings, and determines sizes and launches.
    ///
    /// # Errors
    /// Invalid WGSL; bindings that do not match; settings outside their range.
    pub fn new(request: Request) -> Result<Plan, LabError> {
        Plan::announced(request, &mut |_| {})
    }

    /// The same, and calls `begins` before the reflection of each kernel. A compiler that ends the program by a kernel source so leaves
    /// the kernel's label.
    ///
    /// # Errors
    /// Invalid WGSL; bindings that do not match; settings outside their range.
    pub fn announced(request: Request, begins: &mut dyn FnMut(Label)) -> Result<Plan, LabError> {
        checked(&request)?;
        let mut reflected = |label: Label| {
            begins(label);
            Program::reflect(label, request.side(label), request.iterations)
        };
        let programs = [reflected(Label::A)?, reflected(Label::B)?];
        let points = programs.iter().flat_map(|program| &program.bindings).map(|binding| binding.point);
        let mut points: Vec<BindingPoint> = points.collect();
        points.sort();
        points.dedup();
        let named = request.lengths.keys().chain(request.sources.keys());
        if let Some(point) = named.copied().find(|point| !points.contains(point)) {
            let has: Vec<String> = points.iter().map(BindingPoint::to_string).collect();
            let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            return Err(LabError::NoBinding { point, has });
        }
        let bindings =
            points.into_iter().map(|point| paired(point, &programs, &request)).collect::<Result<Vec<_>, _>>()?;
        if !bindings.iter().any(PlannedBinding::is_output) {
            return Err(LabError::NoOutput);
        }
        let grid = |label: Label| grid(&programs[label as usize], &bindings, &request);
        let grids = [grid(Label::A)?, grid(Label::B)?];
        Ok(Plan { programs, bindings, grids, request })
    }

    /// Returns the contents of every binding before an execution.
    ///
    /// # Errors
    /// A file that does not fit its binding; too little memory.
    pub(crate) fn contents(&self) -> Result<Vec<Vec<u8>>, LabError> {
        self.bindings.iter().map(|binding| contents::of(binding, &self.request)).collect()
    }

    /// Positions of a kernel's bindings in the list.
    pub(crate) fn of(&self, label: Label) -> Vec<usize> {
        let used = |(_, binding): &(usize, &PlannedBinding)| binding.sides[label as usize].is_some();
        self.bindings.iter().enumerate().filter(used).map(|(index, _)| index).collect()
    }
}

fn checked(request: &Request) -> Result<(), LabError> {
    let wrong = |name, value: String, why| Err(LabError::Setting { name, value, why });
    let lengths = request.lengths.values().chain([&request.elements]);
    if let Some(length) = lengths.copied().find(|length| *length == 0) {
        return wrong("the number of elements", length.to_string(), "it must be at least 1");
    }
    if let Some(tolerance) = request.tolerance.filter(|t| !(t.is_finite() && *t >= 0.0)) {
        return wrong("the tolerance", tolerance.to_string(), "it must be a number of at least 0");
    }
    if !(request.budget.is_finite() && (0.1..=600.0).contains(&request.budget)) {
        return wrong("the budget", request.budget.to_string(), "it must be 0.1 to 600 seconds");
    }
    if request.iterations == 0 {
        return wrong("the limit of iterations", "0".to_owned(), "it must be at least 1");
    }
    if !(request.limit.is_finite() && (0.1..=3600.0).contains(&request.limit)) {
        return wrong("the limit", request.limit.to_string(), "it must be 0.1 to 3600 seconds");
    }
    Ok(())
}

/// Returns a binding of both kernels, with its size.
fn paired(point: BindingPoint, programs: &[Program; 2], request: &Request) -> Result<PlannedBinding, LabError> {
    let find = |program: &Program| program.bindings.iter().find(|binding| binding.point == point).cloned();
    let sides = [find(&programs[0]), find(&programs[1])];
    let declared = sides.iter().flatten().next().cloned();
    // The caller collects the points from the same lists.
    let declared = declared.ok_or(LabError::NoBinding { point, has: "none".to_owned() })?;
    let alike = match &sides {
        [Some(a), Some(b)] => a.kind == b.kind && same_memory(&a.layout, &b.layout),
        // An input that only one kernel reads has no counterpart.
        _ => declared.kind != BindingKind::ReadWrite,
    };
    let mismatch = || {
        let name = |side: &Option<Reflected>| side.as_ref().map_or("unused".to_owned(), Reflected::declaration);
        LabError::Mismatch { point, a: name(&sides[0]), b: name(&sides[1]) }
    };
    if !alike {
        return Err(mismatch());
    }
    let atomic = sides.iter().flatten().any(|side| side.atomic);
    let source = match request.sources.get(&point) {
        Some(source) => source.clone(),
        None if atomic => Source::Zeros,
        None => Source::Seeded,
    };
    let wrong = |why: String| LabError::Contents { point, why };
    let wanted = request.lengths.get(&point).copied();
    let (elements, bytes) = match (declared.layout.runtime(), &source) {
        (None, _) if wanted.is_some() => return Err(wrong("its size is fixed by its type".to_owned())),
        (None, _) => (None, declared.layout.bytes(0)),
        (Some(_), Source::File(file)) => {
            let elements = contents::elements(&declared, file)?;
            if wanted.is_some_and(|wanted| wanted != elements) {
                return Err(wrong(format!(
                    "its file has {elements} elements, and {} are asked for",
                    wanted.unwrap_or(0)
                )));
            }
            (Some(elements), declared.layout.bytes(elements))
        }
        (Some((_, stride, _)), _) => {
            let elements = wanted.unwrap_or(request.elements);
            // A binding has a multiple of four bytes.
            let elements = if stride % 4 == 0 { elements } else { elements.next_multiple_of(2) };
            (Some(elements), declared.layout.bytes(elements))
        }
    };
    if bytes > LARGEST {
        return Err(wrong(format!("it has {bytes} bytes, the limit is {LARGEST}")));
    }
    if bytes % 4 != 0 {
        return Err(wrong(format!("it has {bytes} bytes, and a binding has a multiple of four")));
    }
    for (label, side) in Label::BOTH.into_iter().zip(&sides) {
        let Some(side) = side else { continue };
        let whole = match side.layout.runtime() {
            Some((_, stride, offset)) => {
                bytes > u64::from(offset) && (bytes - u64::from(offset)) % u64::from(stride.max(1)) == 0
            }
            None => side.layout.bytes(0) == bytes,
        };
        if !whole {
            return Err(if sides.iter().all(Option::is_some) && elements.is_none() {
                mismatch()
            } else {
                wrong(format!("{bytes} bytes are no whole number of elements of `{}` in {label}", side.type_name))
            });
        }
    }
    Ok(PlannedBinding { declared, sides, elements, bytes, source })
}

/// Whether two types have the same scalars at the same places: `array<f32>` and `array<vec4<f32>>` do.
fn same_memory(a: &Layout, b: &Layout) -> bool {
    a == b || a.dense().is_some() && a.dense() == b.dense()
}

/// Returns the workgroups of a kernel: the requested ones, or one thread for each item of the largest output.
fn grid(program: &Program, bindings: &[PlannedBinding], request: &Request) -> Result<[u32; 3], LabError> {
    let wrong = |value: String, why| LabError::Setting { name: "the number of workgroups", value, why };
    if let Some(grid) = request.side(program.label).workgroups {
        return match grid.contains(&0) {
            true => Err(wrong(format!("{grid:?}"), "each dimension must be at least 1")),
            false => Ok(grid),
        };
    }
    let outputs = bindings.iter().filter(|binding| binding.is_output());
    let items = outputs.filter_map(|binding| binding.items(program.label)).max().unwrap_or(1);
    let threads: u64 = program.workgroup.iter().map(|size| u64::from(*size)).product();
    let groups = items.div_ceil(threads.max(1)).max(1);
    let groups = u32::try_from(groups).map_err(|_| wrong(groups.to_string(), "it must be below 4 294 967 296"))?;
    Ok([groups, 1, 1])
}
