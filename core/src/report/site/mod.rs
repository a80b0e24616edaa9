//! Runs as a site: what the browser costs, each device, comparisons, and what the figures mean. Static pages without scripts; what
//! comes from a run is escaped, and a page asks nobody but the folder that it lies in.

mod compared;
mod desk;
mod device;
mod devices;
mod explain;
mod frame;
mod front;
mod pictures;

pub use self::desk::Desk;
use self::devices::Devices;
use crate::record::Run;

/// A file of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path below the site's folder.
    pub path: String,
    /// Contents.
    pub text: String,
}

/// What is in the site besides run files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Site<'a> {
    /// Whether the page that measures lies in `run/`.
    pub measures: bool,
    /// The desk whose site it is.
    pub desk: Option<Desk<'a>>,
}

/// Every page of a site about these named runs, its style sheet, and the run files that it hands out.
pub fn files(runs: &[(String, Run)], site: Site) -> Vec<File> {
    let devices = Devices::of(runs);
    let mut files = vec![
        File { path: "index.html".to_owned(), text: front::page(&devices, site) },
        File { path: "compare/index.html".to_owned(), text: compared::index(&devices, site) },
        File { path: frame::STYLE_PATH.to_owned(), text: frame::STYLE.to_owned() },
        File { path: frame::ICON_PATH.to_owned(), text: frame::ICON.to_owned() },
    ];
    let page = |path: String, text: String| File { path: format!("{path}/index.html"), text };
    files.extend(devices.all().iter().map(|of| page(of.path(), device::page(of, &devices, site))));
    files.extend(explain::pages(&devices, site).into_iter().map(|(path, text)| page(path, text)));
    files.extend(compared::pages(&devices, site).into_iter().map(|(path, text)| page(path, text)));
    let pictures = devices.all().iter().flat_map(pictures::files);
    files.extend(pictures.map(|(path, text)| File { path, text }));
    for kept in devices.all().iter().flat_map(|of| &of.runs) {
        let text = serde_json::to_string(kept.run).expect("a run is JSON") + "\n";
        files.push(File { path: kept.path(), text });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{run, spread};
    use std::collections::BTreeSet;

    const TILED: &str = "matmul/fwd/m8,n8,k8/f32/tiled";
    const HOSTILE: &str = "\"><script>alert(1)</script>/../../x";

    fn named(name: &str, target: &str, device: &str, median: f64) -> (String, Run) {
        (name.to_owned(), run(target, device, &[(TILED, spread(median, 0.002, 40))]))
    }

    fn runs() -> Vec<(String, Run)> {
        vec![
            named("cuda", "cuda", "NVIDIA H200", 100.0),
            named("browser", "browser", "h200", 150.0),
            named(HOSTILE, "browser", HOSTILE, 900.0),
            named("a", HOSTILE, "NVIDIA H200", 100.0),
            named("b", HOSTILE, HOSTILE, 100.0),
        ]
    }

    /// Where a link on a page leads, as a path below the site.
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
            let files = files(&runs(), Site { measures, desk: None });
            let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths.len(), files.len(), "a path twice");
            let mut links = 0;
            for file in files.iter().filter(|file| file.path.ends_with(".html")) {
                for link in file.text.split("href=\"").skip(1).map(|rest| rest.split('"').next().expect("closed")) {
                    let to = led(&file.path, link).trim_start_matches('/').to_owned();
                    let measuring = measures && to == "run/index.html";
                    assert!(measuring || link.starts_with('#') || paths.contains(to.as_str()), "{}: {link}", file.path);
                    // The files that a link gives the page that measures are there, too.
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
    fn hostile_names_stay_text_and_within_the_folder() {
        for file in files(&runs(), Site { measures: true, desk: None }) {
            let fits = |part: &str| !part.is_empty() && part != ".." && !part.starts_with('.');
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            assert!(file.path.split('/').all(|part| fits(part) && part.chars().all(plain)), "{}", file.path);
            if file.path.ends_with(".html") {
                for forbidden in ["<script", "style=", "http://", "https://", "onerror=", "NaN"] {
                    assert!(!file.text.contains(forbidden), "{}: {forbidden}", file.path);
                }
                assert!(file.text.contains("default-src 'none'"), "{}", file.path);
            }
        }
    }

    #[test]
    fn the_front_tells_what_the_browser_costs() {
        let files = files(&runs(), Site { measures: true, desk: None });
        let front = &files.iter().find(|file| file.path == "index.html").expect("a front").text;
        assert!(front.contains("1.50×") && front.contains("over 1 problem"), "{front}");
        let device = files.iter().find(|file| file.path == "device/h200/index.html").expect("a device");
        assert!(device.text.contains(TILED), "its cases are listed");
        assert!(files.iter().any(|file| file.path.starts_with("runs/h200/") && file.text.contains(TILED)));
    }

    #[test]
    fn a_single_run_is_a_site_too() {
        let files = files(&runs()[..1], Site::default());
        let front = &files.iter().find(|file| file.path == "index.html").expect("a front").text;
        assert!(front.contains("H200") && !front.contains("class=\"ratios"), "nothing to compare");
    }

    #[test]
    fn a_desk_looks_for_results_and_says_how_to_join() {
        let code = vec![vec![true, false], vec![false, true]];
        let address = "https://192.0.2.1:8080/?desk=x&y";
        let front = |runs: &[(String, Run)], code| {
            let files = files(runs, Site { measures: true, desk: Some(Desk { address, code }) });
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
}
