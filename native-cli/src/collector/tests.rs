//! Tests of a collector over HTTP, as browsers and other clients use it.

use parallax_schema::record::Run;
use parallax_schema::testing;

use super::*;
use crate::browser::server::testing::talk;

#[cfg(target_os = "linux")]
use std::io::Read;
use std::io::Write;
use std::path::PathBuf;
use tempfile::TempDir;

/// Collector with a folder of its own.
struct Scene {
    folder: TempDir,
    collector: Open,
}

impl Scene {
    fn new() -> Scene {
        Scene::with(Grants::default())
    }

    fn with(grants: Grants) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let page = folder.path().join("page");
        std::fs::create_dir(&page).expect("made");
        std::fs::write(page.join("index.html"), "the page").expect("written");
        let results = folder.path().join("results");
        let collector = open_with(Page::Folder(page), At::loopback(0), &results, grants).expect("open");
        Scene { folder, collector }
    }

    fn token(&self) -> &str {
        self.collector.address.split_once("?desk=").expect("a token").1
    }

    /// Returns status and body. HOST and TOKEN in the request stand for their values.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let (head, body) = self.whole(head, body);
        (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body)
    }

    /// Returns the head and the body of the response.
    fn whole(&self, head: &str, body: &str) -> (String, String) {
        let head = head.replace("TOKEN", self.token());
        let answer = talk(&self.collector._server, &format!("{head}Connection: close\r\n\r\n{body}"));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (format!("{head}\r\n"), body.to_owned())
    }

    /// Returns the status of a post from another address of this machine.
    #[cfg(target_os = "linux")]
    fn post_from(&self, from: std::net::Ipv4Addr, body: &str) -> u16 {
        let to: std::net::SocketAddr = self.authority().parse().expect("an address");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let connected = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(std::net::SocketAddrV4::new(from, 0).into())?;
            socket.connect(to).await?.into_std()
        });
        let mut stream = connected.expect("connected");
        stream.set_nonblocking(false).expect("set");
        let head = "POST /api/runs HTTP/1.1\r\nConnection: close\r\n";
        let (host, token, length) = (self.authority(), self.token(), body.len());
        let head = format!("{head}Host: {host}\r\nX-Parallax-Token: {token}\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }

    /// Returns host and port.
    fn authority(&self) -> &str {
        let (_, rest) = self.collector.address.split_once("://").expect("an address");
        rest.split_once('/').expect("a path").0
    }

    fn post_with(&self, headers: &str, body: &str) -> (u16, String) {
        self.ask(&format!("POST /api/runs HTTP/1.1\r\nContent-Length: {}\r\n{headers}", body.len()), body)
    }

    fn post(&self, body: &str) -> (u16, String) {
        self.post_with("Host: HOST\r\nOrigin: http://HOST\r\nX-Parallax-Token: TOKEN\r\n", body)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: HOST\r\n"), "")
    }

    /// Returns every file below the scene's folder, without the page.
    fn files(&self) -> Vec<PathBuf> {
        let results = std::fs::read_dir(self.folder.path().join("results")).into_iter().flatten();
        let beside = std::fs::read_dir(self.folder.path()).expect("read").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name != "page" && name != "results"
        });
        let mut files: Vec<PathBuf> = results.chain(beside).map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        files
    }
}

const CASE: &str = "attention/fwd/b1,h1,s3,d2/f32/host";

/// Returns a run of one case that began at this time, in milliseconds since 1970.
pub fn result(target: &str, device: &str, started: u64) -> Run {
    Run { started, ..testing::run(target, device, &[(CASE, testing::spread(100.0, 0.001, 9))]) }
}

fn text(run: &Run) -> String {
    serde_json::to_string(run).expect("JSON")
}

