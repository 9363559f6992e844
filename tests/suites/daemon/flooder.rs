//! An unprivileged user who floods the daemon: many connections, each sending every method as fast as the bus accepts it
//! and discarding the answers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use bedplate_daemon::bus::{NAME, PATH};
use zbus::message::Flags;

/// `nobody` of a user namespace, and of most systems.
const UID: u32 = 65534;
/// Bytes written to a connection before its next turn.
const BLOCK: usize = 8192;
/// Bytes of the header before the serial, and of the serial (D-Bus specification, "Message Format").
const SERIAL: std::ops::Range<usize> = 8..12;

/// A flood that runs until it is dropped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    /// Number of calls that the bus accepted.
    calls: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Starts a flood from this number of connections to the bus at this socket.
    pub fn start(socket: PathBuf, connections: usize) -> Self {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), calls.clone());
        let thread = std::thread::spawn(move || {
            // Of this thread only: the bus asks the kernel for the peer's user.
            let uid = rustix::process::Uid::from_raw(UID);
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
            let calls = every_call();
            let mut all: Vec<Caller> = (0..connections)
                .map(|number| Caller::connect(&socket, &calls, number % calls.len()))
                .collect();
            while !stopped.load(Ordering::Relaxed) {
                let mut idle = true;
                for caller in &mut all {
                    let sent = caller.turn(&calls);
                    counted.fetch_add(sent, Ordering::Relaxed);
                    idle &= sent == 0;
                }
                if idle {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        Flood { stop, calls, thread: Some(thread) }
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the flood broke off");
    }
}

/// Every method of the daemon as bytes, each once with an answer expected and once without.
fn every_call() -> Vec<Vec<u8>> {
    let properties = "org.freedesktop.DBus.Properties";
    let mut calls = Vec::new();
    for flags in [None, Some(Flags::NO_REPLY_EXPECTED)] {
        let mut add = |interface: &str, member: &str, body: Body<'_>| {
            let call = zbus::Message::method_call(PATH, member).destination(NAME);
            let call = call.interface(interface);
            let call = match flags {
                Some(flags) => call.with_flags(flags),
                None => call,
            };
            let message = match body {
                Body::Nothing => call.build(&()),
                Body::Words(one, two) => call.build(&(one, two)),
                Body::Word(one) => call.build(&one),
                Body::Reboot => call.build(&("a flood", 0_u64)),
                Body::Set => call.build(&(NAME, "Reason", zbus::Variant::from("mine"))),
            };
            calls.push(message.expect("a message").data().to_vec());
        };
        for member in ["Plan", "Reconcile", "Reload", "CancelReboot", "ForgetMissing", "None"] {
            add(NAME, member, Body::Nothing);
        }
        add(NAME, "ScheduleReboot", Body::Reboot);
        for property in ["StatusJson", "PlanJson", "State", "None"] {
            add(properties, "Get", Body::Words(NAME, property));
        }
        add(properties, "GetAll", Body::Word(NAME));
        add(properties, "Set", Body::Set);
        add("org.freedesktop.DBus.Introspectable", "Introspect", Body::Nothing);
        add("org.freedesktop.DBus.Peer", "Ping", Body::Nothing);
        add("org.freedesktop.DBus.Peer", "GetMachineId", Body::Nothing);
    }
    calls
}

enum Body<'a> {
    Nothing,
    Word(&'a str),
    Words(&'a str, &'a str),
    Reboot,
    Set,
}

struct Caller {
    stream: UnixStream,
    /// Index of the next call.
    next: usize,
    serial: u32,
    /// Bytes that the bus has not accepted yet.
    left: Vec<u8>,
}

impl Caller {
    fn connect(socket: &std::path::Path, calls: &[Vec<u8>], next: usize) -> Self {
        assert!(calls.iter().all(|call| call[0] == b'l'), "little endian, as the serials here");
        let mut stream = UnixStream::connect(socket).expect("the bus is there");
        // The uid in decimal, in hexadecimal (D-Bus specification, "EXTERNAL").
        let uid: String = UID.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
        write!(stream, "\0AUTH EXTERNAL {uid}\r\n").expect("it listens");
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it answers");
            said.extend(byte);
        }
        assert!(said.starts_with(b"OK "), "{}", String::from_utf8_lossy(&said));
        let bus = "org.freedesktop.DBus";
        let hello = zbus::Message::method_call("/org/freedesktop/DBus", "Hello")
            .destination(bus)
            .interface(bus)
            .serial(NonZeroU32::MIN)
            .build(&())
            .expect("a message");
        stream.write_all(b"BEGIN\r\n").expect("it listens");
        stream.write_all(hello.data()).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        Caller { stream, next, serial: 1, left: Vec::new() }
    }

    /// Reads the answers and writes as much as the bus accepts. Returns the number of calls started.
    fn turn(&mut self, calls: &[Vec<u8>]) -> u64 {
        let mut buffer = [0; 1 << 16];
        while self.stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
        let mut begun = 0;
        if self.left.is_empty() {
            while self.left.len() < BLOCK {
                let from = self.left.len();
                self.left.extend(&calls[self.next]);
                self.serial += 1;
                self.left[from..][SERIAL].copy_from_slice(&self.serial.to_le_bytes());
                self.next = (self.next + 1) % calls.len();
                begun += 1;
            }
        }
        match self.stream.write(&self.left) {
            Ok(written) => _ = self.left.drain(..written),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("the bus has ended a connection of the flood: {error}"),
        }
        begun
    }
}
