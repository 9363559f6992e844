//! Parser for sysctl.d files, and the text of bedplate's own (sysctl.d(5); systemd src/sysctl/sysctl.c, parse_file).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::key::{Key, folded};
use super::section::Setting;
use crate::file_heading::{header, reasons};

/// bedplate's file. Sorts last, so that its values override earlier files.
pub(crate) const PATH: &str = "/etc/sysctl.d/zz-bedplate.conf";

/// Returns the values that a text sets, with normalized blanks; the last one per key. Skips patterns: they do not apply to
/// keys named in full.
pub(crate) fn values(text: &str) -> BTreeMap<Key, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let pair = |(key, value): (&str, &str)| {
        let key = key.trim();
        Some((Key::new(key.strip_prefix('-').unwrap_or(key)).ok()?, folded(value)))
    };
    pairs.filter_map(pair).collect()
}

/// Returns the text of [`PATH`], or `None` if `wanted` is empty.
pub(crate) fn text(wanted: &[Setting], profile: &str) -> Option<String> {
    if wanted.is_empty() {
        return None;
    }
    let mut text = header("#", profile);
    for Setting { key, value, why } in wanted {
        let _ = write!(text, "\n{}{key} = {value}\n", reasons("#", why));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_patterns_and_exclusions_are_ignored() {
        let text = "# kernel.a = 1\n; kernel.b = 1\n\nkernel.c=1\n kernel/c = 2 \n-kernel.d = 3\n\
                    net.ipv4.conf.*.rp_filter = 1\n-kernel.e\nnet.ipv4.tcp_rmem = 4096\t1 2\n";
        let found: Vec<String> =
            values(text).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(found, ["kernel.c=2", "kernel.d=3", "net.ipv4.tcp_rmem=4096 1 2"]);
    }
}
