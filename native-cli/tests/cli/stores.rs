//! Run files in object stores: sent, listed and read.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::fleet::fleet;
use crate::{folder, parallax_with};

/// Objects by their keys.
type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// Key that the store accepts.
const KEY: &str = "AKIDEXAMPLE";

/// Answers one request of the part of S3 that lists, reads and writes objects of the bucket `lab`.
async fn answer(State(objects): State<Objects>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let signed = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !signed.is_some_and(|text| text.starts_with("AWS4-HMAC-SHA256") && text.contains(KEY)) {
        let why = "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let mut objects = objects.lock().expect("no panic");
    let key = uri.path().trim_start_matches("/lab").trim_start_matches('/').to_owned();
    let stamp = [(header::ETAG, "\"1\""), (header::LAST_MODIFIED, "Mon, 30 Nov 2026 12:00:00 GMT")];
    match (method, key.as_str()) {
        (Method::GET, "") => {
            let query = uri.query().unwrap_or_default().replace("%2F", "/");
            let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
            let entry = |(key, bytes): (&String, &Bytes)| {
                let (size, time) = (bytes.len(), "2026-11-30T12:00:00.000Z");
                format!(
                    "<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>1</ETag><Size>{size}</Size></Contents>"
                )
            };
            let entries: String = objects.iter().filter(|(key, _)| key.starts_with(prefix)).map(entry).collect();
            format!("<ListBucketResult>{entries}</ListBucketResult>").into_response()
        }
        (Method::PUT, _) if headers.contains_key(header::IF_NONE_MATCH) && objects.contains_key(&key) => {
            StatusCode::PRECONDITION_FAILED.into_response()
        }
        (Method::PUT, _) => {
            objects.insert(key, body);
            stamp.into_response()
        }
        (Method::GET | Method::HEAD, _) => match objects.get(&key) {
            Some(bytes) => (stamp, bytes.clone()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

/// Starts a store on this machine. Returns its objects and its address.
fn store() -> (Objects, String) {
    let objects = Objects::default();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let router = Router::new().fallback(answer).with_state(objects.clone());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            axum::serve(listener, router).await.expect("a server");
        });
    });
    (objects, address)
}

/// Text of both streams, and the exit code.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream).into_owned()).concat();
    (output.status.code(), text)
}

#[test]
fn a_fleet_is_sent_to_a_store_and_read_from_there() {
    let dir = folder();
    fleet(&dir.path().join("runs"), Some(11));
    std::fs::write(dir.path().join("runs/node0/0-0.trace.json"), "{}").expect("a file");
    let (objects, endpoint) = store();
    let with_key = |folder: &Path, key: &str, args: &[&str]| {
        let variables = [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", key),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("COLUMNS", "200"),
        ];
        said(&parallax_with(folder, args, &variables))
    };
    let run = |args: &[&str]| with_key(dir.path(), KEY, args);
    for (node, traces) in [("node0", true), ("node1", false)] {
        let out = format!("runs/{node}");
        let args = ["results", "send", "s3://lab/week-1", "--out", &out, "--traces"];
        let (code, text) = run(if traces { &args } else { &args[..5] });
        let sent = if traces { "25 files sent to s3://lab/week-1; 0 there already" } else { "24 files sent" };
        assert!(code == Some(0) && text.contains(sent), "{text}");
    }
    assert_eq!(objects.lock().expect("no panic").len(), 49);
    let (code, text) = run(&["results", "send", "s3://lab/week-1", "--out", "runs/node1"]);
    assert!(code == Some(0) && text.contains("0 files sent") && text.contains("24 there already"), "{text}");

    let (code, text) = run(&["fleet", "s3://lab/week-1/", "--fail-if-faulty"]);
    assert!(text.contains("16 cards in 48 runs: 1 of them faulty"), "{text}");
    assert!(code == Some(1) && text.contains("node1 0000:03:00.0"), "{text}");
    let (code, text) = run(&["history", "s3://lab/week-1/node1"]);
    assert!(code == Some(0) && text.contains("24 runs"), "{text}");
    // One object, and a prefix without any.
    let (code, text) = run(&["history", "s3://lab/week-1/node1/8-0.json"]);
    assert!(code == Some(0) && text.contains("1 run"), "{text}");
    let (code, text) = run(&["fleet", "s3://lab/week-2"]);
    assert!(code == Some(2) && text.contains("no run file in s3://lab/week-2"), "{text}");

    objects.lock().expect("no panic").insert("week-1/node0/broken.json".to_owned(), Bytes::from_static(b"{"));
    let (_, text) = run(&["fleet", "s3://lab/week-1"]);
    assert!(text.contains("not read: s3://lab/week-1/node0/broken.json"), "{text}");
    let (code, text) = with_key(dir.path(), "unknown", &["fleet", "s3://lab/week-1"]);
    assert!(code == Some(2) && text.contains("cannot list s3://lab/week-1") && text.contains("AWS_"), "{text}");
}

#[test]
fn folders_have_addresses_too_and_other_addresses_are_refused() {
    let dir = folder();
    fleet(&dir.path().join("runs"), None);
    let wide = [("COLUMNS", "200")];
    let run = |args: &[&str]| said(&parallax_with(dir.path(), args, &wide));
    let address = format!("file://{}", dir.path().join("store").display());
    std::fs::create_dir(dir.path().join("store")).expect("a folder");
    let (code, text) = run(&["results", "send", &address, "--out", "runs/node0"]);
    assert!(code == Some(0) && text.contains("24 files sent"), "{text}");
    let (code, text) = run(&["fleet", &address]);
    assert!(code == Some(0) && text.contains("8 cards in 24 runs"), "{text}");
    for (args, part) in [
        (&["results", "send", "ftp://host/x", "--out", "runs/node0"][..], "no address of an object store"),
        (&["fleet", "s3://"], "cannot open the object store of s3://"),
        (&["fleet", "ftp://host/x"], "no such file or folder"),
    ] {
        let (code, text) = run(args);
        assert!(code == Some(2) && text.contains(part), "{args:?}: {text}");
    }
}
