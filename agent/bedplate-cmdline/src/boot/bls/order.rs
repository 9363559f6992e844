//! Order of entries in the menus of GRUB and systemd-boot.

use super::super::version::{rpm_file_order, uapi_order};
use super::BlsEntry;

/// Sorts entries like Red Hat's GRUB: newest first by file name. Skips entries without a kernel.
pub fn grub_order(entries: &[BlsEntry]) -> Vec<&BlsEntry> {
    newest_first(entries.iter().filter(|entry| entry.linux().is_some()))
}

/// Sorts all entries that may be in the menu of Red Hat's GRUB. Only newer builds know `efi`, show entries with it and
/// without a kernel, and start it in place of a kernel (rhboot/grub2 6c99dd73a: RHEL 10.2, Fedora 45).
pub fn grub_menu(entries: &[BlsEntry]) -> Vec<&BlsEntry> {
    let may_be_shown = |entry: &&BlsEntry| entry.linux().is_some() || entry.efi_program().is_some();
    newest_first(entries.iter().filter(may_be_shown))
}

fn newest_first<'a>(entries: impl Iterator<Item = &'a BlsEntry>) -> Vec<&'a BlsEntry> {
    let mut order: Vec<&BlsEntry> = entries.collect();
    order.sort_by(|a, b| rpm_file_order(&b.id, &a.id).then_with(|| a.id.cmp(&b.id)));
    // GRUB treats two files that compare equal as one entry.
    order.dedup_by(|a, b| rpm_file_order(&a.id, &b.id).is_eq());
    order
}

/// Sorts entries like systemd-boot (systemd `boot.c`, `boot_entry_compare`; loader specification, "Sorting"): used-up
/// boot counters last; those with a `sort-key` first, by key, by machine, newest first; then by file name, newest
/// first.
pub fn systemd_order(entries: &[BlsEntry]) -> Vec<&BlsEntry> {
    let mut order: Vec<&BlsEntry> = entries.iter().collect();
    order.sort_by(|a, b| {
        let used_up = |entry: &BlsEntry| entry.tries_left == Some(0);
        let text = |entry: &BlsEntry, key: &str| entry.field(key).unwrap_or_default().to_owned();
        let keys = (a.field("sort-key"), b.field("sort-key"));
        let by_key = match keys {
            (Some(key_a), Some(key_b)) => key_a
                .cmp(key_b)
                .then_with(|| text(a, "machine-id").cmp(&text(b, "machine-id")))
                .then_with(|| uapi_order(&text(b, "version"), &text(a, "version"))),
            (own, other) => other.is_some().cmp(&own.is_some()),
        };
        used_up(a).cmp(&used_up(b)).then(by_key).then_with(|| uapi_order(&b.id, &a.id))
    });
    order
}

/// Returns the entry that systemd-boot starts. `patterns` are globs on the file name, most important first
/// (`LoaderEntryOneShot`, `LoaderEntryDefault`, `default` of loader.conf). Without a match, the first entry in order.
pub fn systemd_default<'a>(entries: &'a [BlsEntry], patterns: &[&str]) -> Option<&'a BlsEntry> {
    let order = systemd_order(entries);
    let matching = |pattern: &&str| {
        let pattern = glob::Pattern::new(&pattern.to_lowercase()).ok()?;
        let file = |entry: &BlsEntry| format!("{}.conf", entry.id.to_lowercase());
        order.iter().find(|entry| pattern.matches(&file(entry)))
    };
    let chosen = patterns.iter().find_map(matching);
    chosen.or_else(|| order.first()).copied()
}
