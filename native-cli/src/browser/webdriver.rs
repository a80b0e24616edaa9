//! Client of WebDriver over HTTP, as `safaridriver` serves it: one session, one page. Tests use a substitute of the driver.

use std::time::Duration;

use serde_json::{Value, json};

/// Session of a driver. The page runs until [`WebDriver::close`].
pub struct WebDriver {
    address: String,
    session: String,
    version: String,
}

/// Longest wait for an answer of the driver.
const ANSWER: Duration = Duration::from_secs(30);

/// Returns a free port of this machine for a driver, which prints none.
///
/// # Errors
/// Error of the system.
pub fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl WebDriver {
    /// Opens a session of the driver at an address, as in `127.0.0.1:4444`.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn new(address: &str) -> Result<WebDriver, String> {
        let begun = exchange(address, "POST", "/session", &json!({ "capabilities": {} }))?;
        let session = begun["sessionId"].as_str().ok_or("the driver named no session")?.to_owned();
        let capability = |name: &str| begun["capabilities"][name].as_str().unwrap_or_default().to_owned();
        let version = format!("{} {}", capability("browserName"), capability("browserVersion"));
        Ok(WebDriver { address: address.to_owned(), session, version })
    }

    /// Opens a page.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn open(&self, url: &str) -> Result<(), String> {
        let path = format!("/session/{}/url", self.session);
        exchange(&self.address, "POST", &path, &json!({ "url": url })).map(drop)
    }

    /// Ends the session and closes its page. A driver that ended before needs no more.
    pub fn close(&self) {
        let _ = exchange(&self.address, "DELETE", &format!("/session/{}", self.session), &json!({}));
    }

    /// Returns name and version of the browser.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Sends a command, and returns its value.
fn exchange(address: &str, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{method} {path}: {error}");
    let agent = ureq::Agent::config_builder().timeout_global(Some(ANSWER)).http_status_as_error(false).build();
    let agent = ureq::Agent::from(agent);
    let url = format!("http://{address}{path}");
    let response = match method {
        "DELETE" => agent.delete(&url).call(),
        _ => agent.post(&url).send_json(body),
    };
    let mut response = response.map_err(|error| failed(&error))?;
    let mut answer: Value = response.body_mut().read_json().map_err(|error| failed(&error))?;
    let value = answer["value"].take();
    match value["error"].as_str() {
        None => Ok(value),
        Some(error) => Err(failed(&format!("{error}: {}", value["message"].as_str().unwrap_or_default()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    /// Serves one answer per request, and returns the requests: method, path and body.
    fn driver(answers: Vec<Value>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let thread = std::thread::spawn(move || {
            answers.into_iter().map(|answer| {
                let mut stream = BufReader::new(listener.accept().expect("a client").0);
                let (mut first, mut length) = (String::new(), 0);
                stream.read_line(&mut first).expect("a request");
                loop {
                    let mut header = String::new();
                    stream.read_line(&mut header).expect("a header");
                    let header = header.trim().to_lowercase();
                    if let Some(value) = header.strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a number");
                    }
                    if header.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).expect("a body");
                let answer = answer.to_string();
                write!(
                    stream.get_mut(),
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                    answer.len()
                )
                .expect("sent");
                let line = first.trim().trim_end_matches(" HTTP/1.1").to_owned();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                format!("{line} {body}")
            }).collect()
        });
        (address, thread)
    }

    #[test]
    fn a_session_opens_a_page_and_closes_it() {
        let begun = json!({ "value": {
            "sessionId": "s1",
            "capabilities": { "browserName": "Safari", "browserVersion": "26.1" },
        } });
        let (address, driver) = driver(vec![begun, json!({ "value": null }), json!({ "value": null })]);
        let session = WebDriver::new(&address).expect("a session");
        assert_eq!(session.version(), "Safari 26.1");
        session.open("http://127.0.0.1:1/").expect("opened");
        session.close();
        assert_eq!(
            driver.join().expect("it ended"),
            [
                r#"POST /session {"capabilities":{}}"#,
                r#"POST /session/s1/url {"url":"http://127.0.0.1:1/"}"#,
                "DELETE /session/s1 null",
            ]
        );
    }

    #[test]
    fn a_refusal_is_an_error_with_its_reason() {
        let refusal = json!({ "value": { "error": "session not created", "message": "allow remote automation" } });
        let (address, driver) = driver(vec![refusal]);
        let error = WebDriver::new(&address).err().expect("refused");
        assert!(error.contains("allow remote automation"), "{error}");
        driver.join().expect("it ended");
    }
}
