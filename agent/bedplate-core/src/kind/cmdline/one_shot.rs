//! Default boot entry without a one-time choice: `grub-reboot` (`next_entry`; `prev_saved_entry` of GRUB before 2.00)
//! and `bootctl set-oneshot`. Persistent settings are evaluated by the entry that boots after that.

use super::boot_files::raw;
use super::grub_directory::{directory_of, header_block};
use super::next_kernel;
use bedplate_base::lossless_text;
use bedplate_base::value::PciAddress;
use bedplate_base::{ReadError, Reading};
use bedplate_cmdline::boot::grubenv::Grubenv;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{ConfigSpace, HostKind, Reader};

const ONE_SHOT: &str =
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
const GRUBENV: [&str; 2] = ["/boot/grub/grubenv", "/boot/grub2/grubenv"];

/// Returns the release that the default entry starts after a one-time choice, or `None` without a choice.
pub(crate) fn lasting_kernel(reader: &dyn Reader, facts: &Facts) -> Option<Reading<String>> {
    let is_chosen = match &facts.boot {
        BootLoader::SystemdBoot { .. } | BootLoader::Sdbootutil { .. } => {
            reader.read(ONE_SHOT).is_ok()
        }
        BootLoader::GrubDebian
        | BootLoader::GrubBls
        | BootLoader::GrubRhel
        | BootLoader::GrubSuse => GRUBENV.iter().any(|path| is_in_block(reader, path)),
        _ => false,
    };
    is_chosen.then(|| next_kernel(&Lasting(reader), facts))
}

/// Whether the environment block has a one-time choice, or the one in the file system's header that it names.
fn is_in_block(reader: &dyn Reader, path: &str) -> bool {
    let block = raw(reader, path).ok().and_then(|text| Grubenv::parse(&text).ok());
    let header = header_block(reader, directory_of(path), block.as_ref());
    [block.as_ref(), header.known()].into_iter().flatten().any(|block| {
        let is_set = |name| block.get(name).is_some_and(|value| !value.is_empty());
        is_set("next_entry") || is_set("prev_saved_entry")
    })
}

/// Returns the environment block without its one-time choice, if there is a choice.
fn without_one_shot_entry(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut block = Grubenv::parse(&lossless_text::decode(bytes)).ok()?;
    let given = |name: &str| block.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    let (once, before) = (given("next_entry"), given("prev_saved_entry"));
    if once.is_none() && before.is_none() {
        return None;
    }
    block.unset("next_entry");
    block.unset("prev_saved_entry");
    if let Some(before) = before {
        block.set("saved_entry", &before).ok()?;
    }
    Some(lossless_text::encode(&block.render()))
}

/// Reader of the host after the one-time choice is used up.
struct Lasting<'a>(&'a dyn Reader);

impl Reader for Lasting<'_> {
    fn kind(&self) -> HostKind {
        self.0.kind()
    }

    fn is_recording(&self) -> bool {
        self.0.is_recording()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        match path {
            ONE_SHOT => Err(ReadError::NotFound { path: path.to_owned() }),
            path if GRUBENV.contains(&path) => {
                self.0.read(path).map(|bytes| without_one_shot_entry(&bytes).unwrap_or(bytes))
            }
            path => self.0.read(path),
        }
    }

    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        self.0.read_start(path, limit)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.0.list(path)
    }

    fn link(&self, path: &str) -> Result<String, ReadError> {
        self.0.link(path)
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
        self.0.links(path)
    }

    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        self.0.exists(path)
    }

    fn grub_header_block(&self, device: &str) -> Result<String, ReadError> {
        let text = self.0.grub_header_block(device)?;
        let without = without_one_shot_entry(&lossless_text::encode(&text));
        Ok(without.map_or(text, |bytes| lossless_text::decode(&bytes)))
    }

    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        self.0.config(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::{Depth, observe};
    use bedplate_host::snapshot::{Node, Snapshot};
    use bedplate_host::snapshot_paths::GRUB_HEADER_BLOCK;
    use bedplate_testhosts::HostSpec;

    /// Host with two kernels, the newer one as default.
    fn two_kernels(loader: &str) -> Snapshot {
        let description = format!(
            "machine = 'plain'\nloader = '{loader}'\nkernel = '6.17.0-3-generic'\nolder-kernels = ['6.8.0-45-generic']"
        );
        HostSpec::from_toml(&description).unwrap().build()
    }

    fn lasting_of(host: &Snapshot) -> Option<Reading<String>> {
        lasting_kernel(host, &observe(host, Depth::Identity))
    }

    /// Evaluates this host with a file that may set a one-time choice.
    fn lasting(loader: &str, path: &str, bytes: &[u8]) -> Option<Reading<String>> {
        let mut host = two_kernels(loader);
        host.insert(path, Node::File(bytes.to_vec()));
        lasting_of(&host)
    }

    #[test]
    fn kernel_after_one_time_choice_is_known() {
        let new = Some(Reading::Known("6.17.0-3-generic".to_owned()));
        let block = |text: &str| format!("{:#<1024}", format!("# GRUB Environment Block\n{text}"));
        for (text, expected) in [
            ("next_entry=1>2\n", &new),
            ("saved_entry=1>2\nprev_saved_entry=0\n", &new),
            ("next_entry=\n", &None),
            ("saved_entry=1>2\n", &None),
        ] {
            let found = lasting("debian", "/boot/grub/grubenv", block(text).as_bytes());
            assert_eq!(found, *expected, "{text}");
        }
        // On Btrfs: the block in the file system's header.
        for (header, expected) in [("next_entry=1>2\n", &new), ("health=1\n", &None)] {
            let mut host = two_kernels("debian");
            let file = block("env_block=512+1\n");
            host.insert("/boot/grub/grubenv", Node::File(file.into()));
            let mounts = "29 1 0:28 / / rw - btrfs /dev/vda2 rw\n";
            host.insert("/proc/self/mountinfo", Node::File(mounts.into()));
            let json = serde_json::to_vec(&block(header)).unwrap();
            host.insert(GRUB_HEADER_BLOCK, Node::File(json));
            let script = "if [ \"${env_block}\" ]; then\nset env_block=\"(${root})${env_block}\"\n\
                          load_env -f \"${env_block}\"\nfi\n";
            let cfg = host.text("/boot/grub/grub.cfg").unwrap();
            let cfg = cfg.replacen(
                "if [ \"${next_entry}\"",
                &format!("{script}if [ \"${{next_entry}}\""),
                1,
            );
            assert!(cfg.contains(script));
            host.insert("/boot/grub/grub.cfg", Node::File(cfg.into()));
            assert_eq!(lasting_of(&host), *expected, "{header}");
        }
        let pattern = "*6.8*".encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        let pattern: Vec<u8> = [7, 0, 0, 0].into_iter().chain(pattern).collect();
        for loader in ["systemd-boot", "uki"] {
            assert_eq!(lasting(loader, ONE_SHOT, &pattern), new, "{loader}");
            let default = ONE_SHOT.replace("OneShot", "Default");
            assert_eq!(lasting(loader, &default, &pattern), None, "{loader}");
        }
    }
}
