//! Ownership and mode checks for privileged input. Files that decide what runs as root (profiles, the ledger and its
//! backup copies) must belong to the caller or root, and must not be writable by other users: sudo's rule for its own
//! files (sudo, `sudo_secure_path()`). Evaluates the result of fstat(2), never a path.

use nix::sys::stat::FileStat;
use nix::unistd::{getegid, geteuid};

/// User and group of the caller; in a user namespace, the ids visible there.
#[derive(Debug, Clone, Copy)]
struct Caller {
    uid: u32,
    gid: u32,
}

impl Caller {
    /// Returns this process's user and group. Root's group is always 0, independent of the group of this process.
    fn own() -> Self {
        let uid = geteuid().as_raw();
        Caller { uid, gid: if uid == 0 { 0 } else { getegid().as_raw() } }
    }
}

/// Returns the user who runs the command. Under sudo(8) and pkexec(1) that is their caller, according to the
/// environment.
pub fn invoking_user() -> u32 {
    let set = |name: &str| std::env::var(name).ok().and_then(|uid| uid.parse().ok());
    let own = geteuid().as_raw();
    if own == 0 { set("SUDO_UID").or_else(|| set("PKEXEC_UID")).unwrap_or(own) } else { own }
}

/// Returns why a file with this owner and mode is not trusted, with the command that fixes it. `None` means trusted.
/// `shown` is the path in messages, on the machine where the command is run.
pub fn distrust(stat: &FileStat, shown: &str) -> Option<String> {
    let caller = Caller::own();
    judged(stat.st_uid, stat.st_gid, stat.st_mode & 0o7777, caller, shown)
}

/// Checks the directory of a file named on the command line, which only has to protect its entries: with the sticky bit
/// (/tmp), users cannot remove or rename entries of other users. Does not suggest changing the directory, which may be
/// a home.
pub fn distrust_directory(stat: &FileStat) -> Option<String> {
    let caller = Caller::own();
    let mode = stat.st_mode & 0o7777;
    let mode = if mode & 0o1000 == 0 { mode } else { mode & !0o022 };
    let why = doubt(stat.st_uid, stat.st_gid, mode, caller)?.0;
    Some(format!("{why}; copy the file to a directory writable only by root, and use that path"))
}

fn judged(uid: u32, gid: u32, mode: u32, caller: Caller, shown: &str) -> Option<String> {
    doubt(uid, gid, mode, caller).map(|(why, command)| format!("{why}; run {command} {shown}"))
}

/// Returns the reason, and the command that fixes it.
fn doubt(uid: u32, gid: u32, mode: u32, caller: Caller) -> Option<(String, String)> {
    if uid != 0 && uid != caller.uid {
        let (whose, owner) = match caller.uid {
            0 => ("not by root".to_owned(), "root".to_owned()),
            own => (format!("neither by you (uid {own}) nor by root"), own.to_string()),
        };
        return Some((format!("owned by uid {uid}, {whose}"), format!("chown {owner}")));
    }
    // Allow the caller's own group: on many systems each user has one, and the umask is 002. Trust members of root's
    // group like sudo does.
    let others = mode & 0o002 != 0 || (mode & 0o020 != 0 && gid != 0 && gid != caller.gid);
    others.then(|| (format!("writable by other users (mode {mode:04o})"), "chmod go-w".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Caller = Caller { uid: 0, gid: 0 };
    const ADA: Caller = Caller { uid: 1000, gid: 1000 };

    #[test]
    fn only_files_of_caller_and_root_are_trusted() {
        for (caller, uid, gid, mode, says) in [
            (ROOT, 0, 0, 0o644, None),
            (ROOT, 0, 0, 0o664, None),
            (ROOT, 0, 0, 0o755, None),
            (ADA, 0, 0, 0o644, None),
            (ADA, 1000, 1000, 0o664, None),
            (ROOT, 1000, 0, 0o644, Some("owned by uid 1000, not by root; run chown root /x")),
            (
                ADA,
                1001,
                1000,
                0o600,
                Some("owned by uid 1001, neither by you (uid 1000) nor by root; run chown 1000 /x"),
            ),
            (ROOT, 0, 0, 0o646, Some("writable by other users (mode 0646); run chmod go-w /x")),
            (ROOT, 0, 50, 0o664, Some("writable by other users (mode 0664); run chmod go-w /x")),
            (ADA, 0, 0, 0o664, None),
            (ADA, 0, 50, 0o664, Some("writable by other users (mode 0664); run chmod go-w /x")),
            (ROOT, 0, 0, 0o1777, Some("writable by other users (mode 1777); run chmod go-w /x")),
        ] {
            let said = judged(uid, gid, mode, caller, "/x");
            assert_eq!(said.as_deref(), says, "{caller:?} {uid}:{gid} {mode:o}");
        }
    }
}
