//! Whether the kernel and the initrds of a boot entry file still exist. An entry without them must not come back.

use super::mounts::unmounted;
use bedplate_base::{Reading, lossless_text};
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_host::Reader;

/// Directory of entry files below a boot partition.
const ENTRIES: &str = "/loader/entries/";

/// Whether a path is that of a boot entry file.
pub(crate) fn is_entry_file(path: &str) -> bool {
    path.contains(ENTRIES) && path.ends_with(".conf")
}

/// Returns the kernel image of an entry file with this content. `Absent` only if the boot partition is proved to lack
/// it.
pub(crate) fn entry_kernel(reader: &dyn Reader, path: &str, content: &[u8]) -> Reading<String> {
    let Some((point, name)) = path.rsplit_once(ENTRIES) else {
        return Reading::unknown(format!("{path} is not a boot entry file"));
    };
    match unmounted(reader, path) {
        Reading::Absent => {}
        Reading::Known(point) => return Reading::unknown(format!("{point} is not mounted")),
        Reading::Unknown(why) => return Reading::Unknown(why),
    }
    if reader.exists(&format!("{point}{ENTRIES}")) != Ok(true) {
        return Reading::unknown(format!("{point}{ENTRIES} does not exist"));
    }
    let entry = BlsEntry::parse(name, &lossless_text::decode(content));
    let image = entry.image().filter(|image| !image.contains('$'));
    let Some(image) = image.filter(|image| image.contains('/')) else {
        return Reading::unknown(format!("{path} does not name its kernel image"));
    };
    for place in places(point, image) {
        match reader.exists(&place) {
            Ok(true) => return Reading::Known(place),
            Ok(false) => {}
            Err(error) => return Reading::unknown(error),
        }
    }
    Reading::Absent
}

/// Returns the possible paths of a file that an entry names: as the loader sees it, with /boot on the root file system,
/// and below a subvolume.
fn places(point: &str, file: &str) -> [String; 3] {
    let file = file.trim_start_matches('/');
    let name = file.rsplit('/').next().unwrap_or_default();
    [format!("{point}/{file}"), format!("/{file}"), format!("{point}/{name}")]
}

/// Returns the content to restore in place of `old` if a tool has replaced the initrds of an entry file and removed
/// those that `old` names: that of `now`, with the kernel arguments of `old`. `None`: restore `old` itself, also if the
/// tool was interrupted and `now` names no kernel.
pub(crate) fn entry_with_initrds(
    reader: &dyn Reader,
    path: &str,
    old: &[u8],
    now: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let (point, name) = path.rsplit_once(ENTRIES)?;
    let entry = |content: &[u8]| BlsEntry::parse(name, &lossless_text::decode(content));
    let initrds = |entry: &BlsEntry| entry.initrds(&|_| None);
    let (old, now) = (entry(old), entry(now?));
    now.image()?;
    let present = initrds(&now);
    let is_gone = |file: &String| {
        let is_missing = |place: &String| reader.exists(place) == Ok(false);
        !present.contains(file) && places(point, file).iter().all(is_missing)
    };
    let is_lost = initrds(&old).iter().any(is_gone);
    is_lost.then(|| lossless_text::encode(&now.with_options_of(&old)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::DirReader;

    #[test]
    fn restored_entry_keeps_the_present_initrd() {
        const ENTRY: &str = "/boot/efi/loader/entries/a-6.1.conf";
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        let text = |options: &str, initrd: &str| {
            format!("options {options}\nlinux /a/6.1/linux\ninitrd /a/6.1/{initrd}\n")
        };
        let (old, now) = (text("quiet rd.luks.uuid=1", "initrd-1"), text("quiet", "initrd-2"));
        let restored = |now: Option<&[u8]>| {
            let reader = DirReader::image(root.path()).unwrap();
            entry_with_initrds(&reader, ENTRY, old.as_bytes(), now)
        };
        put("boot/efi/a/6.1/initrd-2");
        let merged = text("quiet rd.luks.uuid=1", "initrd-2");
        assert_eq!(restored(Some(now.as_bytes())), Some(merged.into_bytes()));
        assert_eq!(restored(None), None, "nothing else to boot");
        assert_eq!(restored(Some(b"options quiet\n".as_slice())), None, "half an entry");
        // An initrd that was missing before, too.
        assert_eq!(restored(Some(text("quiet", "initrd-1").as_bytes())), None);
        put("boot/efi/a/6.1/initrd-1");
        assert_eq!(restored(Some(now.as_bytes())), None);
    }

    #[test]
    fn kernel_is_absent_only_with_proof() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        let kernel = |path: &str, text: &str| {
            let reader = DirReader::image(root.path()).unwrap();
            entry_kernel(&reader, path, text.as_bytes())
        };
        let (path, text) = ("/boot/loader/entries/a-6.1.conf", "linux /vmlinuz-6.1\n");
        assert!(matches!(kernel(path, text), Reading::Unknown(_)), "no entry directory");
        put("boot/loader/entries/b-6.2.conf");
        assert_eq!(kernel(path, text), Reading::Absent);
        for text in ["linux $image\n", "title a\n"] {
            assert!(matches!(kernel(path, text), Reading::Unknown(_)), "{text}");
        }
        put("boot/vmlinuz-6.1");
        for text in [text, "linux /boot/vmlinuz-6.1\n", "linux /@/boot/vmlinuz-6.1\n"] {
            assert_eq!(kernel(path, text), Reading::Known("/boot/vmlinuz-6.1".into()), "{text}");
        }
        put("etc/fstab");
        std::fs::write(root.path().join("etc/fstab"), "/dev/sda2 /boot ext4 defaults 0 2\n")
            .unwrap();
        std::fs::remove_file(root.path().join("boot/vmlinuz-6.1")).unwrap();
        put("proc/self/mountinfo");
        assert!(matches!(kernel(path, text), Reading::Unknown(_)), "/boot may not be mounted");
    }
}
