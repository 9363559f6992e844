//! What tells of drift as it happens: the kernel's uevents, and writes to files and sysfs attributes. One stream of
//! triggers comes out; what has changed is for a look at the host to find.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::Sender;

use crate::kind::Watch;

/// Something has happened that may be drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// What, for the log.
    pub what: String,
    /// Whether it is the profile, so that what was learnt about the host no longer counts.
    pub profile: bool,
}

/// Largest uevent (include/linux/kobject.h: UEVENT_BUFFER_SIZE 2048, and the path before it).
const UEVENT: usize = 8192;
/// Multicast group of the kernel's own uevents; 2 is udev's.
const KERNEL: u32 = 1;

/// The kernel's uevents, those that may matter.
///
/// # Errors
/// When the socket cannot be had (some containers).
pub fn uevents(to: Sender<Trigger>) -> std::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        flags,
        Some(netlink::KOBJECT_UEVENT),
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, KERNEL))?;
    let socket = registered(socket)?;
    tokio::spawn(async move {
        let mut buffer = vec![0; UEVENT];
        while let Ok(mut ready) = socket.readable().await {
            let read = ready.try_io(|socket| {
                Ok(rustix::net::recv(socket.get_ref(), buffer.as_mut_slice(), RecvFlags::empty())?)
            });
            let trigger = match read {
                Err(_would_block) => continue,
                Ok(Ok((length, _))) => relevant(&buffer[..length.min(UEVENT)]),
                // ENOBUFS: more came than the socket holds. Something of it may have mattered.
                Ok(Err(_)) => Some(Trigger { what: "uevents were lost".into(), profile: false }),
            };
            // A full channel: a look is due anyway.
            if let Some(trigger) = trigger {
                let _ = to.try_send(trigger);
            }
        }
    });
    Ok(())
}

/// For the runtime to wait on.
// What is deprecated is registering a descriptor that somebody else may close; an owned one nobody else closes. The other
// way is unsafe code.
#[allow(deprecated)]
fn registered(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

/// Whether a uevent may undo what bedplate did: `ACTION@/devices/…`, then `KEY=value` after zero bytes.
fn relevant(message: &[u8]) -> Option<Trigger> {
    let text = String::from_utf8_lossy(message);
    let mut fields = text.split('\0');
    let head = fields.next()?;
    let subsystem = fields.find_map(|field| field.strip_prefix("SUBSYSTEM="))?;
    let counts = matches!(subsystem, "pci" | "net" | "infiniband" | "module" | "drivers");
    // Interfaces of containers come and go all day.
    let virtual_net = subsystem == "net" && head.contains("/devices/virtual/");
    (counts && !virtual_net).then(|| Trigger { what: format!("uevent {head}"), profile: false })
}

/// Watches over files, directories and sysfs attributes.
pub struct Files {
    descriptor: std::sync::Arc<AsyncFd<OwnedFd>>,
    watched: std::sync::Arc<std::sync::Mutex<BTreeMap<i32, String>>>,
}

impl Files {
    /// Starts with nothing watched.
    ///
    /// # Errors
    /// When inotify cannot be had.
    pub fn new(to: Sender<Trigger>) -> std::io::Result<Self> {
        let descriptor = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let descriptor = std::sync::Arc::new(registered(descriptor)?);
        let watched = std::sync::Arc::new(std::sync::Mutex::new(BTreeMap::new()));
        tokio::spawn(read(descriptor.clone(), watched.clone(), to));
        Ok(Files { descriptor, watched })
    }

    /// Watches all of these, whatever was watched before. What cannot be watched is left to the slow re-check.
    pub fn set(&self, watch: &Watch) {
        let files = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE;
        let wanted = watch.directories.iter().map(|path| (path, files));
        let wanted = wanted.chain(watch.attributes.iter().map(|path| (path, WatchFlags::MODIFY)));
        let mut watched = lock(&self.watched);
        for (path, mask) in wanted {
            // Watching a file twice gives the same number again.
            if let Ok(number) = inotify::add_watch(self.descriptor.get_ref(), path.as_str(), mask) {
                watched.insert(number, path.clone());
            }
        }
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing in here panics with the lock held; were it so, the map would still be a map.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn read(
    descriptor: std::sync::Arc<AsyncFd<OwnedFd>>,
    watched: std::sync::Arc<std::sync::Mutex<BTreeMap<i32, String>>>,
    to: Sender<Trigger>,
) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    while let Ok(mut ready) = descriptor.readable().await {
        let mut reader = inotify::Reader::new(descriptor.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let mut watched = lock(&watched);
                    if event.events().contains(ReadFlags::IGNORED) {
                        // The file is gone; a device that comes back has new ones.
                        watched.remove(&event.wd());
                        continue;
                    }
                    let path = watched.get(&event.wd()).cloned().unwrap_or_default();
                    let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                    drop(watched);
                    if let Some(trigger) = of_file(&path, name.as_deref()) {
                        let _ = to.try_send(trigger);
                    }
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => return,
            }
        }
        ready.clear_ready();
    }
}

/// A change of a file: of the profile, of what bedplate owns, or of nobody's interest.
fn of_file(path: &str, name: Option<&str>) -> Option<Trigger> {
    let what = match name {
        Some(name) => format!("{path}/{name}"),
        None => path.to_owned(),
    };
    // Editors' and bedplate's own temporary files; and of bedplate's state only what an operator writes there.
    let temporary = name
        .is_some_and(|name| name.starts_with('.') || name.ends_with(['~', '#']) || name == "4913");
    if temporary || (path.ends_with(crate::ledger::DIRECTORY) && !name.is_some_and(of_an_operator))
    {
        return None;
    }
    Some(Trigger { profile: path.starts_with("/etc/bedplate"), what })
}

/// Holds, the only files there that `bedplate` writes for an operator.
fn of_an_operator(name: &str) -> bool {
    name == "hold.json" || name == crate::enforce_hold::NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uevent(text: &str) -> Option<String> {
        relevant(text.replace('|', "\0").as_bytes()).map(|trigger| trigger.what)
    }

    #[test]
    fn uevents_that_matter() {
        let pci =
            "bind@/devices/pci0000:00/0000:00:01.0|ACTION=bind|DEVPATH=/x|SUBSYSTEM=pci|SEQNUM=1";
        assert_eq!(uevent(pci).unwrap(), "uevent bind@/devices/pci0000:00/0000:00:01.0");
        assert!(uevent("remove@/module/x|ACTION=remove|SUBSYSTEM=module").is_some());
        for nothing in [
            "",
            "add@/devices/virtual/net/veth1|SUBSYSTEM=net",
            "change@/devices/virtual/block/dm-0|SUBSYSTEM=block",
            "add@/x|NAME=SUBSYSTEM=pci",
            "libudev|SUBSYSTE",
        ] {
            assert_eq!(uevent(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn files_that_matter() {
        let profile = of_file("/etc/bedplate", Some("profile.toml")).unwrap();
        assert!(profile.profile);
        assert!(!of_file("/etc/default/grub.d", Some("50-site.cfg")).unwrap().profile);
        assert!(of_file("/sys/bus/pci/devices/0000:22:00.0/config", None).is_some());
        assert!(of_file("/var/lib/bedplate", Some("hold.json")).is_some());
        assert!(of_file("/var/lib/bedplate", Some("enforce-hold.json")).is_some());
        assert_eq!(of_file("/var/lib/bedplate", Some("ledger.json")), None);
        assert_eq!(of_file("/etc/bedplate", Some(".profile.toml.swp")), None);
    }
}
