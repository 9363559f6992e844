//! Files that GRUB reads in addition to `grub.cfg`: those of its directory, the environment block in the header of a
//! Btrfs file system, and the menu of snapshots.

use super::boot_files::raw;
use super::mounts::Mounts;
use bedplate_base::{Reading, Reason};
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_cmdline::boot::grub_files::{self, GrubFiles, SNAPSHOT_MENU};
use bedplate_cmdline::boot::grubenv::{ENV_BLOCK, Grubenv};
use bedplate_host::{HostKind, Reader};

/// The only block list that GRUB's tools write: one sector at 256 KiB (GRUB 2.14 `util/grub-editenv.c`).
const BLOCK_LIST: &str = "512+1";

/// Files around a configuration.
#[derive(Clone)]
pub(super) struct GrubDirectory {
    /// Names of the files in its directory.
    names: Vec<String>,
    /// Names and texts of those that it sources (`custom.cfg`). Unreadable files are left out: the configuration is not
    /// evaluated there.
    texts: Vec<(String, String)>,
    header_block: Reading<Grubenv>,
    /// Text of [`SNAPSHOT_MENU`], if the configuration names it.
    snapshot_menu: Option<Reading<String>>,
}

impl GrubDirectory {
    /// Reads the files around a configuration with this path and text.
    pub(super) fn read(
        reader: &dyn Reader,
        path: &str,
        text: &str,
        environment: Option<&Grubenv>,
    ) -> Self {
        let directory = directory_of(path);
        let names = reader.list(directory).unwrap_or_default();
        let sourced = |name: &String| {
            let text = raw(reader, &format!("{directory}/{name}")).ok()?;
            Some((name.clone(), text))
        };
        let texts: Vec<_> = grub_files::read_by(text, &names).filter_map(sourced).collect();
        let is_named = [text]
            .into_iter()
            .chain(texts.iter().map(|(_, text)| text.as_str()))
            .any(|text| text.contains(SNAPSHOT_MENU));
        Self {
            texts,
            names,
            header_block: header_block(reader, directory, environment),
            snapshot_menu: is_named.then(|| Reading::from_result(raw(reader, SNAPSHOT_MENU))),
        }
    }

    /// Calls a function with the files, the environment block and these entries.
    pub(super) fn with_files<T>(
        &self,
        grubenv: Option<&Grubenv>,
        bls: &[BlsEntry],
        look: impl FnOnce(&GrubFiles<'_>) -> T,
    ) -> T {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        look(&GrubFiles {
            grubenv,
            files: &names,
            texts: &self.texts,
            bls,
            header_block: Some(&self.header_block),
            snapshot_menu: self.snapshot_menu.as_ref(),
        })
    }

    /// The same for Red Hat's GRUB: its stub on the EFI system partition decides which device the block list is on, so
    /// a one-time choice in the header may or may not apply (rhboot/grub2 e587d70ae).
    pub(super) fn of_red_hat(mut self) -> Self {
        let has_choice =
            |block: &Grubenv| block.get("next_entry").is_some_and(|once| !once.is_empty());
        if self.header_block().is_some_and(has_choice) {
            let why = "whether GRUB reads the one-time choice there depends on its stub";
            self.header_block = Reading::unknown(why);
        }
        self
    }

    /// Returns the environment block in the header of the file system, if it is known.
    pub(super) fn header_block(&self) -> Option<&Grubenv> {
        self.header_block.known()
    }
}

/// Returns the directory of a configuration.
pub(super) fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(directory, _)| directory)
}

/// Returns the environment block in the header of the file system with this directory. `Absent`: the block of the
/// directory does not name one. An image has no block device, and no one-time choice.
pub(super) fn header_block(
    reader: &dyn Reader,
    directory: &str,
    environment: Option<&Grubenv>,
) -> Reading<Grubenv> {
    let blocks = environment.and_then(|environment| environment.get(ENV_BLOCK));
    let Some(blocks) = blocks.filter(|blocks| !blocks.is_empty()) else { return Reading::Absent };
    if reader.kind() == HostKind::Image {
        return Reading::Absent;
    }
    if blocks != BLOCK_LIST {
        return Reading::unknown(format!("its place is {blocks}, not {BLOCK_LIST}"));
    }
    let mounts = match Mounts::read(reader) {
        Ok(mounts) => mounts,
        Err(error) => return Reading::unknown(error),
    };
    match mounts.covering(directory).filter(|mount| mount.kind == "btrfs") {
        Some(mount) => match reader.grub_header_block(&mount.source) {
            // GRUB uses the variables before a damaged one.
            Ok(text) => Grubenv::parse(&text)
                .map_or_else(|error| Reading::unknown(error.to_string()), Reading::Known),
            Err(error) => Reading::Unknown(Reason::from(error)),
        },
        None => Reading::unknown(format!("{directory} is not on a Btrfs file system")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};
    use bedplate_host::snapshot_paths::GRUB_HEADER_BLOCK;

    const BTRFS: &str = "29 1 0:28 /@/.snapshots/1/snapshot / rw - btrfs /dev/vda2 rw\n";
    const EXT4: &str = "29 1 8:2 / / rw - ext4 /dev/sda2 rw\n";

    fn block(variables: &str) -> String {
        format!("{:#<512}", format!("# GRUB Environment Block\n{variables}"))
    }

    /// Reads the header block of a host whose block in a file has these variables.
    fn read(variables: &str, mounts: &str, header: Option<&str>) -> Reading<Grubenv> {
        let mut host = Snapshot::new(true);
        host.insert("/proc/self/mountinfo", Node::File(mounts.into()));
        if let Some(header) = header {
            let json = serde_json::to_vec(header).unwrap();
            host.insert(GRUB_HEADER_BLOCK, Node::File(json));
        }
        let environment = Grubenv::parse(&block(variables)).unwrap();
        header_block(&host, "/boot/grub2", Some(&environment))
    }

    #[test]
    fn header_block_is_read_if_the_file_names_it() {
        let once = block("next_entry=1\n");
        let known = read("env_block=512+1\n", BTRFS, Some(&once));
        assert_eq!(known.known().and_then(|block| block.get("next_entry")), Some("1"));
        for (variables, mounts, header) in
            [("", BTRFS, Some(once.as_str())), ("env_block=\n", BTRFS, Some(&once))]
        {
            assert_eq!(read(variables, mounts, header), Reading::Absent, "{variables}");
        }
        for (variables, mounts, header) in [
            ("env_block=512+1\n", BTRFS, None),
            ("env_block=512+1\n", BTRFS, Some("other bytes")),
            ("env_block=512+1\n", BTRFS, Some("# GRUB Environment Block\nnext_entry=1\ndamaged\n")),
            ("env_block=512+1\n", EXT4, Some(once.as_str())),
            ("env_block=2048+2\n", BTRFS, Some(&once)),
        ] {
            let found = read(variables, mounts, header);
            assert!(matches!(found, Reading::Unknown(_)), "{variables}: {found:?}");
        }
    }
    /// Red Hat's stub on the EFI system partition may lead GRUB to another device.
    #[test]
    fn choice_in_the_header_is_unknown_with_red_hats_grub() {
        for (header, is_known) in [("next_entry=1\n", false), ("boot_success=1\n", true)] {
            let directory = GrubDirectory {
                names: Vec::new(),
                texts: Vec::new(),
                header_block: read("env_block=512+1\n", BTRFS, Some(&block(header))),
                snapshot_menu: None,
            };
            assert!(directory.header_block().is_some());
            assert_eq!(directory.of_red_hat().header_block().is_some(), is_known, "{header}");
        }
    }
}
