//! Monitor of watched network interfaces. rtnetlink notifies all listeners of changes to a PF or its VFs as long as the PF's
//! interface is up (net/core/rtnetlink.c do_setlink; net/core/dev.c netdev_state_change).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use nix::sys::socket::SockProtocol;
use tokio::sync::mpsc::Sender;

use super::events::{Trigger, listen};
use crate::lock;
use bedplate_core::kind::Watch;
pub use bedplate_host::changed_links;

/// Multicast group RTNLGRP_LINK, as a bit (include/uapi/linux/rtnetlink.h, RTMGRP_LINK).
const LINK: u32 = 1;
/// Larger than any notification: notifications omit the list of VFs.
const LARGEST: usize = 32 << 10;

/// IFF_UP, IFF_RUNNING and IFF_LOWER_UP (include/uapi/linux/if.h): enabled, in use, and with a link.
const STATE: u32 = 1 | 1 << 6 | 1 << 16;

/// Watched interfaces and their last states.
#[derive(Debug, Default)]
struct WatchedInterfaces {
    /// Interfaces for which every notification matters.
    interfaces: BTreeSet<String>,
    /// Interfaces for which only the state matters, with the last known state.
    links: BTreeMap<String, Option<u32>>,
}

/// Listens for changes of the watched interfaces.
pub(crate) struct InterfaceMonitor(Arc<Mutex<WatchedInterfaces>>);

impl InterfaceMonitor {
    /// Starts with no watched interface.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub(crate) fn new(to: Sender<Trigger>) -> std::io::Result<Self> {
        let watched = Arc::new(Mutex::new(WatchedInterfaces::default()));
        let heard = watched.clone();
        listen(SockProtocol::NetlinkRoute, LINK, LARGEST, to, move |datagram| {
            let mut watched = lock(&heard);
            match datagram {
                Some(datagram) => relevant(datagram, &mut watched),
                None if watched.is_empty() => None,
                None => Some(Trigger { what: "link events were lost".into(), profile: false }),
            }
        })?;
        Ok(InterfaceMonitor(watched))
    }

    /// Replaces the set of watched interfaces.
    pub(crate) fn set(&self, watch: &Watch) {
        lock(&self.0).set(watch);
    }
}

impl WatchedInterfaces {
    fn set(&mut self, watch: &Watch) {
        self.interfaces = watch.interfaces.iter().cloned().collect();
        let state = |name: &String| (name.clone(), self.links.get(name).copied().flatten());
        self.links = watch.links.iter().map(state).collect();
    }

    fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.links.is_empty()
    }

    /// Whether a notification about an interface is a change. Most repeat known data: container interfaces on top of it,
    /// addresses, wireless statistics.
    fn is_news(&mut self, name: &str, flags: u32) -> bool {
        let now = Some(flags & STATE);
        let other =
            self.links.get_mut(name).is_some_and(|known| std::mem::replace(known, now) != now);
        other || self.interfaces.contains(name)
    }
}

fn relevant(datagram: &[u8], watched: &mut WatchedInterfaces) -> Option<Trigger> {
    // Evaluates every notification, so that the last known states stay current.
    let mut news = changed_links(datagram);
    news.retain(|(name, flags)| watched.is_news(name, *flags));
    let (name, _) = news.first()?;
    Some(Trigger { what: format!("link event of {name}"), profile: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(name: &str) -> Vec<u8> {
        announced(name, 0)
    }

    /// An RTM_NEWLINK message with only flags and a name, framed as by the kernel.
    fn announced(name: &str, flags: u32) -> Vec<u8> {
        let name = [name.as_bytes(), &[0]].concat();
        let mut body = vec![0; 16];
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        body.extend(u16::try_from(4 + name.len()).unwrap().to_ne_bytes());
        body.extend(3u16.to_ne_bytes());
        body.extend(&name);
        body.resize(body.len().next_multiple_of(4), 0);
        let length = u32::try_from(16 + body.len()).unwrap();
        let head = [&length.to_ne_bytes()[..], &16u16.to_ne_bytes(), &[0; 10]].concat();
        [head, body].concat()
    }

    #[test]
    fn unwatched_interfaces_trigger_nothing() {
        let mut watched = WatchedInterfaces::default();
        watched.set(&Watch { interfaces: vec!["ens1f0".to_owned()], ..Watch::default() });
        let mut what = |bytes: &[u8]| relevant(bytes, &mut watched).map(|trigger| trigger.what);
        assert_eq!(what(&announcement("ens1f0")).as_deref(), Some("link event of ens1f0"));
        let both = [announcement("veth7"), announcement("ens1f0")].concat();
        assert_eq!(what(&both).as_deref(), Some("link event of ens1f0"));
        for nothing in [announcement("veth7"), announcement("ens1f01"), vec![0; 40], vec![]] {
            assert_eq!(what(&nothing), None, "{nothing:?}");
        }
        assert!(relevant(&announcement("ens1f0"), &mut WatchedInterfaces::default()).is_none());
    }

    /// A port that goes down clears `ready`; other notifications about its interface cost no observation.
    #[test]
    fn watched_link_triggers_on_state_change_only() {
        const UP: u32 = STATE;
        const PROMISCUOUS: u32 = 1 << 8;
        let watch = Watch { links: vec!["ens2".to_owned()], ..Watch::default() };
        let mut watched = WatchedInterfaces::default();
        watched.set(&watch);
        let mut heard = |flags| relevant(&announced("ens2", flags), &mut watched).is_some();
        assert!(heard(UP), "what was known before is not known here");
        assert!(!heard(UP) && !heard(UP | PROMISCUOUS));
        assert!(heard(1), "the cable is out");
        assert!(!heard(1 | PROMISCUOUS));
        watched.set(&watch);
        assert!(relevant(&announced("ens2", 1), &mut watched).is_none(), "still known");
        let both = [announced("ens9", 0), announced("ens2", UP)].concat();
        assert_eq!(relevant(&both, &mut watched).unwrap().what, "link event of ens2");
    }
}
