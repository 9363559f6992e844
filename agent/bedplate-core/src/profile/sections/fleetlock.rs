//! `[reboot.fleetlock]`: the server that gives out leave to reboot.

use serde::{Deserialize, Serialize};

use crate::section::{Checker, Leaf, Rule, Spanned, section};

section! {
    /// The keys of a FleetLock server.
    "reboot.fleetlock" FleetLockKeys, FleetLockFragment, FleetLockLayer {
        /// Base address. Without it no server is asked.
        #[schemars(example = &"http://fleetlock.example:9090/", extend("x-source" = "FleetLock protocol"))]
        url: String as Url;

        /// Group of hosts that share the slots: letters, digits, dots and dashes.
        #[schemars(regex(pattern = r"^[a-zA-Z0-9.-]+$"))]
        group: String as Group = "default".to_owned();
    }
}

/// `[reboot.fleetlock]`: a server that lets a few hosts of many reboot at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetLock {
    /// Base address, `http://` or `https://`.
    pub url: String,
    /// Group of hosts that share the slots.
    pub group: String,
}

/// Address of a server.
pub(crate) struct Url;

impl Rule for Url {
    type File = String;
    type Value = String;

    fn read(checker: &mut Checker<'_>, _: &str, text: Spanned<String>) -> Option<Leaf<String>> {
        let schemes = ["http://", "https://"];
        let rest = schemes.iter().find_map(|scheme| text.value.strip_prefix(scheme));
        let good = rest.is_some_and(|rest| {
            !rest.starts_with('/')
                && !rest.is_empty()
                && !rest.contains(|c: char| c.is_whitespace())
        });
        if !good {
            let message = format!("`{}` is not the address of a server", text.value);
            let label = "expected `http://host:port/` or `https://…`";
            checker.error(checker.place(text.span), "bad-url", message, label, None);
            return None;
        }
        Some(checker.bare(text))
    }

    fn to_toml(value: &String) -> impl Serialize {
        value
    }
}

/// A FleetLock group.
pub(crate) struct Group;

impl Rule for Group {
    type File = String;
    type Value = String;

    fn read(checker: &mut Checker<'_>, _: &str, text: Spanned<String>) -> Option<Leaf<String>> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if text.value.is_empty() || !text.value.chars().all(good) {
            let message = format!("`{}` is not a FleetLock group", text.value);
            let label = "expected letters, digits, `.` and `-`";
            checker.error(checker.place(text.span), "bad-group", message, label, None);
            return None;
        }
        Some(checker.bare(text))
    }

    fn to_toml(value: &String) -> impl Serialize {
        value
    }
}
