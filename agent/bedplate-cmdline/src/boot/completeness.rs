//! Detects truncated boot loader files. Pure.

use super::bls::BlsEntry;
use super::grub_script;
use bedplate_base::lossless_text;

/// Beginnings of the lines around what a script of /etc/grub.d wrote (GRUB, util/grub-mkconfig.in).
pub const SECTION_MARKS: [&str; 2] = ["### BEGIN /etc/grub.d/", "### END /etc/grub.d/"];

/// Whether the content is complete; `None` means that the file is missing. A missing entry file is fine, because it was
/// removed with its kernel. A missing menu is lost.
pub fn is_whole(path: &str, content: Option<&[u8]>) -> bool {
    let is_entry = path.ends_with(".conf");
    let Some(content) = content else { return is_entry };
    let text = lossless_text::decode(content);
    match is_entry {
        true => is_whole_entry(path, &text),
        false => is_whole_menu(&text),
    }
}

fn is_whole_entry(path: &str, text: &str) -> bool {
    let entry = BlsEntry::parse(path.rsplit('/').next().unwrap_or(path), text);
    text.ends_with('\n') && entry.image().is_some()
}

/// Whether a menu closes all its commands, has an entry, and ends every section of grub-mkconfig.
fn is_whole_menu(text: &str) -> bool {
    let [begun, ended] =
        SECTION_MARKS.map(|mark| text.lines().filter(|line| line.starts_with(mark)).count());
    let has_entry = text.lines().any(|line| {
        let word = line.split_whitespace().next();
        word.is_some_and(|word| ["menuentry", "submenu", "blscfg", "linux"].contains(&word))
    });
    has_entry && begun == ended && text.ends_with('\n') && grub_script::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_menu_is_not_whole() {
        let menu = "### BEGIN /etc/grub.d/10_linux ###\nset default=0\nmenuentry 'A' {\n\tlinux /vmlinuz root=/dev/a\n\
                    \tinitrd /initrd\n}\n### END /etc/grub.d/10_linux ###\n";
        let is_whole = |text: &str| is_whole("/boot/grub/grub.cfg", Some(text.as_bytes()));
        assert!(is_whole(menu));
        for end in 0..menu.len() {
            assert!(!is_whole(&menu[..end]), "{:?}", &menu[..end]);
        }
        assert!(is_whole("set default=0\nblscfg\n"));
        assert!(!is_whole(&"\0".repeat(menu.len())));
        assert!(!super::is_whole("/boot/grub/grub.cfg", None));
    }

    #[test]
    fn truncated_entry_is_not_whole() {
        let entry = "title A\nversion 6.1\noptions root=/dev/a\nlinux /vmlinuz-6.1\n";
        let path = "/boot/loader/entries/a-6.1.conf";
        let is_whole = |text: &str| is_whole(path, Some(text.as_bytes()));
        assert!(is_whole(entry));
        for end in 0..entry.len() {
            assert!(!is_whole(&entry[..end]), "{:?}", &entry[..end]);
        }
        assert!(super::is_whole(path, None), "removed with its kernel");
    }
}
