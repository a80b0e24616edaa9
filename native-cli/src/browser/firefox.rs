//! Firefox: preferences of its profile, and its start at a page through WebDriver BiDi.

use std::fmt::Write;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use parallax_schema::device::BrowserMode;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Flags of every start: no window, an own instance, a port for the driver.
pub const FLAGS: [&str; 4] = ["--headless", "--no-remote", "--remote-debugging-port", "0"];

/// Preferences of every start: WebGPU where it is behind a preference, no traffic of the browser itself.
const PREFERENCES: [(&str, &str); 8] = [
    ("dom.webgpu.enabled", "true"),
    ("dom.webgpu.workers.enabled", "true"),
    ("gfx.webgpu.ignore-blocklist", "true"),
    ("app.update.enabled", "false"),
    ("browser.shell.checkDefaultBrowser", "false"),
    ("datareporting.policy.dataSubmissionEnabled", "false"),
    ("toolkit.telemetry.enabled", "false"),
    ("network.captive-portal-service.enabled", "false"),
];

/// Preferences of the developer's and the unsafe mode: clocks without rounding.
const EXACT: [(&str, &str); 1] = [("privacy.reduceTimerPrecision", "false")];

/// Preferences that change a measurement. The others only keep the browser quiet.
const RELEVANT: [&str; 3] = ["dom.webgpu", "gfx.webgpu", "privacy."];

/// File of the preferences in a profile.
const FILE: &str = "user.js";

/// Preferences of a browser mode, with their values.
fn preferences(reach: BrowserMode) -> impl Iterator<Item = (&'static str, &'static str)> {
    let exact: &[_] = if reach == BrowserMode::Stock { &[] } else { &EXACT };
    PREFERENCES.iter().chain(exact).copied()
}

/// Writes the preferences of a browser mode into a profile.
///
/// # Errors
/// An unwritable folder.
pub fn write_preferences(profile: &Path, reach: BrowserMode) -> io::Result<()> {
    let mut text = String::new();
    for (name, value) in preferences(reach) {
        writeln!(text, "user_pref(\"{name}\", {value});").expect("a string takes any text");
    }
    std::fs::write(profile.join(FILE), text)
}

