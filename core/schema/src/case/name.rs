//! Names of cases: `workload/direction/shape/dtype/variant`, and variants with a name of their own.

/// Name of the plain host implementation, a variant of every workload.
pub const CPU_VARIANT: &str = "host";

/// Name of the variants written in CubeCL.
pub const CUBE_VARIANT: &str = "cube";

/// Name of CubeK's variants.
pub const CUBEK_VARIANT: &str = "cubek";

/// Variants that need CubeCL's compilers.
pub const CUBECL_VARIANTS: [&str; 2] = [CUBE_VARIANT, CUBEK_VARIANT];

/// Returns whether a variant needs CubeCL's compilers.
pub fn of_cubecl(variant: &str) -> bool {
    CUBECL_VARIANTS.contains(&variant)
}

/// Workload in the string of a case or problem.
pub fn workload_of(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// String of a case without the variant.
pub fn problem_of(case: &str) -> &str {
    case.rsplit_once('/').map_or(case, |(problem, _)| problem)
}

/// Variant in the string of a case.
pub fn variant_of(case: &str) -> &str {
    case.rsplit_once('/').map_or("", |(_, variant)| variant)
}
