//! Whether the kernel of a boot entry file is still installed. An entry without its kernel must not come back.

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
    let image = entry.linux().or(entry.efi()).filter(|image| !image.contains('$'));
    let Some(image) = image.and_then(|image| image.rsplit_once('/')) else {
        return Reading::unknown(format!("{path} does not name its kernel image"));
    };
    let (directory, file) = image;
    // As the loader sees it, with /boot on the root file system, and below a subvolume.
    let places = [
        format!("{point}{directory}/{file}"),
        format!("{directory}/{file}"),
        format!("{point}/{file}"),
    ];
    for place in places {
        match reader.exists(&place) {
            Ok(true) => return Reading::Known(place),
            Ok(false) => {}
            Err(error) => return Reading::unknown(error),
        }
    }
    Reading::Absent
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::DirReader;

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
