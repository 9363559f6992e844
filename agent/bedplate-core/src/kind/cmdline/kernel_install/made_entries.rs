//! Kernels with boot entries or unified kernel images from kernel-install, and whether the default entry is one of
//! them. Nothing else reads /etc/kernel/cmdline, so without a default from kernel-install that file is not written.
//!
//! Names: `TOKEN-RELEASE[+TRIES].conf` (systemd, 90-loaderentry.install) and `.efi` (90-uki-copy.install).

use super::{BOOT_MOUNTS, KERNEL_CMDLINE, default_entry, newest_uki, next_uki};
use crate::kind::cmdline::{Context, Obstacle, boot_files};
use bedplate_base::{Cause, Reading};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

const TOOL: &str = "/usr/bin/kernel-install";

/// Returns the installed kernels whose entries or images kernel-install has made. Empty for an image without entries.
///
/// # Errors
/// [`Obstacle`] if no tool would put the file's line into the default entry.
pub(crate) fn kernels(context: &Context) -> Result<Vec<String>, Obstacle> {
    let (reader, facts) = (context.reader, context.facts);
    if reader.exists(TOOL) != Ok(true) {
        return Err(nothing_reads(facts, "kernel-install is not installed"));
    }
    let uki = matches!(facts.boot, BootLoader::SystemdBoot { uki: true });
    let default = match uki {
        true => newest_uki(reader),
        false => default_entry(reader).map(|entry| format!("{}.conf", entry.id())),
    };
    let default = match default {
        Reading::Known(path) => path,
        Reading::Absent if facts.host == HostKind::Image => return Ok(Vec::new()),
        Reading::Absent => return Err(boot_files::nothing_to_edit("a boot entry")),
        Reading::Unknown(why) => {
            return Err(Obstacle {
                reason: format!("default boot entry unknown: {why}"),
                fix: "correct that, then plan again".into(),
            });
        }
    };
    if uki
        && let Reading::Unknown(why) = next_uki(reader)
        && why.cause == Cause::NotUnderstood
    {
        return Err(Obstacle {
            reason: format!("the next boot's command line is unknown: {why}"),
            fix: "rebuild that image with an embedded command line (`ukify build --cmdline=…`), then plan again".into(),
        });
    }
    let installed = &facts.os.installed_kernels;
    let name = default.rsplit('/').next().unwrap_or_default();
    if release_of(name, installed).is_none() {
        let why = format!(
            "{name}, the default, does not have the name that kernel-install gives entries of installed kernels"
        );
        return Err(nothing_reads(facts, &why));
    }
    let names = names(reader, uki);
    let has_one = |release: &&String| {
        names.iter().any(|name| release_of(name, installed) == Some(release.as_str()))
    };
    Ok(installed.iter().filter(has_one).cloned().collect())
}

fn nothing_reads(facts: &Facts, why: &str) -> Obstacle {
    let how = match facts.os.id.known().map(String::as_str) {
        Some("nixos") => {
            "set boot.kernelParams in /etc/nixos/configuration.nix, run `nixos-rebuild boot`"
        }
        _ if matches!(facts.boot, BootLoader::SystemdBoot { uki: true }) => {
            "write the arguments where the tool that builds the image reads them (mkinitcpio: /etc/kernel/cmdline or \
             /etc/cmdline.d, then `mkinitcpio -P`), or let kernel-install make the image"
        }
        _ => {
            "write the arguments to the `options` line of each boot entry by hand, or let kernel-install make the entries \
             (`kernel-install add RELEASE IMAGE`)"
        }
    };
    Obstacle {
        reason: format!("no tool makes boot entries from {KERNEL_CMDLINE}: {why}"),
        fix: format!("{how}; then plan again"),
    }
}

fn names(reader: &dyn Reader, uki: bool) -> Vec<String> {
    let (below, ending) = match uki {
        true => ("EFI/Linux", ".efi"),
        false => ("loader/entries", ".conf"),
    };
    let lists =
        BOOT_MOUNTS.iter().filter_map(|mount| reader.list(&format!("{mount}/{below}")).ok());
    lists.flatten().filter(|name| name.ends_with(ending)).collect()
}

/// Returns the installed kernel to which a file of kernel-install belongs, by the file name.
pub(crate) fn release_of<'a>(name: &str, installed: &'a [String]) -> Option<&'a str> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    // A boot counter: `+3`, `+2-1`.
    let plain = stem.rsplit_once('+').filter(|(_, count)| {
        count.starts_with(|c: char| c.is_ascii_digit())
            && count.chars().all(|c| c.is_ascii_digit() || c == '-')
    });
    let is_of = |stem: &str, release: &str| {
        stem.strip_suffix(release)
            .and_then(|token| token.strip_suffix('-'))
            .is_some_and(|token| !token.is_empty())
    };
    let releases = installed.iter().map(String::as_str);
    let of = |release: &&str| {
        is_of(stem, release) || plain.is_some_and(|(stem, _)| is_of(stem, release))
    };
    releases.filter(of).max_by_key(|release| release.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_install_file_names_give_the_kernel() {
        let installed = ["6.1.0-18-amd64", "6.1.0", "amd64"].map(str::to_owned);
        for (name, release) in [
            ("0123-6.1.0-18-amd64.conf", Some("6.1.0-18-amd64")),
            ("0123-6.1.0+3-1.conf", Some("6.1.0")),
            ("debian-6.1.0.efi", Some("6.1.0")),
            ("6.1.0.conf", None),
            ("-6.1.0.conf", None),
            ("arch.conf", None),
            ("nixos-generation-6.conf", None),
            ("0123-6.2.0.conf", None),
        ] {
            assert_eq!(release_of(name, &installed), release, "{name}");
        }
        let plus = ["6.1.0+3".to_owned()];
        assert_eq!(release_of("0123-6.1.0+3.conf", &plus), Some("6.1.0+3"), "part of the release");
    }
}
