//! Runs by device, under names that fit into paths.

use parallax_analysis::compare::identity::{normalised, same_device};
use parallax_analysis::compare::one_gpu::distance;
use parallax_analysis::compare::{Cost, cost};
use parallax_schema::catalog::Catalog;
use parallax_schema::device::BrowserMode;
use parallax_schema::record::{NamedRun, Route, Run};

/// Devices with their runs, sorted by the number of targets, then by the newest run.
pub(super) struct Devices<'r> {
    /// Source of facts about cases.
    pub catalog: &'r dyn Catalog,
    all: Vec<OnDevice<'r>>,
}

/// A device and its runs.
pub(super) struct OnDevice<'r> {
    /// Display name.
    pub name: String,
    /// Name in paths.
    pub slug: String,
    /// Runs, nearest to the hardware first; of one target, by browser mode from stock on, and then the newest first.
    pub runs: Vec<Kept<'r>>,
}

/// A run with its name in paths.
pub(super) struct Kept<'r> {
    /// The named run.
    pub named: &'r NamedRun,
    /// The run.
    pub run: &'r Run,
    path: String,
}

impl Kept<'_> {
    /// Returns the path of the run file in the site.
    pub fn path(&self) -> String {
        self.path.clone()
    }

    /// Returns the name of its file without folder and ending; it is unique on the device.
    pub fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".json")
    }

    /// Returns the path of a picture of the run.
    pub fn picture(&self, of: &str) -> String {
        format!("{}.{of}.svg", self.path.trim_end_matches(".json"))
    }
}

/// Shortens names that are paths to file names, unless another run of the same device has that name.
pub fn shorten_names(runs: &mut [NamedRun]) {
    let short = |name: &str| {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        file.trim_end_matches(".gz").trim_end_matches(".json").to_owned()
    };
    let others = |at: usize, own: &str| {
        let same = |i: &usize| *i != at && same_device(&runs[*i].run, &runs[at].run);
        (0..runs.len()).filter(same).any(|i| short(&runs[i].name) == own)
    };
    let names: Vec<String> = (0..runs.len())
        .map(|at| {
            let own = short(&runs[at].name);
            if own.is_empty() || others(at, &own) { runs[at].name.clone() } else { own }
        })
        .collect();
    runs.iter_mut().zip(names).for_each(|(NamedRun { name, .. }, short)| *name = short);
}

impl<'r> Devices<'r> {
    /// Returns named runs, grouped by device.
    pub fn new(catalog: &'r dyn Catalog, runs: impl IntoIterator<Item = &'r NamedRun>) -> Devices<'r> {
        let mut groups: Vec<Vec<&NamedRun>> = Vec::new();
        for named in runs {
            match groups.iter_mut().find(|group| same_device(&group[0].run, &named.run)) {
                Some(group) => group.push(named),
                None => groups.push(vec![named]),
            }
        }
        // Devices with several targets first, then the newest; emulated ones last.
        groups.sort_by_key(|group| {
            let newest = group.iter().map(|NamedRun { run, .. }| run.started).max();
            (group[0].run.device().kind.is_emulated(), std::cmp::Reverse((targets_of(group).len(), newest)))
        });
        let mut taken = Vec::new();
        let all = groups.into_iter().map(|group| on_device(group, &mut taken)).collect();
        Devices { catalog, all }
    }

    /// Returns all devices.
    pub fn all(&self) -> &[OnDevice<'r>] {
        &self.all
    }

    /// Returns the routes of the devices' views, sorted.
    pub fn ways(&self) -> Vec<Route> {
        let views = self.all.iter().flat_map(OnDevice::views);
        let mut ways: Vec<Route> = views.map(|kept| kept.run.route()).collect();
        ways.sort_unstable();
        ways.dedup();
        ways
    }

    /// Returns the first device with a comparison of a browser and a target nearer to the hardware.
    pub fn told(&self) -> Option<(&OnDevice<'r>, Cost)> {
        self.all.iter().find_map(|device| Some((device, device.cost_of(&device.browser()?.run.route())?)))
    }
}

