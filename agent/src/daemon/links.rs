//! Changes of interfaces that are watched: rtnetlink tells everybody when something is set on a PF or its VFs, as long as
//! the PF's interface is up (net/core/rtnetlink.c do_setlink; net/core/dev.c netdev_state_change).

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::Sender;

use super::events::{Trigger, registered};
pub use crate::host::changed_links;

/// Multicast group RTNLGRP_LINK, as a bit (include/uapi/linux/rtnetlink.h, RTMGRP_LINK).
const LINK: u32 = 1;
/// Larger than any announcement: they come without the list of VFs.
const LARGEST: usize = 32 << 10;

/// The interfaces that are watched.
pub struct Links(Arc<Mutex<BTreeSet<String>>>);

impl Links {
    /// Starts with none.
    ///
    /// # Errors
    /// When the socket cannot be had.
    pub fn new(to: Sender<Trigger>) -> std::io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkRoute;
        let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, LINK))?;
        let watched = Arc::new(Mutex::new(BTreeSet::new()));
        tokio::spawn(read(registered(socket)?, watched.clone(), to));
        Ok(Links(watched))
    }

    /// Watches these, whatever was watched before.
    pub fn set(&self, interfaces: &[String]) {
        *lock(&self.0) = interfaces.iter().cloned().collect();
    }
}

fn lock(mutex: &Mutex<BTreeSet<String>>) -> MutexGuard<'_, BTreeSet<String>> {
    // Nothing in here panics with the lock held; were it so, the set would still be a set.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(
    socket: AsyncFd<OwnedFd>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    to: Sender<Trigger>,
) {
    let mut buffer = vec![0; LARGEST];
    while let Ok(mut ready) = socket.readable().await {
        let read =
            ready.try_io(|socket| Ok(recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?));
        let trigger = match read {
            Err(_would_block) => continue,
            Ok(Ok(length)) => relevant(&buffer[..length], &lock(&watched)),
            // ENOBUFS: more came than the socket holds. Something of it may have mattered.
            Ok(Err(_)) if lock(&watched).is_empty() => None,
            Ok(Err(_)) => Some(Trigger { what: "link events were lost".into(), profile: false }),
        };
        // A full channel: a look is due anyway.
        if let Some(trigger) = trigger {
            let _ = to.try_send(trigger);
        }
    }
}

fn relevant(datagram: &[u8], watched: &BTreeSet<String>) -> Option<Trigger> {
    let name = changed_links(datagram).into_iter().find(|name| watched.contains(name))?;
    Some(Trigger { what: format!("link event of {name}"), profile: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RTM_NEWLINK message with nothing but a name, as the kernel frames it.
    fn announcement(name: &str) -> Vec<u8> {
        let name = [name.as_bytes(), &[0]].concat();
        let mut body = vec![0; 16];
        body.extend(u16::try_from(4 + name.len()).unwrap().to_ne_bytes());
        body.extend(3u16.to_ne_bytes());
        body.extend(&name);
        body.resize(body.len().next_multiple_of(4), 0);
        let length = u32::try_from(16 + body.len()).unwrap();
        let head = [&length.to_ne_bytes()[..], &16u16.to_ne_bytes(), &[0; 10]].concat();
        [head, body].concat()
    }

    #[test]
    fn only_watched_interfaces_matter() {
        let watched = BTreeSet::from(["ens1f0".to_owned()]);
        let what = |bytes: &[u8]| relevant(bytes, &watched).map(|trigger| trigger.what);
        assert_eq!(what(&announcement("ens1f0")).as_deref(), Some("link event of ens1f0"));
        let both = [announcement("veth7"), announcement("ens1f0")].concat();
        assert_eq!(what(&both).as_deref(), Some("link event of ens1f0"));
        for nothing in [announcement("veth7"), announcement("ens1f01"), vec![0; 40], vec![]] {
            assert_eq!(what(&nothing), None, "{nothing:?}");
        }
        assert!(relevant(&announcement("ens1f0"), &BTreeSet::new()).is_none());
    }
}
