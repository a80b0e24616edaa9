//! CubeK's ready-made kernels. Its launchers plan on a recording device, and the recorded kernel becomes a source like those of our
//! own kernels.
//!
//! - `device`: properties of that device, from the constants of a stage.
//! - `recorder`: the recording device.
//! - `constants`: the launch arguments besides the buffers (shapes, strides, scalars), as constants of the kernel.
//! - one file for each workload, with its call of CubeK.

mod constants;
mod conv2d;
mod device;
mod matmul;
mod recorder;

use cubecl_core::ir::{ElemType, FloatKind};
use cubecl_core::prelude::{CubeCount, KernelDefinition, TensorBinding};
use cubecl_core::server::KernelResource;
use cubecl_core::{client::Client, define_kernel};
use cubecl_runtime::memory_management::ManagedMemoryId;
use parallax_ir::{Chosen, Recipe, Untranslated, Value};
use parallax_schema::case::DType;

use recorder::Launch;

/// Calls a launcher of CubeK on tensors in the order of the stage's arguments.
///
/// Its error is CubeK's message about a missing kernel.
type Launcher = fn(&Call<'_>, &Client) -> Result<Vec<TensorBinding>, String>;

/// Every launcher by the name of its stage.
const LAUNCHERS: &[(&str, Launcher)] = &[("cubek_matmul", matmul::launch), ("cubek_conv2d", conv2d::launch)];

/// Returns whether a stage belongs to CubeK.
pub fn knows(name: &str) -> bool {
    LAUNCHERS.iter().any(|(known, _)| *known == name)
}

/// Request to a launcher.
struct Call<'a>(&'a Recipe);

impl Call<'_> {
    /// Returns a constant of the stage.
    ///
    /// # Panics
    /// A number that the stage lacks: a mistake in the workload.
    fn size(&self, name: &str) -> usize {
        match self.0.consts.iter().rev().find(|(known, _)| known == name) {
            Some((_, Value::U32(value))) => *value as usize,
            other => panic!("{} has {other:?} where the number {name} is needed", self.0.name),
        }
    }

    fn elem(&self) -> ElemType {
        ElemType::Float(match self.0.elem {
            DType::F32 => FloatKind::F32,
            DType::F16 => FloatKind::F16,
            DType::BF16 => FloatKind::BF16,
        })
    }

    /// Returns a contiguous tensor.
    fn tensor(&self, client: &Client, shape: &[usize]) -> TensorBinding {
        recorder::tensor(client, shape, self.elem().size())
    }
}

/// Returns CubeK's kernel, complete in itself, and its launch. The compiler determines the workgroup memory.
///
/// # Errors
/// No kernel of CubeK for this problem on this device, or none that is a single launch on the stage's buffers.
pub fn planned(recipe: &Recipe) -> Result<(KernelDefinition, Chosen), Untranslated> {
    let (_, launcher) = LAUNCHERS.iter().find(|(name, _)| *name == recipe.name).expect("asked for by its name");
    let call = Call(recipe);
    let (launches, tensors) =
        recorder::record(&device::properties(&call), recipe.dialect, |client| launcher(&call, client))
            .map_err(|why| Untranslated::Refused(format!("CubeK has no kernel for it: {}", one_line(&why))))?;
    let [launch] = &launches[..] else {
        let count = launches.len();
        return Err(Untranslated::Refused(format!("CubeK launches {count} kernels for it, and only one can be taken")));
    };
    let grid = checked(launch, &tensors).map_err(Untranslated::Refused)?;
    let definition = define_kernel(&*launch.kernel).map_err(|why| why.to_string())?;
    let workgroup = definition.settings.cube_dim;
    let blueprint = blueprint(&format!("{:?}", launch.kernel.id()));
    let definition = constants::put_into(definition, &launch.arguments.info.data, &recipe.name)
        .map_err(|why| Untranslated::Refused(format!("CubeK's kernel cannot be taken: {why}")))?;
    let chosen = Chosen { grid, workgroup: [workgroup.x, workgroup.y, workgroup.z], shared_bytes: 0, blueprint };
    Ok((definition, chosen))
}

/// Returns the grid of a launch on exactly these buffers, in this order.
fn checked(launch: &Launch, tensors: &[TensorBinding]) -> Result<[u32; 3], String> {
    let CubeCount::Static(x, y, z) = launch.count else {
        return Err("CubeK leaves the number of workgroups to another kernel".to_owned());
    };
    let bound: Option<Vec<_>> = launch.arguments.resources.iter().map(whole).collect();
    let asked: Vec<_> = tensors.iter().map(|tensor| tensor.handle.claim_key()).collect();
    if bound.as_ref() != Some(&asked) {
        return Err(format!("CubeK binds other buffers than the {} of the stage, in their order", asked.len()));
    }
    Ok([x, y, z])
}

/// Returns the memory that a resource is a part of, if it is a plain buffer.
fn whole(resource: &KernelResource) -> Option<(ManagedMemoryId, u64, u64)> {
    match resource {
        KernelResource::Buffer(buffer) => Some(buffer.claim_key()),
        KernelResource::TensorMap(_) => None,
    }
}

