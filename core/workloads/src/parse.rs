//! Cases by their canonical string.

use parallax_ir::{Case, Problem};
use parallax_schema::case::{CPU_VARIANT, CaseError, named};

use crate::all;

/// Returns the case with a canonical string.
///
/// # Errors
/// A string of another form, or an unknown part; the error lists the known names.
pub fn parse_case(text: &str) -> Result<Case, CaseError> {
    let form = || CaseError::Form(text.to_owned());
    let (problem, variant) = text.rsplit_once('/').ok_or_else(form)?;
    let problem = problem_of(problem).unwrap_or_else(|| Err(form()))?;
    let variants = problem.form().variants.iter().map(|v| v.name).chain([CPU_VARIANT]);
    let variant = named("variant", variant, variants.map(|v| (v, v)))?;
    Ok(Case { problem, variant })
}

/// Returns the problem with a canonical string.
///
/// # Errors
/// A string of another form, or an unknown part; the error lists the known names.
pub fn parse_problem(text: &str) -> Result<Problem, CaseError> {
    problem_of(text).unwrap_or_else(|| Err(CaseError::ProblemForm(text.to_owned())))
}

/// Returns the problem of a string; `None` for a string without four parts.
fn problem_of(text: &str) -> Option<Result<Problem, CaseError>> {
    let parts: Vec<&str> = text.split('/').collect();
    let [workload, direction, shape, dtype] = parts[..] else { return None };
    let parsed = || {
        let workload = named("workload", workload, all().iter().map(|w| (w.name, w)))?;
        let form = named("direction", direction, workload.forms.iter().map(|f| (f.direction.name(), f)))?;
        let dtype = named("dtype", dtype, workload.dtypes.iter().map(|d| (d.name(), *d)))?;
        Problem::new(workload, form.direction, shape, dtype)
    };
    Some(parsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_strings_survive_a_round_trip() {
        for text in [
            "attention/fwd/b1,h8,s512,d64,causal/f16/flash",
            "attention/fwd/b2,h1,s7,t13,d72/f32/manual",
            "depthwise_conv2d/fwd/n8,c64,h512,w96,k3,p1,nhwc/bf16/tiled",
            "hash_embedding/fwd/r100,g7,d64,sorted/f32/auto",
            "attention/fwd/b1,h1,s1,d1/f32/host",
        ] {
            assert_eq!(parse_case(text).map(|c| c.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_needs_fewer_operations_is_held_against_those() {
        let least = |case: &str| parse_case(case).expect("valid").least_cost();
        let at = "conv2d/fwd/n2,c16,h12,k3,p1,nhwc/f32";
        let [direct, winograd, vendor] = ["direct", "winograd", "vendor"].map(|name| least(&format!("{at}/{name}")));
        assert_eq!(4 * winograd.flops.0, direct.flops.0 * 16 / 9);
        assert_eq!((4 * vendor.flops.0, vendor.moved()), (direct.flops.0, direct.moved()));
        assert_eq!(
            least("conv3d/fwd/n1,c2,d4,h5,k3,ndhwc/f32/vendor"),
            least("conv3d/fwd/n1,c2,d4,h5,k3,ndhwc/f32/direct")
        );
        let integers = least("matmul_i8/fwd/m2,n3,k4/f32/dot4");
        assert_eq!((integers.flops.0, integers.moved().0), (0, 8 + 12 + 8 + 12 + 24), "no ceiling is one of integers");
    }

    #[test]
    fn defaults_are_left_out() {
        let case = parse_case("attention/fwd/d64,h8,b1,t512,s512/f32/flash").expect("valid");
        assert_eq!(case.to_string(), "attention/fwd/b1,h8,s512,d64/f32/flash");
    }

    #[test]
    fn bad_strings_name_the_part_and_the_choices() {
        for (text, part) in [
            ("attention", "is not a case"),
            ("atention/fwd/b1,h1,s1,d1/f32/flash", "unknown workload `atention`"),
            ("attention/up/b1,h1,s1,d1/f32/flash", "unknown direction `up`"),
            ("attention/fwd/b1,h1,s1,d1/f64/flash", "unknown dtype `f64`"),
            ("attention/fwd/b1,h1,s1,d1/f32/fast", "unknown variant `fast`"),
            ("attention/fwd/b1,h1,s1/f32/flash", "`d` (head dim) is missing"),
            ("attention/fwd/b0,h1,s1,d1/f32/flash", "must be at least 1, not 0"),
            ("attention/fwd/b1,h1,s1,d1,z3/f32/flash", "`z3` has no meaning here"),
            ("attention/fwd/b1,b1,h1,s1,d1/f32/flash", "`b` is given twice"),
            ("attention/fwd/b1,h1,s1,d1,casual/f32/flash", "`casual` has no meaning here"),
            ("attention/fwd/b1,h99999999999999999999,s1,d1/f32/flash", "is not a name and a number"),
        ] {
            let error = parse_case(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