impl<'r> OnDevice<'r> {
    /// Returns the device's model, if its name is another.
    pub fn model(&self) -> Option<&'r str> {
        let model = &self.runs.first()?.run.device().name;
        (*model != self.name).then_some(model.as_str())
    }

    /// Returns the path of the device's page in the site.
    pub fn path(&self) -> String {
        format!("device/{}", self.slug)
    }

    /// Returns the run of each engine with the most timed cases, nearest to the hardware first. Of several browser modes of one engine,
    /// the first is a view, and the unsafe mode is one of its own: it has matrix units, which visitors lack.
    pub fn views(&self) -> Vec<&Kept<'r>> {
        let mut views: Vec<&Kept<'r>> = Vec::new();
        for kept in &self.runs {
            match views.iter_mut().find(|other| column(&other.run.route()) == column(&kept.run.route())) {
                // An unknown mode yields to a known one.
                Some(other) if yields(other.run, kept.run) && timed(other.run) < timed(kept.run) => *other = kept,
                Some(_) => {}
                None => views.push(kept),
            }
        }
        views
    }

    /// Returns the runs of a route, in the order of the device's runs.
    pub fn through(&self, route: &Route) -> impl Iterator<Item = &Kept<'r>> {
        self.runs.iter().filter(move |kept| kept.run.route() == *route)
    }

    /// Returns the view of the engine of a route.
    pub fn view(&self, route: &Route) -> Option<&Kept<'r>> {
        self.views().into_iter().find(|kept| column(&kept.run.route()) == column(route))
    }

    /// Returns the view of a browser, Chromium's before others.
    pub fn browser(&self) -> Option<&Kept<'r>> {
        self.views().into_iter().find(|kept| kept.run.target == "browser")
    }

    /// Returns the cost of each view but the nearest, with the view.
    pub fn costs(&self) -> Vec<(&Kept<'r>, Cost)> {
        self.views().into_iter().filter_map(|kept| Some((kept, self.cost_of(&kept.run.route())?))).collect()
    }

    /// Returns the cost of the engine of a route against the nearest to the hardware. Each run of the view's route is compared with the
    /// run of the nearest engine that shares the most problems.
    pub fn cost_of(&self, route: &Route) -> Option<Cost> {
        let nearest = self.runs.first()?.run.route().engine();
        if nearest == route.engine() {
            return None;
        }
        let near = || self.runs.iter().filter(|kept| kept.run.route().engine() == nearest);
        let against = |far: &Kept<'_>| {
            near().filter_map(|near| cost(near.named, far.named).ok()).max_by_key(|cost| cost.problems.len())
        };
        let route = self.view(route)?.run.route();
        let mut far: Vec<&Kept<'_>> = self.through(&route).collect();
        far.sort_by_key(|kept| std::cmp::Reverse(timed(kept.run)));
        Cost::together(far.into_iter().filter_map(against))
    }
}

/// Engine of a route, and whether its mode is unsafe: routes with both in common share a view.
fn column(route: &Route) -> (Route, bool) {
    (route.engine(), route.reach == Some(BrowserMode::Unsafe))
}

/// Whether a run of one engine may replace another as its view.
fn yields(shown: &Run, other: &Run) -> bool {
    shown.reach.is_none() || shown.reach == other.reach
}

/// Number of cases of a run with a time.
fn timed(run: &Run) -> usize {
    run.records.iter().filter(|record| record.timing().is_some()).count()
}

fn targets_of<'a>(group: &[&'a NamedRun]) -> Vec<&'a str> {
    let mut targets: Vec<&str> = group.iter().map(|NamedRun { run, .. }| run.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

fn on_device<'r>(mut group: Vec<&'r NamedRun>, taken: &mut Vec<String>) -> OnDevice<'r> {
    group.sort_by_key(|NamedRun { run, .. }| {
        let Route { target, browser, reach, .. } = run.route();
        let engine = (distance(&target), !run.compiled_as_usual(), browser);
        (engine, reach.unwrap_or_default(), std::cmp::Reverse(run.started))
    });
    // A given name has precedence, then the name in the run nearest to the hardware.
    let given = group.iter().find_map(|NamedRun { run, .. }| run.given_name());
    let name = given.unwrap_or_else(|| group[0].run.device().name.clone());
    let slug = unused(&slug(&normalised(&name)), taken);
    let mut files = Vec::new();
    let kept = |named: &'r NamedRun| {
        let file = unused(&slug_of_run(named), &mut files);
        Kept { named, run: &named.run, path: format!("runs/{slug}/{file}.json") }
    };
    let runs = group.into_iter().map(kept).collect();
    OnDevice { name, slug, runs }
}

fn slug_of_run(NamedRun { name, run }: &NamedRun) -> String {
    let target = slug(&run.target);
    let own = slug(name);
    if own.contains(&target) { own } else { format!("{target}-{own}") }
}

/// Maximum length of a name in a path.
const LONGEST: usize = 48;

/// Returns the letters and digits of a name with dashes between its words.
pub(super) fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    let short = joined.get(..LONGEST).unwrap_or(&joined).trim_end_matches('-');
    if short.is_empty() { "unnamed".to_owned() } else { short.to_owned() }
}

