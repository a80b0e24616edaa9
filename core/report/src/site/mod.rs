//! Site of runs: the cost of the browser, each device, comparisons, and explanations of the figures. Its static pages show
//! everything without a script; pages with tables have a script for search and order. Text of a run is escaped, and a page loads
//! only from its own folder.

mod collector;
mod compared;
mod costs;
mod device;
mod devices;
mod explain;
mod facts;
mod family;
mod features;
mod frame;
mod front;
mod history;
mod joules;
mod matrix;
mod peers;
mod pictures;
mod problems;
mod speeds;

pub use self::collector::{Collector, Hidden};
use self::compared::Set;
pub use self::devices::shorten_names;
use self::devices::{Devices, Kept, OnDevice};
use self::explain::{TOPICS, Topic};
use crate::Peers;
use parallax_analysis::Family;
use parallax_analysis::history::HistoryBuilder;
use parallax_schema::catalog::Catalog;
use parallax_schema::record::{NamedRun, SCHEMA_PATH, json_schema};

/// A file of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path below the site's folder.
    pub path: String,
    /// Contents.
    pub text: String,
}

/// Contents of the site besides run files.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// Source of facts about cases.
    pub catalog: &'a dyn Catalog,
    /// Whether the measuring page lies in `run/`.
    pub measures: bool,
    /// Collector of the site, if it has one.
    pub collector: Option<Collector<'a>>,
    /// Figures of other libraries.
    pub peers: &'a [Peers],
    /// Whether documents lie in `docs/`.
    pub docs: bool,
    /// Runs that only the page of changes over time shows.
    pub earlier: Option<&'a HistoryBuilder>,
    /// Address of the site's folder, with a slash at its end, if it is known. Chats load a page's picture by its whole address.
    pub address: Option<&'a str>,
}

impl<'a> Site<'a> {
    /// Returns a site of runs alone, at an unknown address.
    pub fn new(catalog: &'a dyn Catalog) -> Site<'a> {
        Site { catalog, measures: false, collector: None, peers: &[], docs: false, earlier: None, address: None }
    }
}

/// A site about named runs. Its pages and files are made on request.
pub struct Pages<'r> {
    site: Site<'r>,
    runs: Vec<&'r NamedRun>,
    devices: Devices<'r>,
    sets: Vec<Set<'r>>,
}