/// Returns CubeK's blueprint from a kernel identifier: the value of that name, or the whole identifier if there is none.
fn blueprint(id: &str) -> String {
    let Some((_, told)) = id.split_once("blueprint: ") else { return id.to_owned() };
    let mut depth = 0;
    let end = told.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && (c == '}' || c == ',')
    });
    let whole = end.map_or(told, |end| &told[..=end]);
    whole.trim_end_matches(',').to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::translator;
    use parallax_ir::Translated;
    use parallax_schema::case::CUBEK_VARIANT;
    use parallax_schema::device::{Caps, Dialect};
    use parallax_schema::testing::{HOPPER, caps};
    use parallax_workloads::parse_case;

    fn recipe(case: &str, caps: &Caps) -> Recipe {
        let case = parse_case(&format!("{case}/{CUBEK_VARIANT}")).expect("valid");
        let program = case.program(caps).expect("a kernel variant");
        Recipe::new(program.kernels().next().expect("a kernel"), case.problem.dtype, caps.dialect)
    }

    fn made(case: &str, caps: &Caps) -> Translated {
        translator().translate(&recipe(case, caps)).unwrap_or_else(|why| panic!("{case}: {why}"))
    }

    fn hopper() -> Caps {
        Caps { dialect: Dialect::Cuda, compute_capability: Some((9, 0)), cuda: Some(HOPPER), ..caps() }
    }

    #[test]
    fn a_launch_is_chosen_and_told_with_its_blueprint() {
        for caps in [caps(), hopper()] {
            let launch = made("matmul/fwd/m65,n67,k33/f32", &caps).launch.expect("CubeK chooses");
            let threads: u32 = launch.workgroup.iter().product();
            assert!(threads > 1 && threads <= caps.max_invocations, "{launch:?}");
            assert!(launch.grid.iter().product::<u32>() > 1, "{launch:?}");
            assert!(launch.shared_bytes > 0, "{launch:?}");
            assert!(launch.blueprint.starts_with("BatchMatmulBlueprint {"), "{launch:?}");
            assert!(launch.blueprint.contains("tile_matmul: Register"), "{launch:?}");
            assert!(launch.blueprint.ends_with('}'), "{launch:?}");
        }
    }

    #[test]
    fn buffers_are_bound_in_order_and_extents_are_constants() {
        let wgsl = made("matmul/fwd/m65,n67,k33/f32", &caps()).text;
        for binding in
            ["binding(0) var<storage, read> ", "binding(1) var<storage, read> ", "binding(2) var<storage, read_write> "]
        {
            assert!(wgsl.contains(binding), "{binding}: {wgsl}");
        }
        assert!(!wgsl.contains("@binding(3)") && !wgsl.contains("info"), "{wgsl}");
        let cuda = made("matmul/fwd/m65,n67,k33/f32", &hopper()).text;
        let parameters =
            cuda.split("  cubek_matmul(").nth(1).and_then(|rest| rest.split(')').next()).expect("an entry");
        assert_eq!(parameters.split(", ").count(), 3, "{parameters}");
    }

    #[test]
    fn sixteen_bit_floats_reach_the_matrix_units_that_a_device_has() {
        let half = |caps: &Caps| made("matmul/fwd/m64,n64,k64/f16", caps).launch.expect("CubeK chooses").blueprint;
        assert!(half(&hopper()).contains("tile_matmul: Cmma"), "{}", half(&hopper()));
        assert!(half(&caps()).contains("tile_matmul: Register"), "plain WGSL has none");
        let before_volta = Caps { compute_capability: Some((6, 1)), ..hopper() };
        assert!(half(&before_volta).contains("tile_matmul: Register"), "{}", half(&before_volta));
    }

    #[test]
    fn a_product_has_the_same_text_each_time_and_another_for_another_device() {
        let other = Caps { subgroup: Some((32, 32)), shared_bytes: 49_152, ..caps() };
        let [one, two, other] = [&caps(), &caps(), &other].map(|caps| made("matmul/fwd/m129,n136,k40/f32", caps));
        assert_eq!((&one.text, &one.launch), (&two.text, &two.launch));
        assert_ne!(one.launch, other.launch);
        let steps: Vec<&str> = one.steps.iter().map(|(step, _)| step.as_str()).collect();
        assert_eq!(steps, ["CubeK plan and expand", "CubeCL emit"]);
    }

    #[test]
    fn what_cubek_has_no_kernel_for_is_refused_with_its_words() {
        let small = Caps { shared_bytes: 2048, ..caps() };
        let why =
            translator().translate(&recipe("matmul/fwd/m129,n136,k40/f32", &small)).expect_err("no room for tiles");
        let said = "CubeK has no kernel for it: ";
        assert!(
            matches!(&why, Untranslated::Refused(why) if why.starts_with(said) && why.contains("Shared memory")),
            "{why:?}"
        );
    }

    #[test]
    fn every_launcher_makes_a_text_in_both_dialects() {
        let cases = ["matmul/fwd/m5,n3,k7/f32", "conv2d/fwd/n1,c24,m136,h5,w7,k3,p1,nhwc/f32"];
        assert_eq!(cases.len(), LAUNCHERS.len());
        for (case, (name, _)) in cases.into_iter().zip(LAUNCHERS) {
            for (caps, entry) in [(caps(), format!("fn {name}(")), (hopper(), format!("  {name}("))] {
                let made = made(case, &caps);
                assert!(made.text.contains(&entry) && made.launch.is_some(), "{case}: {}", made.text);
            }
        }
    }

    #[test]
    fn a_blueprint_is_found_among_what_tells_a_kernel_from_others() {
        assert_eq!(
            blueprint("Id { blueprint: Tiles { m: 4, of: Of { n: 2 } }, more: 1 }"),
            "Tiles { m: 4, of: Of { n: 2 } }"
        );
        assert_eq!(blueprint("Id { blueprint: Rows, more: 1 }"), "Rows");
        assert_eq!(blueprint("Id { tiles: 4 }"), "Id { tiles: 4 }");
    }
}
