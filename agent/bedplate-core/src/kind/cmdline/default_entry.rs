//! Selection of systemd-boot's default entry: EFI variables that `bootctl set-oneshot` and `set-default` write, then
//! loader.conf (src/boot/boot.c, config_select_default_entry; the Boot Loader Interface names the variables).

use bedplate_base::{OptionalRead as _, ReadError, Reading};
use bedplate_host::Reader;

/// Paths of the variables, with the vendor id of the Boot Loader Interface.
const VARIABLES: [&str; 2] = [
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
    "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
];
/// Bytes of attributes before the value (Documentation/filesystems/efivarfs.rst).
const ATTRIBUTES: usize = 4;

/// Returns globs on the id of an entry, most important first. Empty if nothing chooses an entry.
pub(crate) fn patterns(reader: &dyn Reader, mount: &str) -> Reading<Vec<String>> {
    let mut patterns = match variables(reader) {
        Reading::Known(patterns) => patterns,
        Reading::Absent => Vec::new(),
        Reading::Unknown(why) => return Reading::Unknown(why),
    };
    match super::boot_files::raw(reader, &format!("{mount}/loader/loader.conf")).optional() {
        Ok(text) => patterns.extend(text.as_deref().and_then(configured)),
        Err(error) => return Reading::unknown(error),
    }
    match patterns.iter().find(|pattern| is_saved(pattern)) {
        Some(word) => {
            Reading::unknown(format!("the loader's default is `{word}`, which is decided at boot"))
        }
        None => Reading::Known(patterns),
    }
}

/// Returns the globs of the EFI variables.
pub(crate) fn variables(reader: &dyn Reader) -> Reading<Vec<String>> {
    let mut patterns = Vec::new();
    for path in VARIABLES {
        match reader.read(path) {
            Ok(bytes) => match text(&bytes) {
                Some(pattern) => patterns.push(pattern),
                None => {
                    return Reading::unknown(format!("{path} is not NUL-terminated text"));
                }
            },
            // Snapshots of earlier versions do not record the variables.
            Err(error) if error.is_absent() => {}
            Err(ReadError::NotRecorded { .. }) => {}
            Err(error) => return Reading::unknown(error),
        }
    }
    Reading::Known(patterns)
}

/// Decodes UTF-16 text with a NUL at its end.
fn text(bytes: &[u8]) -> Option<String> {
    let (units, odd) = bytes.get(ATTRIBUTES..)?.as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    match units.as_slice() {
        [text @ .., 0] if odd.is_empty() => String::from_utf16(text).ok(),
        _ => None,
    }
}

/// Returns the last `default PATTERN` of loader.conf. Words with `@` that the loader does not know are skipped
/// (config_defaults_load_from_file).
fn configured(text: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once([' ', '\t'])?;
        let value = value.trim();
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        (key == "default").then_some(bare.unwrap_or(value))
    });
    values.rfind(|value| !value.starts_with('@') || is_saved(value)).map(str::to_owned)
}

/// Whether a pattern is `@saved`: the entry that was booted last, stored in another variable.
fn is_saved(pattern: &str) -> bool {
    pattern.eq_ignore_ascii_case("@saved")
}