/// Content of a path.
enum Part<'p, 'r> {
    Front,
    Compare,
    History,
    Schema,
    Explained,
    Fixed(&'static str),
    Topic(&'static Topic),
    Device(&'p OnDevice<'r>),
    Family(&'p OnDevice<'r>, Family),
    Samples(&'p OnDevice<'r>, Family),
    Facts(&'p OnDevice<'r>),
    Speeds(&'p OnDevice<'r>, &'p Kept<'r>),
    Compared(&'p Set<'r>),
    Ratios(&'p Set<'r>, usize),
    Cost(&'p OnDevice<'r>, &'p Kept<'r>),
    CostPicture(&'p OnDevice<'r>, &'p Kept<'r>),
    RooflinePicture(&'p Kept<'r>),
    Run(&'p Kept<'r>),
    Recorded,
}

impl<'r> Pages<'r> {
    /// Returns the site about these runs. No page is made yet.
    pub fn new(runs: impl IntoIterator<Item = &'r NamedRun>, site: Site<'r>) -> Pages<'r> {
        let runs: Vec<&NamedRun> = runs.into_iter().collect();
        let devices = Devices::new(site.catalog, runs.iter().copied());
        let sets = compared::sets(&devices);
        Pages { site, runs, devices, sets }
    }

    /// Returns the text of the page or file at a path below the site's folder; `None` if there is none.
    pub fn text(&self, path: &str) -> Option<String> {
        let (_, part) = self.parts().into_iter().find(|(there, _)| there == path)?;
        self.made(&part)
    }

    /// Returns every path with its content, for contents that the runs have.
    fn parts(&self) -> Vec<(String, Part<'_, 'r>)> {
        let page = |path: &str| format!("{path}/index.html");
        let mut parts = vec![
            ("index.html".to_owned(), Part::Front),
            (page("compare"), Part::Compare),
            (page("explain"), Part::Explained),
        ];
        parts.push((SCHEMA_PATH.to_owned(), Part::Schema));
        parts.extend(FIXED.map(|(path, text)| (path.to_owned(), Part::Fixed(text))));
        parts.extend(TOPICS.iter().map(|topic| (page(&topic.path()), Part::Topic(topic))));
        parts.extend(self.sets.iter().map(|set| (page(&set.path), Part::Compared(set))));
        for set in &self.sets {
            parts.extend(set.ratios().map(|(run, path)| (page(path), Part::Ratios(set, run))));
        }
        if !self.runs.is_empty() {
            parts.push((page(history::PATH), Part::History));
        }
        if self.site.measures {
            parts.push((RECORDED_PATH.to_owned(), Part::Recorded));
        }
        for device in self.devices.all() {
            parts.push((page(&device.path()), Part::Device(device)));
            parts.push((page(&facts::path(device)), Part::Facts(device)));
            let views = speeds::views(device).into_iter();
            parts.extend(views.map(|kept| (page(&speeds::path(device, kept)), Part::Speeds(device, kept))));
            for family in family::families(device) {
                parts.push((page(&family::path(device, family)), Part::Family(device, family)));
                parts.push((page(&family::samples_path(device, family)), Part::Samples(device, family)));
            }
            for kept in device.views() {
                parts.push((page(&costs::path(device, kept)), Part::Cost(device, kept)));
                parts.push((kept.picture(pictures::COST), Part::CostPicture(device, kept)));
                parts.push((kept.picture(pictures::ROOFLINE), Part::RooflinePicture(kept)));
            }
            parts.extend(device.runs.iter().map(|kept| (kept.path(), Part::Run(kept))));
        }
        parts
    }

    fn made(&self, part: &Part<'_, 'r>) -> Option<String> {
        let (devices, site) = (&self.devices, self.site);
        Some(match part {
            Part::Front => front::page(devices, site),
            Part::Compare => compared::index(&self.sets, devices, site),
            Part::History => history::page(self.runs.iter().copied(), site),
            Part::Schema => serde_json::to_string_pretty(&json_schema()).expect("a schema is JSON") + "\n",
            Part::Explained => explain::index(site),
            Part::Fixed(text) => (*text).to_owned(),
            Part::Topic(topic) => explain::page(topic, devices, site),
            Part::Device(device) => device::page(device, devices, site),
            Part::Family(device, family) => family::page(device, *family, site),
            Part::Samples(device, family) => family::samples_page(device, *family, site),
            Part::Facts(device) => facts::page(device, site),
            Part::Speeds(device, kept) => speeds::page(device, kept, site),
            Part::Compared(set) => return compared::page(set, site),
            Part::Ratios(set, run) => return compared::ratios(set, *run, site),
            Part::Cost(device, kept) => return costs::page(device, kept, site),
            Part::CostPicture(device, kept) => return pictures::cost_file(device, kept),
            Part::RooflinePicture(kept) => return pictures::roofline_file(kept),
            Part::Recorded => recorded(devices),
            Part::Run(kept) => serde_json::to_string(kept.run).expect("a run is JSON") + "\n",
        })
    }
}

/// Path of the list of the site's browser runs, for the measuring page.
const RECORDED_PATH: &str = "run/recorded.json";

/// Returns the browser view of each device as JSON: the device's name, and the path of the run file relative to the measuring page.
fn recorded(devices: &Devices<'_>) -> String {
    let in_a_browser = |device: &OnDevice<'_>| {
        let run = device.browser()?;
        Some(serde_json::json!({ "device": device.name, "path": format!("../{}", run.path()) }))
    };
    let list: Vec<_> = devices.all().iter().filter_map(in_a_browser).collect();
    serde_json::Value::from(list).to_string() + "\n"
}

/// Returns a document in the frame of the site's pages.
///
/// `depth` is the number of folders between the site and the page, `about` a sentence for search engines, and `text` HTML that the
/// caller vouches for.
pub fn document(site: Site, depth: usize, (title, about): (&str, &str), text: &str) -> String {
    frame::page(&frame::Head { depth, title, about }, site, &maud::html! { article.doc { (maud::PreEscaped(text)) } })
}

/// Files that are the same in every site: path and text.
const FIXED: [(&str, &str); 3] =
    [(frame::STYLE_PATH, frame::STYLE), (frame::ICON_PATH, frame::ICON), (frame::SCRIPT_PATH, frame::SCRIPT)];

/// Returns the text of a file that is the same in every site: the style sheet, the mark or the script.
pub fn fixed(path: &str) -> Option<&'static str> {
    FIXED.iter().find(|(there, _)| *there == path).map(|(_, text)| *text)
}

