//! Debian's headless Chromium, driven over a pipe: the protocol of its developer tools, JSON messages that each end with a NUL.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use bedplate_tests::fixtures;
use serde_json::{Value, json};

/// Flags that switch off Chromium's background activity.
const FLAGS: [&str; 10] = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    number: u64,
    /// Events received since the page was opened.
    events: VecDeque<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser.
    pub fn start() -> Self {
        let program = fixtures::tool("chromium");
        let profile = tempfile::tempdir().expect("a temporary directory");
        let mut child = Command::new("sh")
            // Chromium reads from descriptor 3 and writes to 4.
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args(FLAGS)
            // Chromium refuses to run as root with its sandbox; other users keep it.
            .args(nix::unistd::geteuid().is_root().then_some("--no-sandbox"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        let (session, events) = (String::new(), VecDeque::new());
        let mut browser =
            Browser { child, to, from, session, number: 0, events, _profile: profile };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file in a window of this size.
    pub fn open(&mut self, file: &Path, (width, height): (u32, u32)) {
        self.window((width, height));
        self.events.clear();
        let url = format!("file://{}", file.display());
        let answer = self.ask("Page.navigate", json!({ "url": url }));
        assert!(answer.get("errorText").is_none(), "{answer}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push_back(event);
        }
    }

    /// Makes the window another size.
    pub fn window(&mut self, (width, height): (u32, u32)) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the reader's preferred colour scheme: `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Returns the result of a script. It runs through the developer tools, because the page's policy allows no scripts.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let asked = json!({ "expression": script, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Moves the mouse to a position in the window; with `press`, clicks there.
    pub fn mouse(&mut self, (x, y): (f64, f64), press: bool) {
        let kinds: &[&str] = match press {
            true => &["mouseMoved", "mousePressed", "mouseReleased"],
            false => &["mouseMoved"],
        };
        for kind in kinds {
            let button = if *kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Returns the printed page as a PDF, on the paper size that the page requests.
    pub fn print(&mut self) -> Vec<u8> {
        let answer = self.ask("Page.printToPDF", json!({ "preferCSSPageSize": true }));
        let text = answer["data"].as_str().expect("a document");
        base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
    }

    /// Takes a PNG screenshot of the window.
    pub fn shot(&mut self) -> Vec<u8> {
        let answer = self.ask("Page.captureScreenshot", json!({ "format": "png" }));
        let text = answer["data"].as_str().expect("a picture");
        base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
    }

    /// Returns the addresses requested and the complaints logged since the page was opened.
    pub fn requests_and_complaints(&mut self) -> (Vec<String>, Vec<String>) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (mut requests, mut complaints) = (Vec::new(), Vec::new());
        for event in &self.events {
            let parameters = &event["params"];
            match event["method"].as_str() {
                Some("Network.requestWillBeSent") => {
                    requests.push(text(&parameters["request"]["url"]));
                }
                Some("Network.webSocketCreated") => requests.push(text(&parameters["url"])),
                Some("Log.entryAdded") => complaints.push(text(&parameters["entry"]["text"])),
                _ => {}
            }
        }
        (requests, complaints)
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({ "id": number, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("Chromium runs");
        loop {
            let answer = self.read();
            if answer["id"] == number {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).expect("a pipe");
        assert_eq!(message.pop(), Some(0), "Chromium ended");
        serde_json::from_slice(&message).expect("JSON")
    }
}

impl Drop for Browser {
    /// Kills Chromium; its child processes end with it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
