//! Facts about cases, for readers of run files.

use parallax_ir::{Case, GPUS, OpSpec, Role, Shape, Stage, Workload};
use parallax_schema::case::Rate;
use parallax_schema::catalog::{CaseFacts, Catalog, Divided, InputFacts, ScalingFacts, StageFacts};
use parallax_schema::device::Caps;
use parallax_schema::record::Record;

use crate::label::label_of;
use crate::{all, find, parse_case};

/// The workloads of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registry;

impl Catalog for Registry {
    fn rate(&self, workload: &str, direction: &str) -> Option<Rate> {
        let has_name = |spec: &&OpSpec| spec.direction.name() == direction;
        Some(find(workload)?.forms.iter().find(has_name)?.rate)
    }

    fn label(&self, problem: &str) -> Option<String> {
        label_of(problem)
    }

    fn case(&self, case: &str) -> Option<CaseFacts> {
        let problem = parse_case(case).ok()?.problem;
        let inputs = problem.buffers().into_iter().filter(|buffer| buffer.role.fill().is_some());
        Some(CaseFacts {
            probe: !problem.workload.probes.is_empty(),
            inputs: inputs
                .map(|buffer| InputFacts { storage: buffer.elem.storage(problem.dtype), dims: buffer.dims })
                .collect(),
            input_bytes: problem.bytes(|buffer| buffer.role.fill().is_some()),
            output_bytes: problem.bytes(|buffer| matches!(buffer.role, Role::Output { .. } | Role::InOut { .. })),
        })
    }

    fn stages(&self, record: &Record, caps: &Caps) -> Option<Vec<StageFacts>> {
        let mut case = parse_case(&record.case).ok()?;
        if let Some(actual) = &record.actual {
            case.variant = case.problem.form().variant(&actual.variant)?.name;
        }
        let stages = case.program(caps)?.stages;
        Some(stages.into_iter().map(|stage| facts_of(&case, stage)).collect())
    }

    fn divided(&self, workload: &str) -> Option<Divided> {
        let workload = find(workload).filter(|workload| workload.has_gpus_axis())?;
        let items = workload.axes.iter().find(|axis| axis.items)?;
        Some(Divided { items: items.key, name: items.about, gpus: GPUS.key })
    }

    fn scalings(&self) -> Vec<ScalingFacts> {
        let facts = |workload: &'static Workload| {
            let (axis, scaling) = workload.scaling()?;
            let extent = |shape: &str| {
                let shape = Shape::parse(workload.axes, shape).expect("a test parses all of them");
                shape[axis.key] / scaling.per.map_or(1, |key| shape[key])
            };
            let shapes = scaling.shapes.iter().map(|shape| (*shape, extent(shape))).collect();
            Some(ScalingFacts { workload: workload.name, counts: scaling.counts, shapes, sides: scaling.sides })
        };
        all().iter().filter_map(facts).collect()
    }
}

/// Returns the facts about a stage of a case.
fn facts_of(case: &Case, stage: Stage) -> StageFacts {
    let uses = |name: &str| stage.args.iter().any(|arg| arg.buffer == name);
    StageFacts {
        entry: stage.entry().to_owned(),
        component: stage.component,
        dtype: stage.kernel_launch().and_then(|kernel| kernel.elem).unwrap_or(case.problem.dtype),
        cost: stage.cost,
        transfer: stage.crossing(&case.problem),
        buffer_bytes: case.problem.bytes(|buffer| uses(buffer.name)),
        label: stage.label.into_owned(),
    }
}
