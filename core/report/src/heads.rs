//! Names of runs in the heads of columns.

use parallax_analysis::compare::identity::{normalised, same_device};
use parallax_schema::record::{NamedRun, Run, way};

use super::escape;

/// Returns the names of the runs' devices, or for one device those of their targets, browsers and checks. `None` if none of these are
/// distinct.
pub fn heads<'r>(runs: impl Iterator<Item = &'r Run> + Clone) -> Option<Vec<String>> {
    let each = |alike: &dyn Fn(&Run, &Run) -> bool| {
        runs.clone().enumerate().all(|(i, run)| runs.clone().take(i).all(|before| !alike(run, before)))
    };
    let called_alike = |a: &Run, b: &Run| same_device(a, b) || normalised(&a.called()) == normalised(&b.called());
    if each(&called_alike) {
        return Some(runs.map(|run| escape(&run.called()).into_owned()).collect());
    }
    let of_targets = |run: &Run| run.target.clone();
    let of_ways = |run: &Run| run.browser().map_or_else(|| run.way(), |browser| way(&browser, run.reach));
    let names: [&dyn Fn(&Run) -> String; 2] = [&of_targets, &of_ways];
    let name = names.into_iter().find(|name| each(&|a, b| name(a) == name(b)))?;
    Some(runs.map(|run| escape(&name(run)).into_owned()).collect())
}

/// Returns the runs under these names if they are distinct; otherwise under their own names.
pub fn headed(runs: Vec<NamedRun>) -> Vec<NamedRun> {
    match heads(runs.iter().map(|NamedRun { run, .. }| run)) {
        Some(heads) => {
            heads.into_iter().zip(runs).map(|(head, NamedRun { run, .. })| NamedRun::new(head, run)).collect()
        }
        None => runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::WGSL_CHECKS;
    use parallax_schema::testing::called as on;

    #[test]
    fn heads_are_devices_or_the_targets_of_one() {
        let heads = |runs: &[Run]| heads(runs.iter()).map(|heads| heads.join(" | "));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(heads(&[on("browser", "X", ""), on("browser", "Y", "")]), some("X | Y"));
        assert_eq!(heads(&[on("cuda", "NVIDIA X", ""), on("browser", "x", "")]), some("cuda | browser"));
        assert_eq!(heads(&[on("browser", "X", "Ann's"), on("browser", "X", "Bob's")]), some("Ann's | Bob's"));
        assert_eq!(heads(&[on("cuda", "X", "Ann's"), on("browser", "hopper", "Ann's")]), some("cuda | browser"));
        let mut firefox = on("browser", "X", "");
        firefox.environment.insert("user_agent".to_owned(), "(X11; Linux x86_64; rv:153.0) Firefox/153.0".to_owned());
        let mut checked = on("wgpu", "X", "");
        checked.environment.insert(WGSL_CHECKS.to_owned(), "all".to_owned());
        assert_eq!(
            heads(&[on("wgpu", "X", ""), checked, on("browser", "X", ""), firefox]),
            some("wgpu | wgpu (checks: all) | browser | Firefox 153 on Linux")
        );
        assert_eq!(heads(&[on("cuda", "X", ""), on("cuda", "X", "")]), None, "their files tell them apart");
        assert_eq!(heads(&[on("cuda", "X", ""), on("cuda", "Y", ""), on("cuda", "X", "")]), None);
        assert_eq!(heads(&[on("cuda", "X", "same"), on("cuda", "same", "")]), None, "two devices of one name");
    }
}
