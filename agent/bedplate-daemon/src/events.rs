//! Event sources for drift: the kernel's uevents, and writes to files and sysfs attributes, merged into one stream of
//! triggers. An observation then determines the actual change.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::Sender;

use crate::lock;
use bedplate_core::kind::Watch;

/// An event that may indicate drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// Description for the log.
    pub what: String,
    /// Whether the profile may have changed, so that earlier results about the host are invalid.
    pub profile: bool,
}

/// Largest uevent (include/linux/kobject.h: UEVENT_BUFFER_SIZE 2048, and the path before it).
const UEVENT: usize = 8192;
/// Multicast group of the kernel's own uevents; 2 is udev's.
const KERNEL: u32 = 1;

/// Sends a trigger for each relevant uevent of the kernel.
///
/// # Errors
/// If the socket cannot be opened (some containers).
pub(crate) fn uevents(to: Sender<Trigger>) -> std::io::Result<()> {
    listen(SockProtocol::NetlinkKObjectUEvent, KERNEL, UEVENT, to, |message| match message {
        Some(message) => relevant(message),
        None => Some(Trigger { what: "uevents were lost".into(), profile: false }),
    })
}

/// Forwards the trigger that `relevant` returns for each message of a netlink group. `relevant` gets `None` if the socket
/// overflowed (ENOBUFS) and messages were lost. A message has at most `largest` bytes.
///
/// # Errors
/// If the socket cannot be opened.
pub(super) fn listen(
    protocol: SockProtocol,
    group: u32,
    largest: usize,
    to: Sender<Trigger>,
    mut relevant: impl FnMut(Option<&[u8]>) -> Option<Trigger> + Send + 'static,
) -> std::io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, group))?;
    let socket = registered(socket)?;
    tokio::spawn(async move {
        let mut buffer = vec![0; largest];
        while let Ok(mut ready) = socket.readable().await {
            let read = ready
                .try_io(|socket| Ok(recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?));
            // It would block.
            let Ok(read) = read else { continue };
            // The channel is full: an observation is due anyway.
            if let Some(trigger) = relevant(read.ok().map(|length| &buffer[..length])) {
                let _ = to.try_send(trigger);
            }
        }
    });
    Ok(())
}

/// Sends a trigger each time the clock is set (not while it is slewed): the age of earlier results is wrong then. The timer
/// never ends; the kernel cancels it (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
///
/// # Errors
/// If the timer cannot be made.
pub(crate) fn clock_set(to: Sender<Trigger>) -> std::io::Result<()> {
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = registered(Timer(TimerFd::new(ClockId::CLOCK_REALTIME, flags)?))?;
    timer.get_ref().start()?;
    tokio::spawn(async move {
        while let Ok(mut ready) = timer.readable().await {
            let ended = ready.try_io(|timer| Ok(timer.get_ref().0.wait()?));
            match ended {
                // It would block.
                Err(_) => continue,
                // Cancelled.
                Ok(Ok(())) if timer.get_ref().start().is_ok() => {}
                Ok(_) => return,
            }
            let _ = to.try_send(Trigger { what: "the clock was set".into(), profile: false });
        }
    });
    Ok(())
}

/// A timer that implements `AsRawFd` for the runtime.
struct Timer(TimerFd);