#[test]
fn a_result_is_kept_as_we_write_it_and_shown() {
    let scene = Scene::new();
    assert!(!scene.folder.path().join("results").exists(), "made with the first result");
    let entered = scene.get("/desk/?desk=TOKEN");
    assert_eq!(entered.0, 303, "{entered:?}");
    let (status, empty) = scene.get("/desk/TOKEN/");
    assert!(
        status == 200 && empty.contains("Nothing has been measured") && empty.contains(&scene.collector.address),
        "{empty}"
    );

    let sent = result("browser", "NVIDIA <b>H200", 1_700_000_000);
    let strange = text(&sent).replacen('{', "{ \n \"unknown\": \"<script>\", ", 1);
    let name = "parallax-browser-nvidia-b-h200-1700000000.json";
    assert_eq!(scene.post(&strange), (201, name.to_owned()));
    let kept = scene.folder.path().join("results").join(name);
    let written = std::fs::read_to_string(&kept).expect("kept");
    assert_eq!(written, text(&Run::parse(&text(&sent)).expect("a run")) + "\n");
    assert_eq!(scene.files(), [kept]);

    let (status, front) = scene.get("/desk/TOKEN/");
    assert!(status == 200 && front.contains("H200") && !front.contains("<b>H200"), "{front}");
    let link = front.split("href=\"./").find(|link| link.starts_with("device/")).expect("a device");
    let path = link.split('"').next().expect("closed");
    let (status, device) = scene.get(&format!("/desk/TOKEN/{path}"));
    let (problem, _) = CASE.rsplit_once('/').expect("a variant");
    assert!(status == 200 && device.contains(problem), "{device}");
    let (status, files) = scene.get(&format!("/desk/TOKEN/{path}runs/"));
    assert_eq!(status, 200, "{files}");
    let mut links = files.split("href=\"").filter_map(|rest| rest.split('"').next());
    let run = links.find(|link| link.contains("/runs/") && link.ends_with(".json"));
    let run = run.expect("a run file").trim_start_matches("../");
    let (status, handed) = scene.get(&format!("/desk/TOKEN/{run}"));
    assert_eq!((status, handed), (200, written));
    for path in ["compare/", "explain/", "site.css", "site.js", "mark.svg"] {
        assert_eq!(scene.get(&format!("/desk/TOKEN/{path}")).0, 200, "{path}");
    }
    assert_eq!(scene.get("/desk/TOKEN/run/").0, 303);
}

#[test]
fn nothing_is_replaced_and_nothing_kept_twice() {
    let scene = Scene::new();
    let one = result("browser", "H200", 7);
    let other = Run { interrupted: Some("stopped".to_owned()), ..one.clone() };
    for (run, status, said) in [
        (&one, 201, "parallax-browser-h200-7.json"),
        (&one, 200, "already here: parallax-browser-h200-7.json"),
        (&other, 201, "parallax-browser-h200-7-2.json"),
        (&other, 200, "already here: parallax-browser-h200-7-2.json"),
        (&one, 200, "already here: parallax-browser-h200-7.json"),
    ] {
        assert_eq!(scene.post(&text(run)), (status, said.to_owned()));
    }
    assert_eq!(scene.files().len(), 2);
}

#[test]
fn names_are_ours_whatever_a_run_says() {
    let scene = Scene::new();
    for (target, device) in
        [("../../escaped", "../../../etc/passwd"), ("/tmp/x", "..\\..\\x"), ("browser\0", "\u{202e}nosj."), ("", "")]
    {
        let (status, name) = scene.post(&text(&result(target, device, 1)));
        assert_eq!(status, 201, "{target} {device}: {name}");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.strip_suffix(".json").is_some_and(|stem| stem.chars().all(plain)), "{name}");
    }
    let results = scene.folder.path().join("results");
    assert!(scene.files().len() == 4 && scene.files().iter().all(|file| file.parent() == Some(&results)));
    assert_eq!(scene.get("/desk/TOKEN/").0, 200);
}

