//! What a kernel release makes of the two `pci=` ACS parameters: one table, by base version. Pure.

/// Which ACS parameter a kernel can be trusted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// `pci=config_acs=` works as documented, and so does `pci=disable_acs_redir=`.
    ConfigAcs,
    /// Only `pci=disable_acs_redir=` is known.
    DisableAcsRedir,
    /// Neither is known.
    Neither,
    /// It may have the parsing bug, or the release cannot be placed: the reason, for people.
    Unsure(String),
}

/// What releases from a version on can do; the last row at or below a release counts.
///
/// - `disable_acs_redir`: 4.19 (drivers/pci/pci.c, handbook §1.4).
/// - `config_acs`: commit 47c8846a49ba, 6.11. It came with a bug: several `config_acs` entries fail to parse, and
///   `disable_acs_redir` leaves redirect bits set.
/// - The fix is commit 9cf8a952d57b: merged for 6.15, in stable since 6.12.23, 6.13.11 and 6.14.2 (stable review of
///   April 2025); 6.11 had ended by then. 6.12.117 was measured to set three ports right.
const SINCE: [((u32, u32, u32), Row); 8] = [
    ((4, 19, 0), Row::DisableAcsRedir),
    ((6, 11, 0), Row::Bug),
    ((6, 12, 23), Row::ConfigAcs),
    ((6, 13, 0), Row::Bug),
    ((6, 13, 11), Row::ConfigAcs),
    ((6, 14, 0), Row::Bug),
    ((6, 14, 2), Row::ConfigAcs),
    ((6, 15, 0), Row::ConfigAcs),
];

#[derive(Debug, Clone, Copy)]
enum Row {
    DisableAcsRedir,
    Bug,
    ConfigAcs,
}

/// Looks a release (`uname -r`) up by its base version.
///
/// Distribution kernels keep their base version for years (`5.14.0-427.el9`, `6.14.0-37-generic`) and may hold
/// backports that the version does not tell: inside the window they count as having the bug, outside as upstream.
/// That errs towards live writes, which need no parameter.
pub fn kernel_acs_support(release: &str) -> Support {
    let Some(version) = base_version(release) else {
        return Support::Unsure(format!("{release:?} is not a kernel release that can be placed"));
    };
    let row = SINCE.iter().rev().find(|(since, _)| *since <= version).map(|(_, row)| row);
    match row {
        None => Support::Neither,
        Some(Row::DisableAcsRedir) => Support::DisableAcsRedir,
        Some(Row::ConfigAcs) => Support::ConfigAcs,
        Some(Row::Bug) => Support::Unsure(format!(
            "Linux {release} may misread pci=config_acs= and pci=disable_acs_redir= \
             (fixed in 6.12.23, 6.13.11, 6.14.2 and 6.15)"
        )),
    }
}

/// `6.12.117+deb13-amd64` → (6, 12, 117); a missing patch level is 0.
fn base_version(release: &str) -> Option<(u32, u32, u32)> {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    let mut numbers = release[..end].split('.').map(|part| part.parse::<u32>().ok());
    let major = numbers.next()??;
    let minor = numbers.next()??;
    Some((major, minor, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_many_houses_are_placed() {
        let table = [
            ("3.10.0-1160.el7.x86_64", "neither"),
            ("4.18.0-553.el8_10.x86_64", "neither"),
            ("4.19.0", "redir"),
            ("5.14.0-427.13.1.el9_4.x86_64", "redir"),
            ("5.15.0-105-generic", "redir"),
            ("6.1.0-56-amd64", "redir"),
            ("6.8.0-1030-nvidia", "redir"),
            ("6.10.14", "redir"),
            ("6.11-rc1", "unsure"),
            ("6.11.0-29-generic", "unsure"),
            ("6.11.11", "unsure"),
            ("6.12.0-55.9.1.el10_0.x86_64", "unsure"),
            ("6.12.22", "unsure"),
            ("6.12.23", "config"),
            ("6.12.117+deb13-amd64", "config"),
            ("6.13.0", "unsure"),
            ("6.13.10-200.fc41.x86_64", "unsure"),
            ("6.13.11", "config"),
            ("6.14.0-37-generic", "unsure"),
            ("6.14.1", "unsure"),
            ("6.14.2", "config"),
            ("6.15.0-rc1", "config"),
            ("6.17.0-1003-nvidia-64k", "config"),
            ("6.18.19", "config"),
            ("10.0", "config"),
            ("", "unsure"),
            ("unknown", "unsure"),
            ("6", "unsure"),
            ("99999999999.1", "unsure"),
        ];
        for (release, expected) in table {
            let found = match kernel_acs_support(release) {
                Support::ConfigAcs => "config",
                Support::DisableAcsRedir => "redir",
                Support::Neither => "neither",
                Support::Unsure(reason) => {
                    assert!(reason.contains(release), "{reason}");
                    "unsure"
                }
            };
            assert_eq!(found, expected, "{release}");
        }
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(SINCE.is_sorted_by_key(|(since, _)| since));
    }
}