/// Returns every page of a site about these named runs, its style sheet, and its run files.
pub fn files(runs: &[NamedRun], site: Site) -> Vec<File> {
    let pages = Pages::new(runs, site);
    let made = |(path, part)| pages.made(&part).map(|text| File { path, text });
    pages.parts().into_iter().filter_map(made).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    const TILED: &str = "matmul/fwd/m8,n8,k8/f32/tiled";
    const HOSTILE: &str = "\"><script>alert(1)</script>/../../x";

    fn named(name: &str, target: &str, device: &str, median: f64) -> NamedRun {
        NamedRun::new(name, run(target, device, &[(TILED, spread(median, 0.002, 40))]))
    }

    fn runs() -> Vec<NamedRun> {
        vec![
            named("cuda", "cuda", "NVIDIA H200", 100.0),
            named("browser", "browser", "h200", 150.0),
            named(HOSTILE, "browser", HOSTILE, 900.0),
            named("a", HOSTILE, "NVIDIA H200", 100.0),
            named("b", HOSTILE, HOSTILE, 100.0),
        ]
    }

    /// Returns the target of a link on a page, as a path below the site.
    fn led(from: &str, link: &str) -> String {
        let mut place: Vec<&str> = from.split('/').collect();
        place.pop();
        for part in link.split(['#', '?']).next().unwrap_or_default().split('/') {
            match part {
                "." | "" => {}
                ".." => assert!(place.pop().is_some(), "{from}: {link} leaves the site"),
                part => place.push(part),
            }
        }
        let path = place.join("/");
        if path.rsplit('/').next().is_some_and(|last| last.contains('.')) { path } else { format!("{path}/index.html") }
    }

    #[test]
    fn every_link_leads_to_a_file_of_the_site() {
        for measures in [false, true] {
            let files = files(&runs(), Site { measures, ..Site::new(&Registry) });
            let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths.len(), files.len(), "a path twice");
            let mut links = 0;
            for file in files.iter().filter(|file| file.path.ends_with(".html")) {
                for link in file.text.split("href=\"").skip(1).map(|rest| rest.split('"').next().expect("closed")) {
                    let to = led(&file.path, link).trim_start_matches('/').to_owned();
                    let measuring = measures && to == "run/index.html";
                    assert!(measuring || link.starts_with('#') || paths.contains(to.as_str()), "{}: {link}", file.path);
                    // The files that a link passes to the measuring page exist, too.
                    for given in link.split(['?', '&']).filter_map(|pair| pair.split_once("=../")) {
                        assert!(paths.contains(given.1), "{}: {link}", file.path);
                    }
                    links += 1;
                }
                assert_eq!(file.text.contains("run/\""), measures, "{}", file.path);
            }
            assert!(links > 50, "{links}");
        }
    }

    #[test]
    fn documents_are_linked_where_they_exist() {
        for docs in [false, true] {
            let site = Site { docs, ..Site::new(&Registry) };
            for path in ["index.html", "explain/index.html", "device/h200/index.html"] {
                let page = Pages::new(&runs(), site).text(path).expect("a page");
                assert_eq!(page.contains("docs/\">"), docs, "{path}");
            }
            let page = document(site, 2, ("A <b>", "About"), "<p>Text</p>");
            assert!(
                page.contains("<title>A &lt;b&gt; · Parallax</title>")
                    && page.contains("<article class=\"doc\"><p>Text")
            );
            assert_eq!(page.contains("href=\"../../docs/\""), docs, "{page}");
        }
    }

    #[test]
    fn hostile_names_stay_text_and_within_the_folder() {
        for file in files(&runs(), Site { measures: true, ..Site::new(&Registry) }) {
            let fits = |part: &str| !part.is_empty() && part != ".." && !part.starts_with('.');
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            assert!(file.path.split('/').all(|part| fits(part) && part.chars().all(plain)), "{}", file.path);
            if file.path.ends_with(".html") {
                let script = format!("integrity=\"{}\" defer></script>", frame::integrity());
                assert!(file.text.matches("<script").count() == file.text.matches(&script).count(), "{}", file.path);
                for forbidden in ["<script>", "style=", "http://", "https://", "onerror=", "NaN"] {
                    assert!(!file.text.contains(forbidden), "{}: {forbidden}", file.path);
                }
                assert!(file.text.contains("default-src 'none'"), "{}", file.path);
                let scripted = file.text.contains("<table");
                for property in ["title", "description", "type", "site_name"] {
                    assert_eq!(file.text.matches(&format!("property=\"og:{property}\"")).count(), 1, "{}", file.path);
                }
                for part in ["script-src 'self';", "site.js\"", &script] {
                    assert_eq!(file.text.contains(part), scripted, "{}: {part}", file.path);
                }
            }
        }
    }

    #[test]
    fn the_front_tells_what_the_browser_costs() {
        let files = files(&runs(), Site { measures: true, ..Site::new(&Registry) });
        let front = &files.iter().find(|file| file.path == "index.html").expect("a front").text;
        assert!(front.contains("1.50×") && front.contains("(1 problem)"), "{front}");
        let device = files.iter().find(|file| file.path == "device/h200/index.html").expect("a device");
        assert!(device.text.contains("matmul/fwd/m8,n8,k8/f32"), "its problems are listed");
        for path in ["device/h200/products/index.html", "device/h200/products/samples/index.html"] {
            let behind = files.iter().find(|file| file.path == path).expect("a page of the family");
            assert!(behind.text.contains("tiled") && behind.text.contains("cuda"), "{path}");
        }
        assert!(files.iter().any(|file| file.path.starts_with("runs/h200/") && file.text.contains(TILED)));
    }

    #[test]
    fn a_single_run_is_a_site_too() {
        let files = files(&runs()[..1], Site::new(&Registry));
        let front = &files.iter().find(|file| file.path == "index.html").expect("a front").text;
        assert!(front.contains("H200") && !front.contains("class=\"ratios"), "nothing to compare");
    }

    #[test]
    fn a_collector_looks_for_results_and_says_how_to_join() {
        let code = vec![vec![true, false], vec![false, true]];
        let address = "https://192.0.2.1:8080/?desk=x&y";
        let front = |runs: &[NamedRun], code| {
            let files = files(
                runs,
                Site {
                    measures: true,
                    collector: Some(Collector { address, code, hidden: &[] }),
                    ..Site::new(&Registry)
                },
            );
            let of_files = files.into_iter().filter(|file| file.text.contains("http-equiv=\"refresh\""));
            let fronts: Vec<File> = of_files.collect();
            assert_eq!(fronts.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["index.html"]);
            fronts[0].text.clone()
        };
        let empty = front(&[], Some(code.as_slice()));
        for part in ["Nothing has been measured", "desk=x&amp;y", "M4 4h1v1h-1zM5 5h1"] {
            assert!(empty.contains(part), "{part}: {empty}");
        }
        let some = front(&runs(), None);
        assert!(
            some.contains("1.50×") && some.contains("desk=x&amp;y") && !some.contains("svg class=\"code"),
            "{some}"
        );
        assert!(!some.contains("Nothing is uploaded"), "results are sent here");
    }

    #[test]
    fn a_page_that_is_made_alone_is_the_one_of_the_whole_site() {
        let (runs, site) = (runs(), Site { measures: true, ..Site::new(&Registry) });
        let pages = Pages::new(&runs, site);
        for file in files(&runs, site) {
            assert_eq!(pages.text(&file.path).as_ref(), Some(&file.text), "{}", file.path);
            assert!(fixed(&file.path).is_none_or(|text| text == file.text), "{}", file.path);
        }
        for absent in ["", "absent", "device/index.html", "../site.css", "compare/on-h200"] {
            assert_eq!(pages.text(absent), None, "{absent}");
        }
        assert!(fixed("site.css").is_some() && fixed("mark.svg").is_some() && fixed("index.html").is_none());
    }

    #[test]
    fn a_collector_names_the_files_that_it_hides() {
        let hidden: Vec<Hidden> =
            (0..300).map(|i| Hidden { file: format!("<{i}>.json"), why: "older".to_owned() }).collect();
        let front = |hidden| {
            let collector = Some(Collector { address: "http://192.0.2.1/", code: None, hidden });
            Pages::new([], Site { measures: true, collector, ..Site::new(&Registry) })
                .text("index.html")
                .expect("a front")
        };
        let page = front(&hidden);
        for part in ["300 files of its folder are not shown", "&lt;0&gt;.json: older", "and 200 more"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!front(&[]).contains("not shown"));
        assert!(front(&hidden[..1]).contains("1 file of its folder is not shown"));
    }
}