#[test]
fn who_was_not_given_the_address_gets_nothing_and_leaves_nothing() {
    let scene = Scene::new();
    let good = text(&result("browser", "H200", 7));
    let token = "X-Parallax-Token: TOKEN\r\n";
    for (headers, status) in [
        ("Host: HOST\r\n".to_owned(), 401),
        ("Host: HOST\r\nX-Parallax-Token: 0123456789abcdef0123456789abcdef\r\n".to_owned(), 401),
        ("Host: HOST\r\nX-Parallax-Token: \r\n".to_owned(), 401),
        ("Host: HOST\r\nX-Parallax-Token: TOKENa\r\n".to_owned(), 401),
        ("Host: HOST\r\nAuthorization: Basic TOKEN\r\n".to_owned(), 401),
        (format!("Host: HOST\r\nOrigin: https://elsewhere.example\r\n{token}"), 403),
        (format!("Host: HOST\r\nOrigin: null\r\n{token}"), 403),
        (format!("Host: elsewhere.example\r\n{token}"), 403),
    ] {
        let (answered, said) = scene.post_with(&headers, &good);
        assert!(answered == status && said.ends_with('.'), "{headers}: {answered} {said}");
    }
    for path in ["/desk", "/desk/", "/desk/?desk=", "/desk/?desk=x", "/desk/x/", "/desk//", "/desk/x/../TOKEN/"] {
        let (status, said) = scene.get(path);
        assert!(status == 401 && said == NO_TOKEN, "{path}: {status} {said}");
    }
    assert_eq!(scene.files(), [] as [PathBuf; 0]);
    assert_eq!(scene.post_with("Host: HOST\r\nAuthorization: Bearer TOKEN\r\n", &good).0, 201);
}

#[test]
fn what_is_no_sound_run_is_refused_with_a_sentence() {
    let scene = Scene::new();
    let good = text(&result("browser", "H200", 7));
    for body in [
        String::new(),
        "nonsense".to_owned(),
        "{}".to_owned(),
        "[".repeat(100_000),
        good[..good.len() / 2].to_owned(),
        good.replacen("\"version\":3", "\"version\":99", 1),
        good.replacen("\"started\":7", "\"started\":-7", 1),
    ] {
        let (status, said) = scene.post(&body);
        assert!(status == 400 && said.ends_with('.') && said.lines().count() == 1, "{status} {said}");
    }
    assert_eq!(scene.files(), [] as [PathBuf; 0]);
}

#[test]
fn what_is_too_large_is_refused_whether_announced_or_not() {
    let scene = Scene::new();
    let head = "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nX-Parallax-Token: TOKEN\r\n";
    let announced = format!("{head}Content-Length: {}\r\n", runs::LARGEST + 1);
    assert_eq!(scene.ask(&announced, "x").0, 413);
    // A chunk of the largest size, and one more.
    let body = format!("{:x}\r\n{}\r\n1\r\nx\r\n", runs::LARGEST, " ".repeat(runs::LARGEST));
    assert_eq!(scene.ask(&format!("{head}Transfer-Encoding: chunked\r\n"), &body).0, 413);
    assert_eq!(scene.files(), [] as [PathBuf; 0]);
}

#[test]
fn a_flood_is_stopped_for_its_sender_alone_and_it_is_said_when_to_go_on() {
    let grants = Grants { posts: 3, ..Grants::default() };
    let scene = Scene::with(grants);
    let answers: Vec<u16> = (0..5).map(|_| scene.post("nonsense").0).collect();
    assert_eq!(answers, [400, 400, 400, 429, 429]);
    // A sender that is still sending sees the response too.
    let (length, token) = (8 << 20, "X-Parallax-Token: TOKEN\r\n");
    let request = format!("POST /api/runs HTTP/1.1\r\nHost: HOST\r\n{token}Content-Length: {length}\r\n");
    let (head, said) = scene.whole(&request, &" ".repeat(length));
    let after = head.split_once("retry-after: ").and_then(|(_, rest)| rest.split("\r\n").next()?.parse().ok());
    assert!(head.contains(" 429 ") && after.is_some_and(|after: u64| (1..=60).contains(&after)), "{head}");
    assert!(said.contains("send this one again in ") && said.ends_with(" s."), "{said}");
    assert_eq!(scene.post_with("Host: HOST\r\n", "nonsense").0, 401);
    assert_eq!(scene.get("/desk/TOKEN/").0, 200, "the collector is still shown");
    #[cfg(target_os = "linux")]
    assert_eq!(scene.post_from([127, 0, 0, 2].into(), "nonsense"), 400, "another sender has a share of its own");

    let scene = Scene::with(grants);
    for _ in 0..grants.posts {
        assert_eq!(scene.post_with("Host: HOST\r\n", "nonsense").0, 401);
    }
    assert_eq!(scene.post("nonsense").0, 400, "requests without the token use up nothing");
}

