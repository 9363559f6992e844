//! The reboot lock (FleetLock): taken before the reboot, held until the host is well again, released if no reboot happens.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::State;
use serde_json::{Value, json};

use super::rig::{Rig, right, until, waiting};

mod given_back;
mod kept;

/// A server that answers each request with the next of its answers, and repeats the last one.
pub struct Server {
    pub url: String,
    answers: Answers,
    /// Answers of /v1/steady-state, if different.
    to_steady_state: Answers,
    asked: Arc<Mutex<Vec<String>>>,
}

pub const YES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// Answer of poseidon/fleetlock.
const TAKEN: &str = "HTTP/1.1 423 Locked\r\nContent-Length: 42\r\nConnection: close\r\n\r\n\
                     {\"kind\":\"lock_held\",\"value\":\"reboot lease\"}";
/// Answer of airlock.
const FULL: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 72\r\nConnection: close\r\n\r\n\
                    {\"kind\":\"failed_lock\",\"value\":\"all 1 semaphore slots currently locked..\"}";
type Answers = Arc<Mutex<Vec<&'static str>>>;

/// The server reads the request and closes the connection without an answer.
const DROPPED: &str = "";

/// A connection after decryption.
pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Server {
    fn start(answers: &[&'static str]) -> Self {
        Server::over("http", answers, |stream| Box::new(stream))
    }

    /// Starts a server that speaks HTTP over the result of `lay_bare` for each connection.
    pub fn over(
        scheme: &str,
        answers: &[&'static str],
        lay_bare: impl Fn(TcpStream) -> Box<dyn Stream> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let url = format!("{scheme}://{}", listener.local_addr().expect("bound"));
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let (to_steady_state, asked) = (Answers::default(), Arc::new(Mutex::new(Vec::new())));
        let (own_answers, own_to_steady_state) = (answers.clone(), to_steady_state.clone());
        let own_asked = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = lay_bare(stream.expect("a connection"));
                let mut request = Vec::new();
                let mut buffer = [0; 1024];
                while !request.ends_with(b"}}") {
                    match stream.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(length) => request.extend_from_slice(&buffer[..length]),
                    }
                }
                // A client that does not trust this server's certificate sends no request.
                if request.is_empty() {
                    continue;
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut answers = own_to_steady_state.lock().expect("not poisoned");
                if path != "/v1/steady-state" || answers.is_empty() {
                    answers = own_answers.lock().expect("not poisoned");
                }
                let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
                own_asked.lock().expect("not poisoned").push(path);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Server { url, answers, to_steady_state, asked }
    }

    /// Sets the answers for released slots from now on.
    fn at_steady_state(&self, answers: &[&'static str]) {
        *self.to_steady_state.lock().expect("not poisoned") = answers.to_vec();
    }

    /// The same server under another name of this host.
    pub fn at(mut self, host: &str) -> Self {
        self.url = self.url.replace("127.0.0.1", host);
        self
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }

    pub fn in_profile(&self, mut seen: Value) -> Value {
        seen["reboot"]["fleetlock"] = json!({ "url": self.url, "group": "default" });
        seen
    }
}

pub fn scheduled(rig: &Rig) -> bool {
    rig.status().is_some_and(|status| matches!(status.reboot.state, RebootState::Scheduled { .. }))
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn slot_is_taken_before_the_reboot_and_released_after() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start();
    until("scheduled", || scheduled(&rig));
    assert_eq!(server.asked(), ["/v1/pre-reboot"]);
    assert!(rig.status().expect("it answers").reboot.lock.is_some_and(|lock| lock.certain));
    // The host is not converged after the reboot: the slot stays taken.
    rig.reboot("boot-2");
    rig.until("attempts exhausted", |status| status.state == State::AttemptsExhausted);
    rig.settle();
    assert_eq!(server.asked(), ["/v1/pre-reboot"]);
    // The host is converged after the reboot: the slot is released, once.
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-3");
    until("given back", || server.asked().len() == 2);
    assert_eq!(server.asked()[1], "/v1/steady-state");
    rig.touch();
    rig.settle();
    assert_eq!(server.asked().len(), 2);
    assert_eq!(rig.status().expect("it answers").reboot.lock, None);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_without_a_slot_is_not_scheduled() {
    for answer in [TAKEN, FULL, DROPPED] {
        let mut rig = Rig::new();
        let server = Server::start(&[answer]);
        rig.look(&server.in_profile(waiting(&rig)));
        rig.start();
        let status =
            rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
        let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
        assert!(why[0].text.starts_with("no reboot lock slot yet: "), "{why:?}");
        rig.touch();
        rig.settle();
        assert_eq!(rig.asked_of_logind(), [""; 0], "{answer}");
        assert_eq!(server.asked().len(), 1, "events do not hurry the server: {:?}", server.asked());
        // A slot that may be held is released when it is no longer needed.
        *server.answers.lock().expect("not poisoned") = vec![YES];
        rig.look(&server.in_profile(right(&rig)));
        rig.reboot("boot-2");
        until("given back", || {
            server.asked().last().is_some_and(|path| path == "/v1/steady-state")
        });
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_with_a_dead_server_is_not_scheduled() {
    let mut rig = Rig::new();
    let nobody = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = nobody.local_addr().expect("bound");
    drop(nobody);
    let mut seen = waiting(&rig);
    seen["reboot"]["fleetlock"] =
        json!({ "url": format!("http://{address}/"), "group": "default" });
    rig.look(&seen);
    rig.start();
    rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn healthy_host_reports_steady_state_at_every_boot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.look(&server.in_profile(right(&rig)));
    rig.start();
    until("told", || server.asked() == ["/v1/steady-state"]);
}

/// A server that waits before each write of at most `most` bytes.
struct Slow {
    stream: TcpStream,
    wait: std::time::Duration,
    most: usize,
}

impl Slow {
    fn start(wait: std::time::Duration, most: usize) -> Server {
        Server::over("http", &[YES], move |stream| Box::new(Slow { stream, wait, most }))
    }
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::thread::sleep(self.wait);
        self.stream.write(&bytes[..bytes.len().min(self.most)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn slow_server_keeps_nobody_waiting() {
    let mut rig = Rig::new();
    let server = Slow::start(std::time::Duration::from_millis(500), 1);
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start_blindly();
    until("the server is asked", || !server.asked().is_empty());
    // The second cancel has nothing to cancel: only its response time matters.
    for _ in 0..2 {
        let begun = std::time::Instant::now();
        let (_, said) = rig.run(&["reboot", "cancel"]);
        let took = begun.elapsed();
        assert!(took < std::time::Duration::from_secs(2), "{took:?}: {said}");
    }
}

/// The next step of the daemon uses the late answer, and the slot is released afterwards.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn late_answer_is_used() {
    let mut rig = Rig::new();
    let server = Slow::start(std::time::Duration::from_secs(2), usize::MAX);
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start_blindly();
    until("scheduled", || scheduled(&rig));
    assert_eq!(server.asked(), ["/v1/pre-reboot"]);
    rig.look(&server.in_profile(right(&rig)));
    rig.touch();
    until("given back", || rig.status().is_some_and(|status| status.reboot.lock.is_none()));
    assert_eq!(server.asked(), ["/v1/pre-reboot", "/v1/steady-state"]);
}