impl Timer {
    fn start(&self) -> nix::Result<()> {
        let flags =
            TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        self.0.set(Expiration::OneShot(TimeSpec::new(i64::MAX, 0)), flags)
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Registers a descriptor with the runtime.
// `AsyncFd::new` is deprecated because a descriptor may be closed while it is registered; no other code closes an owned
// one. The alternative needs unsafe code.
#[allow(deprecated)]
fn registered<T: AsRawFd>(descriptor: T) -> std::io::Result<AsyncFd<T>> {
    AsyncFd::new(descriptor)
}

/// Returns a trigger if a uevent may have undone a change of bedplate. `message` is `ACTION@/devices/…`, then `KEY=value`
/// fields, separated by zero bytes.
pub fn relevant(message: &[u8]) -> Option<Trigger> {
    let text = String::from_utf8_lossy(message);
    let mut fields = text.split('\0');
    let head = fields.next()?;
    let subsystem = fields.find_map(|field| field.strip_prefix("SUBSYSTEM="))?;
    let counts = matches!(subsystem, "pci" | "net" | "infiniband" | "module" | "drivers");
    // Interfaces of containers change all day.
    let virtual_net = subsystem == "net" && head.contains("/devices/virtual/");
    (counts && !virtual_net).then(|| Trigger { what: format!("uevent {head}"), profile: false })
}

/// Events of a directory: files are written, moved in, moved out, deleted.
const FILES: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE);

/// An inotify instance that implements `AsRawFd` for the runtime.
struct Instance(Inotify);

impl AsRawFd for Instance {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Watches on files, directories and sysfs attributes.
pub(crate) struct Files {
    descriptor: std::sync::Arc<AsyncFd<Instance>>,
    watched: std::sync::Arc<std::sync::Mutex<BTreeMap<WatchDescriptor, String>>>,
}

impl Files {
    /// Starts without watches.
    ///
    /// # Errors
    /// If inotify is not available.
    pub(crate) fn new(to: Sender<Trigger>) -> std::io::Result<Self> {
        let descriptor = Instance(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?);
        let descriptor = std::sync::Arc::new(registered(descriptor)?);
        let watched = std::sync::Arc::new(std::sync::Mutex::new(BTreeMap::new()));
        tokio::spawn(read(descriptor.clone(), watched.clone(), to));
        Ok(Files { descriptor, watched })
    }

    /// Adds watches on all of these; existing ones stay. Paths that cannot be watched are covered by the re-check.
    pub(crate) fn set(&self, watch: &Watch) {
        let attributes = watch.attributes.iter().map(|path| (path, AddWatchFlags::IN_MODIFY));
        self.add(watch.directories.iter().map(|path| (path, FILES)).chain(attributes));
    }

    /// Watches directories whose owner and mode matter as well as the files in them.
    pub(crate) fn set_trusted(&self, directories: &[String]) {
        let mask = FILES | AddWatchFlags::IN_ATTRIB;
        self.add(directories.iter().map(|path| (path, mask)));
    }

    fn add<'a>(&self, wanted: impl Iterator<Item = (&'a String, AddWatchFlags)>) {
        let mut watched = lock(&self.watched);
        for (path, mask) in wanted {
            // Watching a file twice returns the same number.
            if let Ok(number) = self.descriptor.get_ref().0.add_watch(path.as_str(), mask) {
                watched.insert(number, path.clone());
            }
        }
    }
}

async fn read(
    descriptor: std::sync::Arc<AsyncFd<Instance>>,
    watched: std::sync::Arc<std::sync::Mutex<BTreeMap<WatchDescriptor, String>>>,
    to: Sender<Trigger>,
) {
    while let Ok(mut ready) = descriptor.readable().await {
        let events = match descriptor.get_ref().0.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN) => {
                ready.clear_ready();
                continue;
            }
            Err(_) => return,
        };
        for event in events {
            let mut watched = lock(&watched);
            if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                // The file was deleted; a device that returns has new files.
                watched.remove(&event.wd);
                continue;
            }
            let path = watched.get(&event.wd).cloned().unwrap_or_default();
            drop(watched);
            let name = event.name.map(|name| name.to_string_lossy().into_owned());
            if let Some(trigger) = of_file(&path, name.as_deref()) {
                let _ = to.try_send(trigger);
            }
        }
    }
}

/// Returns a trigger for a change of a file of the profile or of a setting; `None` for irrelevant files.
fn of_file(path: &str, name: Option<&str>) -> Option<Trigger> {
    let what = match name {
        Some(name) => format!("{path}/{name}"),
        None => path.to_owned(),
    };
    // Temporary files of editors and of bedplate. In bedplate's state directory, only files written for an operator matter.
    let temporary = name
        .is_some_and(|name| name.starts_with('.') || name.ends_with(['~', '#']) || name == "4913");
    if temporary
        || (path.ends_with(bedplate_core::ledger::DIRECTORY) && !name.is_some_and(of_an_operator))
    {
        return None;
    }
    Some(Trigger { profile: path.starts_with("/etc/bedplate"), what })
}

/// Whether this is a hold: the only files there that `bedplate` writes for an operator.
fn of_an_operator(name: &str) -> bool {
    name == "hold.json" || name == bedplate_core::enforce_hold::NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uevent(text: &str) -> Option<String> {
        relevant(text.replace('|', "\0").as_bytes()).map(|trigger| trigger.what)
    }

    #[test]
    fn only_relevant_uevents_trigger() {
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
    fn only_relevant_files_trigger() {
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