/// Returns the name, with a number if it is taken.
pub(super) fn unused(name: &str, taken: &mut Vec<String>) -> String {
    let numbered = (2..).map(|i| format!("{name}-{i}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name)).expect("endless");
    taken.push(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::WGSL_CHECKS;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

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
        let of = |path: &str, device: &str| NamedRun::new(path, run("cuda", device, &[]));
        let mut runs = [
            of("a/quick/cuda.json", "NVIDIA H100"),
            of("b/quick/cuda.json", "NVIDIA H200"),
            of("b/blocks/block.json.gz", "NVIDIA H200"),
            of("b/older/cuda.json", "NVIDIA H300"),
            of("c/older/cuda.json", "NVIDIA H300"),
        ];
        shorten_names(&mut runs);
        let names: Vec<&str> = runs.iter().map(|NamedRun { name, .. }| name.as_str()).collect();
        assert_eq!(names, ["cuda", "cuda", "block", "b/older/cuda.json", "c/older/cuda.json"]);
    }

    #[test]
    fn a_browser_counts_as_visitors_have_it_and_never_with_what_they_have_not() {
        let of = |target: &str, reach, time: f64, cases: &[&str]| {
            let cases: Vec<_> = cases.iter().map(|case| (*case, spread(time, 0.002, 40))).collect();
            let mut run = run(target, "NVIDIA H200", &cases);
            run.reach = reach;
            NamedRun::new(format!("{target}-{time}"), run)
        };
        let (copy, read) = ("copy/fwd/n64/f32/vec4", "read/fwd/n64/f32/vec4");
        let runs = [
            of("browser", Some(BrowserMode::Unsafe), 110.0, &[copy, read]),
            of("browser", Some(BrowserMode::Stock), 300.0, &[copy]),
            of("cuda", None, 100.0, &[copy, read]),
        ];
        let devices = Devices::new(&Registry, &runs);
        let [device] = devices.all() else { panic!("one device") };
        let browser = device.browser().expect("a view").run;
        assert_eq!(browser.reach, Some(BrowserMode::Stock));
        let cost = device.cost_of(&browser.route()).expect("two targets");
        let problems: Vec<&str> = cost.problems.iter().map(|problem| problem.problem.as_str()).collect();
        assert_eq!(problems, ["copy/fwd/n64/f32"], "the other problem was measured with another reach alone");
        assert!((cost.same().expect("one").0 - 3.0).abs() < 0.05);
    }

    #[test]
    fn each_engine_of_a_device_is_a_view_of_its_own() {
        let copy = "copy/fwd/n64/f32/vec4";
        let of = |target: &str, fact: Option<(&str, &str)>, reach, time: f64| {
            let mut run = run(target, "NVIDIA H200", &[(copy, spread(time, 0.002, 40))]);
            run.reach = reach;
            run.environment.extend(fact.map(|(key, value)| (key.to_owned(), value.to_owned())));
            NamedRun::new(format!("{target}-{time}"), run)
        };
        let (stock, unsafely) = (Some(BrowserMode::Stock), Some(BrowserMode::Unsafe));
        let runs = [
            of("browser", Some(("user_agent", "Gecko/20100101 Firefox/153.0")), stock, 500.0),
            of("browser", Some(("user_agent", "HeadlessChrome/156.0")), unsafely, 160.0),
            of("browser", Some(("user_agent", "HeadlessChrome/156.0")), stock, 200.0),
            of("wgpu", Some((WGSL_CHECKS, "all")), None, 300.0),
            of("wgpu", None, None, 110.0),
            of("cuda", None, None, 100.0),
        ];
        let devices = Devices::new(&Registry, &runs);
        let [device] = devices.all() else { panic!("one device") };
        let views: Vec<String> = device.views().iter().map(|kept| kept.run.way()).collect();
        let want =
            ["cuda", "wgpu", "wgpu (checks: all)", "browser (stock)", "browser (unsafe)", "browser (Firefox, stock)"];
        assert_eq!(views, want);
        let ratios: Vec<f64> = device.costs().iter().map(|(_, cost)| cost.same().expect("one").0.round()).collect();
        assert_eq!(ratios, [1.0, 3.0, 2.0, 2.0, 5.0], "each against CUDA");
        assert_eq!(device.browser().map(|kept| kept.run.way()).as_deref(), Some("browser (stock)"));
        assert_eq!(devices.ways().len(), 6);
    }

    #[test]
    fn a_run_of_unknown_mode_yields_to_a_fuller_one() {
        let of = |name: &str, reach, cases: &[&str]| {
            let cases: Vec<_> = cases.iter().map(|case| (*case, spread(100.0, 0.002, 40))).collect();
            let mut run = run("browser", "NVIDIA H200", &cases);
            run.reach = reach;
            NamedRun::new(name, run)
        };
        let (copy, read) = ("copy/fwd/n64/f32/vec4", "read/fwd/n64/f32/vec4");
        let runs = [of("block", None, &[copy]), of("quick", Some(BrowserMode::Developer), &[copy, read])];
        let devices = Devices::new(&Registry, &runs);
        let views: Vec<&str> = devices.all()[0].views().iter().map(|kept| kept.file()).collect();
        assert_eq!(views, ["browser-quick"]);
    }
}