#[test]
fn a_body_that_stands_still_is_given_up_and_one_of_a_stranger_is_not_waited_for() {
    let brief = Duration::from_millis(300);
    let limits = Limits { body: 4 * brief, stall: brief, ..Limits::default() };
    let scene = Scene::with(Grants { limits, ..Grants::default() });
    let head = "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1000000\r\n";
    let begun = std::time::Instant::now();
    assert_eq!(scene.ask(&format!("{head}X-Parallax-Token: TOKEN\r\n"), "{").0, 408);
    assert_eq!(scene.ask(head, "{").0, 401);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    // A slow stream of bytes does not extend the time limit.
    let authority = scene.authority();
    let mut stream = std::net::TcpStream::connect(authority).expect("connected");
    let head =
        format!("{head}X-Parallax-Token: TOKEN\r\n\r\n").replace("HOST", authority).replace("TOKEN", scene.token());
    stream.write_all(head.as_bytes()).expect("sent");
    let begun = std::time::Instant::now();
    while stream.write_all(b" ").is_ok() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(brief / 3);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn silent_connections_lock_no_one_out_of_a_collector() {
    let scene = Scene::new();
    let authority = scene.authority();
    // Fewer than the descriptors of a test process, and more than the limit of a collector.
    let silent: Vec<_> = (0..400).map(|_| std::net::TcpStream::connect(authority).expect("connected")).collect();
    let begun = std::time::Instant::now();
    assert_eq!(scene.get("/desk/TOKEN/").0, 200);
    assert_eq!(scene.post(&text(&result("browser", "H200", 7))).0, 201);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(silent.len() > 2 * Limits::default().all);
}

#[test]
fn a_hostile_body_is_refused_and_the_collector_goes_on() {
    let scene = Scene::new();
    let good = text(&result("browser", "H200", 7));
    let with_drift = |drift: &str| {
        let bad = good.replacen("\"records\":", &format!("\"drift\":{drift},\"records\":"), 1);
        bad.replacen("\"drift\":{\"rows\":0,\"columns\":{}},", "", 1)
    };
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    // 2 GB if each row had its value.
    let bomb = format!(
        "{{\"rows\":65536,\"columns\":{{\"at\":{{\"all\":1}},\"canary\":{{\"all\":1}},\"x\":{{\"all\":\"{}\"}}}}}}",
        "x".repeat(30_000)
    );
    for body in [
        with_drift(&bomb),
        with_drift("{\"rows\":18446744073709551615,\"columns\":{\"at\":{\"all\":1},\"canary\":{\"all\":1}}}"),
        with_drift("{\"rows\":16777216,\"columns\":{\"at\":{\"all\":1},\"canary\":{\"all\":1}}}"),
        with_drift(
            "{\"rows\":2,\"columns\":{\"at\":{\"runs\":[[1,2],[1,18446744073709551615]]},\"canary\":{\"all\":1}}}",
        ),
        with_drift(&nested(100_000)),
        nested(1 << 20),
        "{\"a\":".repeat(1 << 20),
        format!("[{}0]", "0,".repeat(1 << 20)),
        format!("\"{}\"", "x".repeat(1 << 22)),
    ] {
        let (status, said) = scene.post(&body);
        assert!((400..500).contains(&status) && said.ends_with('.'), "{status} {said} {:.200}", body);
        assert_eq!(scene.get("/desk/TOKEN/").0, 200);
    }
    assert_eq!(scene.files(), [] as [PathBuf; 0]);
    assert_eq!(scene.post(&good).0, 201);
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_holds_nothing_up() {
    let scene = Scene::new();
    let results = scene.folder.path().join("results");
    std::fs::create_dir(&results).expect("made");
    let run = result("browser", "H200", 7);
    let names = ["parallax-browser-h200-7.json", "parallax-browser-h200-7-2.json", "parallax-browser-h200-7-3.json"];
    let made = std::process::Command::new("mkfifo").arg(results.join(names[0])).status().expect("mkfifo");
    assert!(made.success());
    std::fs::create_dir(results.join(names[1])).expect("made");
    std::os::unix::fs::symlink(names[0], results.join(names[2])).expect("linked");
    assert_eq!(scene.post(&text(&run)), (201, "parallax-browser-h200-7-4.json".to_owned()));
    let (status, front) = scene.get("/desk/TOKEN/");
    assert!(status == 200 && front.contains("H200"), "{front}");
}

#[test]
fn files_that_have_no_room_are_named_at_the_front() {
    let scene = Scene::new();
    let results = scene.folder.path().join("results");
    std::fs::create_dir(&results).expect("made");
    let run = text(&result("cuda", "H200", 7));
    let old = std::time::SystemTime::now() - Duration::from_secs(1000);
    for (name, contents) in [("old.json", run.as_str()), ("notes.json", "{}")] {
        std::fs::write(results.join(name), contents).expect("written");
        let file = std::fs::File::options().write(true).open(results.join(name)).expect("a file");
        file.set_modified(old).expect("set");
    }
    let front = || scene.get("/desk/TOKEN/").1;
    assert!(
        front().contains("1 file of its folder is not shown") && front().contains("notes.json: no run"),
        "{}",
        front()
    );
    for number in 0..listing::MOST_FILES {
        std::fs::write(results.join(format!("{number}.json")), "{}").expect("written");
    }
    assert!(front().contains("old.json: older than the 500 files that are shown"), "{}", front());
}

#[test]
fn pages_of_many_runs_are_made_when_asked_for_and_kept() {
    let scene = Scene::new();
    let results = scene.folder.path().join("results");
    std::fs::create_dir(&results).expect("made");
    for number in 0..listing::MOST_FILES as u64 {
        let target = if number % 2 == 0 { "browser" } else { "cuda" };
        let run = result(target, &format!("GPU {}", number % 50), number);
        std::fs::write(results.join(format!("{number}.json")), text(&run)).expect("written");
    }
    let took = |path: &str| {
        let begun = std::time::Instant::now();
        assert_eq!(scene.get(path).0, 200, "{path}");
        begun.elapsed()
    };
    let style = took("/desk/TOKEN/site.css");
    assert!(style < Duration::from_secs(1), "{style:?}");
    let (first, second) = (took("/desk/TOKEN/"), took("/desk/TOKEN/"));
    assert!(second < Duration::from_secs(1) && second < first, "{first:?} {second:?}");
}

#[test]
fn pages_cannot_be_framed() {
    let scene = Scene::new();
    for path in ["/", "/desk/TOKEN/", "/desk/", "/absent"] {
        let (head, _) = scene.whole(&format!("GET {path} HTTP/1.1\r\nHost: HOST\r\n"), "");
        assert!(head.contains("x-frame-options: DENY") && head.contains("frame-ancestors 'none'"), "{path}: {head}");
    }
}

#[test]
fn paths_lead_nowhere_but_to_the_site() {
    let scene = Scene::new();
    std::fs::write(scene.folder.path().join("secret.json"), "secret").expect("written");
    for path in [
        "../../secret.json",
        "%2e%2e/%2e%2e/secret.json",
        "..%2f..%2fsecret.json",
        "..\\secret.json",
        "/etc/passwd",
        "runs/../../secret.json",
        "site.css/",
        "absent",
    ] {
        let (status, said) = scene.get(&format!("/desk/TOKEN/{path}"));
        assert!(status == 404 && !said.contains("secret"), "{path}: {status} {said}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told_and_files_that_are_no_runs_are_passed_over() {
    let scene = Scene::new();
    let results = scene.folder.path().join("results");
    std::fs::write(&results, "a file where the folder should be").expect("written");
    let (status, said) = scene.post(&text(&result("browser", "H200", 7)));
    assert!(status == 507 && said.starts_with("The collector cannot write"), "{status} {said}");
    std::fs::remove_file(&results).expect("removed");
    std::fs::create_dir(&results).expect("made");
    std::fs::write(results.join("notes.json"), "{}").expect("written");
    std::fs::write(results.join("cuda.json"), text(&result("cuda", "H200", 7))).expect("written");
    let (status, front) = scene.get("/desk/TOKEN/");
    assert!(status == 200 && front.contains("H200"), "files of another program are shown: {front}");
}
