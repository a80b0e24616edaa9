//! Runs by device, under names that fit into paths.

use crate::compare::identity::{normalised, same_device};
use crate::compare::one_gpu::distance;
use crate::compare::{Cost, cost};
use crate::device::BrowserMode;
use crate::record::Run;

/// Every device with its runs: those of most targets first, and of these the newest.
pub(super) struct Devices<'r> {
    all: Vec<OnDevice<'r>>,
}

/// A device and what ran on it.
pub(super) struct OnDevice<'r> {
    /// Its name for people.
    pub name: String,
    /// Its name in paths.
    pub slug: String,
    /// Its runs, nearest to the hardware first; of one target, those with what any visitor has, and of these the newest.
    pub runs: Vec<Kept<'r>>,
}

/// A run with its name in paths.
pub(super) struct Kept<'r> {
    /// As the run was named.
    pub named: &'r (String, Run),
    /// The run.
    pub run: &'r Run,
    path: String,
}

impl Kept<'_> {
    /// Where the run file lies in the site.
    pub fn path(&self) -> String {
        self.path.clone()
    }

    /// The name of its file without folder and ending; no two runs of a device have one.
    pub fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".json")
    }

    /// Where a picture of it lies.
    pub fn picture(&self, of: &str) -> String {
        format!("{}.{of}.svg", self.path.trim_end_matches(".json"))
    }
}

/// Give runs that are named by their paths the names of their files alone, where no other run of the same device has that name.
pub fn shorten_names(runs: &mut [(String, Run)]) {
    let short = |name: &str| {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        file.trim_end_matches(".gz").trim_end_matches(".json").to_owned()
    };
    let others = |at: usize, own: &str| {
        let same = |i: &usize| *i != at && same_device(&runs[*i].1, &runs[at].1);
        (0..runs.len()).filter(same).any(|i| short(&runs[i].0) == own)
    };
    let names: Vec<String> = (0..runs.len())
        .map(|at| {
            let own = short(&runs[at].0);
            if own.is_empty() || others(at, &own) { runs[at].0.clone() } else { own }
        })
        .collect();
    runs.iter_mut().zip(names).for_each(|((name, _), short)| *name = short);
}

impl<'r> Devices<'r> {
    /// Of named runs.
    pub fn of(runs: impl IntoIterator<Item = &'r (String, Run)>) -> Devices<'r> {
        let mut groups: Vec<Vec<&(String, Run)>> = Vec::new();
        for named in runs {
            match groups.iter_mut().find(|group| same_device(&group[0].1, &named.1)) {
                Some(group) => group.push(named),
                None => groups.push(vec![named]),
            }
        }
        // Devices seen from several sides first, then the newest; emulated ones last.
        groups.sort_by_key(|group| {
            let newest = group.iter().map(|(_, run)| run.started).max();
            (group[0].1.device().kind.is_emulated(), std::cmp::Reverse((targets_of(group).len(), newest)))
        });
        let mut taken = Vec::new();
        let all = groups.into_iter().map(|group| on_device(group, &mut taken)).collect();
        Devices { all }
    }

    /// All of them.
    pub fn all(&self) -> &[OnDevice<'r>] {
        &self.all
    }

    /// Each target of the devices' views with its reach, sorted.
    pub fn ways(&self) -> Vec<(&str, Option<BrowserMode>)> {
        let views = self.all.iter().flat_map(OnDevice::views);
        let mut ways: Vec<(&str, Option<BrowserMode>)> =
            views.map(|kept| (kept.run.target.as_str(), kept.run.reach)).collect();
        ways.sort_unstable();
        ways.dedup();
        ways
    }

    /// The first device on which a browser can be held against something nearer to the hardware.
    pub fn told(&self) -> Option<(&OnDevice<'r>, Cost)> {
        self.all.iter().find_map(|device| Some((device, device.cost_of("browser")?)))
    }
}

impl<'r> OnDevice<'r> {
    /// What it is, where it is called otherwise.
    pub fn model(&self) -> Option<&'r str> {
        let model = &self.runs.first()?.run.device().name;
        (*model != self.name).then_some(model.as_str())
    }

    /// Where its page lies in the site.
    pub fn path(&self) -> String {
        format!("device/{}", self.slug)
    }

    /// The run of each target that tells most, nearest to the hardware first. In a browser what it had beyond what visitors have
    /// makes it another target, of which only the first is a view.
    pub fn views(&self) -> Vec<&Kept<'r>> {
        let mut views: Vec<&Kept<'r>> = Vec::new();
        for kept in &self.runs {
            match views.iter_mut().find(|other| other.run.target == kept.run.target) {
                Some(other) if other.run.reach == kept.run.reach && timed(other.run) < timed(kept.run) => *other = kept,
                Some(_) => {}
                None => views.push(kept),
            }
        }
        views
    }

    /// The runs of a target with this reach, in the order of the device's runs.
    pub fn through(&self, target: &str, reach: Option<BrowserMode>) -> impl Iterator<Item = &Kept<'r>> {
        self.runs.iter().filter(move |kept| kept.run.target == target && kept.run.reach == reach)
    }

    /// The view through a target.
    pub fn view(&self, target: &str) -> Option<&Kept<'r>> {
        self.views().into_iter().find(|kept| kept.run.target == target)
    }

    /// What each target but the nearest costs on it.
    pub fn costs(&self) -> Vec<Cost> {
        self.views().iter().filter_map(|kept| self.cost_of(&kept.run.target)).collect()
    }

    /// What a target costs on it, against the nearest to the hardware: each run of it against that run there with which it has most
    /// in common.
    pub fn cost_of(&self, target: &str) -> Option<Cost> {
        let nearest = self.runs.first().filter(|kept| kept.run.target != target)?;
        let near = || self.runs.iter().filter(|kept| kept.run.target == nearest.run.target);
        let against = |far: &Kept<'_>| {
            near().filter_map(|near| cost(near.named, far.named).ok()).max_by_key(|cost| cost.problems.len())
        };
        let reach = self.view(target)?.run.reach;
        let mut far: Vec<&Kept<'_>> = self.through(target, reach).collect();
        far.sort_by_key(|kept| std::cmp::Reverse(timed(kept.run)));
        Cost::together(far.into_iter().filter_map(against))
    }
}

