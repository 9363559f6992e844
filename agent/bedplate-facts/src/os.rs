//! Operating system facts: os-release, kernel releases, lockdown.

use serde::Serialize;

use std::cmp::Ordering;

use bedplate_base::Reading;
use bedplate_host::Reader;

/// Operating system facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Os {
    /// `ID` of os-release (`ubuntu`, `debian`, `rhel`, `fedora`, `sles`, `talos` …).
    pub id: Reading<String>,
    /// `ID_LIKE`, split at blanks; empty if absent.
    pub id_like: Vec<String>,
    /// `VERSION_ID`.
    pub version: Reading<String>,
    /// `PRETTY_NAME`.
    pub pretty: Reading<String>,
    /// Running kernel release (`uname -r`). An image has no running kernel; its newest is the last of
    /// `installed_kernels`.
    pub kernel: Reading<String>,
    /// `/proc/version_signature` of Ubuntu's kernels: package, flavour and the upstream stable release they are based
    /// on.
    pub version_signature: Reading<String>,
    /// Kernel release of the default boot entry. The resource type for the command line reads boot entries
    /// (`engine::observe`); until then this is unknown.
    pub next_kernel: Reading<String>,
    /// Kernel release from the second boot on, if an entry was chosen for one boot only (`grub-reboot`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasting_kernel: Option<Reading<String>>,
    /// Kernel releases with a directory in /lib/modules, in version order.
    pub installed_kernels: Vec<String>,
    /// Kernel lockdown mode (`none`, `integrity`, `confidentiality`).
    pub lockdown: Reading<String>,
}

impl Os {
    /// Whether os-release names one of these ids, as `ID` or in `ID_LIKE`.
    pub fn is_any(&self, ids: &[&str]) -> bool {
        let own = self.id.known().into_iter().chain(&self.id_like);
        own.map(String::as_str).any(|id| ids.contains(&id))
    }
}

/// Observes the operating system.
pub fn observe(reader: &dyn Reader) -> Os {
    let release = os_release(reader);
    let field =
        |name: &str| release.clone().and_then(|text| Reading::from_option(assignment(&text, name)));
    let id_like = field("ID_LIKE");
    Os {
        id: field("ID"),
        id_like: id_like
            .known()
            .map_or_else(Vec::new, |text| text.split_whitespace().map(str::to_owned).collect()),
        version: field("VERSION_ID"),
        pretty: field("PRETTY_NAME"),
        kernel: Reading::from_result(reader.attribute("/proc/sys/kernel/osrelease")),
        version_signature: Reading::from_result(reader.attribute("/proc/version_signature")),
        next_kernel: Reading::unknown("boot entries were not inspected"),
        lasting_kernel: None,
        installed_kernels: installed_kernels(reader),
        lockdown: lockdown(reader),
    }
}

fn os_release(reader: &dyn Reader) -> Reading<String> {
    match Reading::from_result(reader.text("/etc/os-release")) {
        Reading::Absent => Reading::from_result(reader.text("/usr/lib/os-release")),
        other => other,
    }
}

/// Returns the value of os-release, for example `ID` or `IMAGE_ID`, if set and readable.
pub fn release_value(reader: &dyn Reader, name: &str) -> Option<String> {
    assignment(os_release(reader).known()?, name)
}

/// Returns the value of a plain assignment, as in os-release (man os-release): a shell-like quoted value, no expansion;
/// the last one wins.
pub(crate) fn assignment(text: &str, name: &str) -> Option<String> {
    let value = text
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?
        .trim();
    let inner = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' && !value.starts_with('\'') {
            characters.next()
        } else {
            Some(character)
        });
    }
    Some(plain)
}

/// Returns the kernel releases with modules on this host, newest last.
pub fn installed_kernels(reader: &dyn Reader) -> Vec<String> {
    let mut releases: Vec<String> = reader
        .list("/lib/modules")
        .unwrap_or_default()
        .into_iter()
        // Releases start with a digit; `extramodules-…` and similar names are not kernels.
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    releases.sort_by(|a, b| version_order(a, b));
    releases
}

fn lockdown(reader: &dyn Reader) -> Reading<String> {
    // Format: `none [integrity] confidentiality`, with the current mode in brackets.
    match reader.attribute("/sys/kernel/security/lockdown") {
        Ok(text) => match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
            Some((mode, _)) => Reading::Known(mode.to_owned()),
            None => Reading::unknown(format!("/sys/kernel/security/lockdown holds {text:?}")),
        },
        Err(error) => Reading::from_result(Err(error)),
    }
}

/// Compares version texts: runs of digits by value, other characters literally (`6.8.0-9` before `6.8.0-45`). Texts
/// that differ only in leading zeros are ordered by spelling, so the order is total.
pub(crate) fn version_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while !left.is_empty() && !right.is_empty() {
        let (one, two) = (run(left), run(right));
        let order = match (number(one), number(two)) {
            (Some(one), Some(two)) => one.len().cmp(&two.len()).then_with(|| one.cmp(two)),
            _ => one.cmp(two),
        };
        if order != Ordering::Equal {
            return order;
        }
        left = &left[one.len()..];
        right = &right[two.len()..];
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Returns the leading run of digits or of non-digits.
fn run(text: &str) -> &str {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    text.find(|c: char| c.is_ascii_digit() != digits).map_or(text, |end| &text[..end])
}

/// Returns the digits of a run, of any length, without leading zeros. Returns `None` if the run has no digits.
fn number(run: &str) -> Option<&str> {
    run.starts_with(|c: char| c.is_ascii_digit()).then(|| run.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_sort_as_versions() {
        let mut releases =
            vec!["6.8.0-45-generic", "6.10.3", "6.8.0-9-generic", "5.15.0-122-generic", "6.8.0-45"];
        releases.sort_by(|a, b| version_order(a, b));
        assert_eq!(
            releases,
            ["5.15.0-122-generic", "6.8.0-9-generic", "6.8.0-45", "6.8.0-45-generic", "6.10.3"]
        );
        assert_eq!(version_order("1.01", "1.1"), Ordering::Less);
        assert_eq!(version_order("1.1", "1.1"), Ordering::Equal);
    }

    #[test]
    fn os_release_values_lose_their_quotes() {
        let text =
            "ID=debian\nID=ubuntu\nID_LIKE='debian'\nPRETTY_NAME=\"A \\\"B\\\" C\"\nEMPTY=\n";
        assert_eq!(assignment(text, "ID").as_deref(), Some("ubuntu"));
        assert_eq!(assignment(text, "ID_LIKE").as_deref(), Some("debian"));
        assert_eq!(assignment(text, "PRETTY_NAME").as_deref(), Some("A \"B\" C"));
        assert_eq!(assignment(text, "EMPTY").as_deref(), Some(""));
        assert_eq!(assignment(text, "VERSION_ID"), None);
    }
}
