//! Role of boot entries for Red Hat's grub2-mkconfig: whether it uses them, and whether it overwrites their `options`
//! (handbook §10.3). The script [`LINUX_SCRIPT`] shows how the installed build behaves.

use crate::os::assignment;
use bedplate_base::{OptionalRead as _, ReadError};
use bedplate_cmdline::boot::grub_default::{self, MAIN};
use bedplate_cmdline::boot::shell::Shell;
use bedplate_host::Reader;

/// Script of grub2-mkconfig that makes the entries of Linux.
pub const LINUX_SCRIPT: &str = "/etc/grub.d/10_linux";
/// Option with which grub2-mkconfig writes neither `kernelopts` (RHEL 8) nor, in Fedora and up to RHEL 9.2, the
/// `options` of boot entries.
pub const KEEP_ENTRIES: &str = "--no-grubenv-update";
/// Variable that decides whether grub2-mkconfig uses boot entries.
const BLSCFG: &str = "GRUB_ENABLE_BLSCFG";
/// Assignment in scripts that use boot entries if GRUB_ENABLE_BLSCFG is not set (from Fedora 31 and RHEL 9 on).
const BLS_BY_DEFAULT: &str = "GRUB_ENABLE_BLSCFG=\"true\"";
/// Variable in scripts that overwrite the `options` of boot entries unless GRUB_ENABLE_BLSCFG is `true` (from RHEL 9.3
/// on; not in Fedora).
const KEEPS_IF_SET: &str = "GRUB_UPDATE_BLS_CMDLINE";
/// Variable in scripts that follow [`KEEP_ENTRIES`] (from Fedora 30 and RHEL 8 on). Fedora 33 has it too, and overwrites
/// the entries in any case.
const FOLLOWS_OPTION: &str = "GRUB_GRUBENV_UPDATE";
/// Program of the old grubby. If it is installed, the script uses no boot entries by default.
const OLD_GRUBBY: &str = "/usr/sbin/new-kernel-pkg";

/// Effect of grub2-mkconfig with [`KEEP_ENTRIES`] on the arguments of boot entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MenuEffect {
    /// They stay.
    Kept,
    /// Overwritten from /etc/default/grub, because GRUB_ENABLE_BLSCFG is not `true` there.
    OverwrittenUnlessSet,
    /// The script does not show it.
    NotKnown,
}

/// Returns GRUB_ENABLE_BLSCFG of /etc/default/grub. Code that may set anything (a sourced file) hardly sets this: then the
/// last plain assignment counts.
fn setting(reader: &dyn Reader) -> Result<Option<String>, ReadError> {
    let text = text(reader, MAIN)?;
    let value = grub_default::parse_main(Shell::Posix, &text).value(BLSCFG, None);
    Ok(value.unwrap_or_else(|_| {
        let code = text.lines().map(|line| line.split(" #").next().unwrap_or_default());
        assignment(&code.collect::<Vec<_>>().join("\n"), BLSCFG)
    }))
}

/// Returns a shell script; empty if it is absent.
fn text(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    let bytes = reader.read(path).optional()?.unwrap_or_default();
    // Comments by other tools and admins need not be UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the decisive part of a line of [`LINUX_SCRIPT`]. Snapshots record only this.
pub fn script_mark(line: &str) -> Option<&'static str> {
    [BLS_BY_DEFAULT, KEEPS_IF_SET, FOLLOWS_OPTION].into_iter().find(|mark| line.contains(mark))
}

/// Whether grub2-mkconfig uses boot entries. Without a setting its script decides.
///
/// # Errors
/// If the setting cannot be read, or if the script decides and cannot be read: /etc/grub.d of RHEL is accessible only
/// to root.
pub(super) fn uses_entries(reader: &dyn Reader) -> Result<bool, ReadError> {
    match setting(reader)?.as_deref() {
        None | Some("") => {
            let is_default = text(reader, LINUX_SCRIPT)?.contains(BLS_BY_DEFAULT);
            Ok(is_default && reader.exists(OLD_GRUBBY) != Ok(true))
        }
        Some(value) => Ok(value == "true"),
    }
}

/// Returns the effect of grub2-mkconfig with [`KEEP_ENTRIES`] on boot entries. In an installer (/run/install), builds that
/// follow the setting overwrite them in any case.
pub fn menu_effect(reader: &dyn Reader) -> MenuEffect {
    let script = text(reader, LINUX_SCRIPT).unwrap_or_default();
    match (script.contains(KEEPS_IF_SET), script.contains(FOLLOWS_OPTION)) {
        (true, _) if reader.exists("/run/install") == Ok(true) => MenuEffect::NotKnown,
        (true, _) if setting(reader).is_ok_and(|value| value.as_deref() == Some("true")) => {
            MenuEffect::Kept
        }
        (true, _) => MenuEffect::OverwrittenUnlessSet,
        (false, true) => MenuEffect::Kept,
        (false, false) => MenuEffect::NotKnown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};

    #[test]
    fn unread_setting_is_not_an_unset_one() {
        let uses_entries = |main: Node| {
            let mut host = Snapshot::new(true);
            host.insert(LINUX_SCRIPT, Node::File(BLS_BY_DEFAULT.into()));
            host.insert(MAIN, main);
            host.complete();
            uses_entries(&host)
        };
        assert_eq!(uses_entries(Node::File(b"GRUB_TIMEOUT=5\n".into())), Ok(true));
        assert_eq!(uses_entries(Node::File(b"GRUB_ENABLE_BLSCFG=false\n".into())), Ok(false));
        let comment = b"GRUB_ENABLE_BLSCFG=true # set by an admin\n";
        assert_eq!(uses_entries(Node::File(comment.into())), Ok(true));
        let sourced = b"GRUB_ENABLE_BLSCFG=\"true\" # by an admin\n. /etc/default/site\n";
        assert_eq!(uses_entries(Node::File(sourced.into())), Ok(true));
        let unread = uses_entries(Node::Denied).expect_err("the setting decides");
        assert!(unread.to_string().contains(MAIN), "{unread}");
    }
}