/// How many cases of a run have a time.
fn timed(run: &Run) -> usize {
    run.records.iter().filter(|record| record.timing().is_some()).count()
}

fn targets_of<'a>(group: &[&'a (String, Run)]) -> Vec<&'a str> {
    let mut targets: Vec<&str> = group.iter().map(|(_, run)| run.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

fn on_device<'r>(mut group: Vec<&'r (String, Run)>, taken: &mut Vec<String>) -> OnDevice<'r> {
    group
        .sort_by_key(|(_, run)| (distance(&run.target), run.reach.unwrap_or_default(), std::cmp::Reverse(run.started)));
    // Whoever named it knows best, and then who is nearest to the hardware.
    let given = group.iter().find_map(|(_, run)| run.given_name());
    let name = given.unwrap_or_else(|| group[0].1.device().name.clone());
    let slug = unused(&slug(&normalised(&name)), taken);
    let mut files = Vec::new();
    let kept = |named: &'r (String, Run)| {
        let file = unused(&slug_of_run(named), &mut files);
        Kept { named, run: &named.1, path: format!("runs/{slug}/{file}.json") }
    };
    let runs = group.into_iter().map(kept).collect();
    OnDevice { name, slug, runs }
}

fn slug_of_run((name, run): &(String, Run)) -> String {
    let target = slug(&run.target);
    let own = slug(name);
    if own.contains(&target) { own } else { format!("{target}-{own}") }
}

/// Longest name in a path.
const LONGEST: usize = 48;

/// Letters and digits with dashes between them.
pub(super) fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    let short = joined.get(..LONGEST).unwrap_or(&joined).trim_end_matches('-');
    if short.is_empty() { "unnamed".to_owned() } else { short.to_owned() }
}

/// The name, or with a number where it is taken.
pub(super) fn unused(name: &str, taken: &mut Vec<String>) -> String {
    let numbered = (2..).map(|i| format!("{name}-{i}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name)).expect("endless");
    taken.push(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{run, spread};

    #[test]
    fn names_fit_into_paths_and_are_told_apart() {
        assert_eq!(slug("NVIDIA GeForce RTX™ 4090 / PCIe"), "nvidia-geforce-rtx-4090-pcie");
        assert_eq!(slug("../../ö"), "unnamed");
        assert_eq!(slug(&"a-".repeat(200)).len(), LONGEST - 1);
        let mut taken = Vec::new();
        let names: Vec<String> = (0..3).map(|_| unused("x", &mut taken)).collect();
        assert_eq!(names, ["x", "x-2", "x-3"]);
    }

    #[test]
    fn a_path_is_shortened_to_the_name_that_no_other_run_of_the_device_has() {
        let of = |path: &str, device: &str| (path.to_owned(), run("cuda", device, &[]));
        let mut runs = [
            of("a/quick/cuda.json", "NVIDIA H100"),
            of("b/quick/cuda.json", "NVIDIA H200"),
            of("b/blocks/block.json.gz", "NVIDIA H200"),
            of("b/older/cuda.json", "NVIDIA H300"),
            of("c/older/cuda.json", "NVIDIA H300"),
        ];
        shorten_names(&mut runs);
        let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["cuda", "cuda", "block", "b/older/cuda.json", "c/older/cuda.json"]);
    }

    #[test]
    fn a_browser_counts_as_visitors_have_it_and_never_with_what_they_have_not() {
        let of = |target: &str, reach, time: f64, cases: &[&str]| {
            let cases: Vec<_> = cases.iter().map(|case| (*case, spread(time, 0.002, 40))).collect();
            let mut run = run(target, "NVIDIA H200", &cases);
            run.reach = reach;
            (format!("{target}-{time}"), run)
        };
        let (copy, read) = ("copy/fwd/n64/f32/vec4", "read/fwd/n64/f32/vec4");
        let runs = [
            of("browser", Some(BrowserMode::Unsafe), 110.0, &[copy, read]),
            of("browser", Some(BrowserMode::Stock), 300.0, &[copy]),
            of("cuda", None, 100.0, &[copy, read]),
        ];
        let devices = Devices::of(&runs);
        let [device] = devices.all() else { panic!("one device") };
        assert_eq!(device.view("browser").map(|kept| kept.run.reach), Some(Some(BrowserMode::Stock)));
        let cost = device.cost_of("browser").expect("two targets");
        let problems: Vec<&str> = cost.problems.iter().map(|problem| problem.problem.as_str()).collect();
        assert_eq!(problems, ["copy/fwd/n64/f32"], "the other problem was measured with another reach alone");
        assert!((cost.same().expect("one").0 - 3.0).abs() < 0.05);
    }
}
