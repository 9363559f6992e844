//! `[reboot.fleetlock]`: the server that grants permission to reboot.

use serde::{Deserialize, Serialize};

use crate::section::{Check, Checked, Fault, section};

section! {
    /// Keys of a FleetLock server.
    "reboot.fleetlock" FleetLockKeys, FleetLockFile {
        /// Base address of the server. Required to use FleetLock.
        #[schemars(example = &"http://fleetlock.example:9090/", extend("x-source" = "FleetLock protocol"))]
        url: String as Checked<Url>;

        /// Group of hosts that share the slots: letters, digits, dots, and dashes.
        #[schemars(regex(pattern = r"^[a-zA-Z0-9.-]+$"))]
        group: String as Checked<Group> = "default".to_owned();
    }
}

/// `[reboot.fleetlock]`: a server that limits the number of hosts that reboot at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetLock {
    /// Base address, `http://` or `https://`.
    pub url: String,
    /// Group of hosts that share the slots.
    pub group: String,
}

/// Address of a server.
pub(crate) struct Url;

impl Check for Url {
    type Value = String;
    const ID: &'static str = "bad-url";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let good = rest.is_some_and(|rest| {
            !rest.starts_with('/')
                && !rest.is_empty()
                && !rest.contains(|c: char| c.is_whitespace())
        });
        let label = "expected `http://host:port/` or `https://…`";
        let message = format!("`{text}` is not a server URL");
        (!good).then(|| (message, label.to_owned(), None))
    }
}

/// A FleetLock group.
pub(crate) struct Group;

impl Check for Group {
    type Value = String;
    const ID: &'static str = "bad-group";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let label = "expected letters, digits, `.` and `-`";
        let message = format!("`{text}` is not a FleetLock group");
        (text.is_empty() || !text.chars().all(good)).then(|| (message, label.to_owned(), None))
    }
}