/// Returns the preferences of a browser mode that change a measurement, as in `dom.webgpu.enabled=true`.
pub fn of_mode(reach: BrowserMode) -> String {
    let relevant = preferences(reach).filter(|(name, _)| RELEVANT.iter().any(|prefix| name.starts_with(prefix)));
    relevant.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Returns the address of the driver in the browser's log.
pub fn address(log: &str) -> Option<String> {
    let after = log.split_once("WebDriver BiDi listening on ")?.1;
    // A line that is still written has no end.
    let (address, _) = after.split_once('\n')?;
    address.starts_with("ws://").then(|| address.trim().to_owned())
}

/// Longest wait for an answer of the driver.
const ANSWER: Duration = Duration::from_secs(30);

/// Session of WebDriver BiDi. The browser ends it, and closes its page, with the connection.
pub struct Session {
    socket: WebSocket<TcpStream>,
    /// Number of the latest command.
    number: u64,
    version: String,
}

impl Session {
    /// Opens a session of the driver at an address, as in `ws://127.0.0.1:9222`, and opens a page in it.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn open(address: &str, url: &str) -> Result<Session, String> {
        let host = address.strip_prefix("ws://").unwrap_or(address);
        let stream = TcpStream::connect(host).map_err(|error| format!("{address}: {error}"))?;
        stream.set_read_timeout(Some(ANSWER)).map_err(|error| error.to_string())?;
        let (socket, _) = tungstenite::client(format!("{address}/session"), stream).map_err(|e| e.to_string())?;
        let mut session = Session { socket, number: 0, version: String::new() };
        let begun = session.command("session.new", json!({ "capabilities": {} }))?;
        let capability = |name: &str| begun["capabilities"][name].as_str().unwrap_or_default().to_owned();
        session.version = format!("{} {}", capability("browserName"), capability("browserVersion"));
        let tree = session.command("browsingContext.getTree", json!({}))?;
        let context = &tree["contexts"][0]["context"];
        // The page posts its own events: no wait for its load.
        session.command("browsingContext.navigate", json!({ "context": context, "url": url, "wait": "none" }))?;
        Ok(session)
    }

    /// Returns name and version of the browser.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Sends a command, and returns its result.
    fn command(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.number += 1;
        let command = json!({ "id": self.number, "method": method, "params": params });
        let failed = |error: tungstenite::Error| format!("{method}: {error}");
        self.socket.send(Message::text(command.to_string())).map_err(failed)?;
        loop {
            let Message::Text(text) = self.socket.read().map_err(failed)? else { continue };
            let mut answer: Value = serde_json::from_str(&text).map_err(|error| format!("{method}: {error}"))?;
            if answer["id"] != json!(self.number) {
                continue;
            }
            return match answer["type"].as_str() {
                Some("success") => Ok(answer["result"].take()),
                _ => Err(format!("{method}: {}: {}", answer["error"], answer["message"])),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn preferences_follow_the_mode_and_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        for (reach, exact) in [(BrowserMode::Stock, false), (BrowserMode::Developer, true), (BrowserMode::Unsafe, true)]
        {
            write_preferences(folder.path(), reach).expect("written");
            let words = of_mode(reach);
            let file = std::fs::read_to_string(folder.path().join(FILE)).expect("readable");
            assert_eq!(file.contains("privacy.reduceTimerPrecision\", false"), exact, "{file}");
            assert!(words.starts_with("dom.webgpu.enabled=true dom.webgpu.workers.enabled=true"), "{words}");
            assert_eq!(words.contains("privacy.reduceTimerPrecision=false"), exact, "{words}");
            assert!(!words.contains("telemetry"), "{words}");
        }
    }

    #[test]
    fn a_whole_line_of_the_log_has_the_address() {
        let line = "WebDriver BiDi listening on ws://127.0.0.1:4";
        for (log, want) in [
            ("", None),
            (line, None),
            (&format!("*** x\n{line}\nmore")[..], Some("ws://127.0.0.1:4")),
            ("WebDriver BiDi listening on http://x\n", None),
        ] {
            assert_eq!(address(log).as_deref(), want, "{log}");
        }
    }

    /// Answers the commands of one session with these results, after an event.
    fn driver(results: Vec<Value>) -> (String, std::thread::JoinHandle<Vec<Value>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("ws://{}", listener.local_addr().expect("an address"));
        let thread = std::thread::spawn(move || {
            let mut socket = tungstenite::accept(listener.accept().expect("a client").0).expect("a handshake");
            let mut commands = Vec::new();
            for result in results {
                let Ok(Message::Text(text)) = socket.read() else { break };
                let command: Value = serde_json::from_str(&text).expect("JSON");
                let event = json!({ "type": "event", "method": "log.entryAdded", "params": {} });
                socket.send(Message::text(event.to_string())).expect("sent");
                let mut answer = result;
                answer["id"] = command["id"].clone();
                commands.push(command);
                socket.send(Message::text(answer.to_string())).expect("sent");
            }
            commands
        });
        (address, thread)
    }

    #[test]
    fn a_session_opens_the_page_and_knows_the_version() {
        let success = |result: Value| json!({ "type": "success", "result": result });
        let (address, driver) = driver(vec![
            success(json!({ "capabilities": { "browserName": "firefox", "browserVersion": "153.8.0" } })),
            success(json!({ "contexts": [{ "context": "c1" }] })),
            success(json!({ "navigation": null })),
        ]);
        let session = Session::open(&address, "http://127.0.0.1:1/?a=b").expect("a session");
        assert_eq!(session.version(), "firefox 153.8.0");
        let commands = driver.join().expect("it ended");
        let methods: Vec<&str> = commands.iter().filter_map(|command| command["method"].as_str()).collect();
        assert_eq!(methods, ["session.new", "browsingContext.getTree", "browsingContext.navigate"]);
        assert_eq!(commands[2]["params"], json!({ "context": "c1", "url": "http://127.0.0.1:1/?a=b", "wait": "none" }));
    }

    #[test]
    fn a_refusal_is_an_error_with_its_reason() {
        let refusal = json!({ "type": "error", "error": "session not created", "message": "one is enough" });
        let (address, driver) = driver(vec![refusal]);
        let error = Session::open(&address, "http://x/").err().expect("refused");
        assert!(error.contains("session.new") && error.contains("one is enough"), "{error}");
        driver.join().expect("it ended");
        let error = Session::open("ws://127.0.0.1:1", "http://x/").err().expect("no driver");
        assert!(error.contains("ws://127.0.0.1:1"), "{error}");
    }
}
