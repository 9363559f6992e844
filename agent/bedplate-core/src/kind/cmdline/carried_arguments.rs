//! Arguments in a file with a whole line: /etc/kernel/cmdline, an entry file or a unified kernel image. A revert searches
//! entries without a ledger record for bedplate's arguments.

use super::arch;
use super::boot_files::entry_reader;
use super::entry_kernel::is_entry_file;
use super::only_in_entry::has;
use bedplate_base::lossless_text;
use bedplate_cmdline::boot::bls::{BlsEntry, Reader as BlsReader};
use bedplate_cmdline::boot::{kernel_cmdline, uki};
use bedplate_cmdline::{CommandLine, Edit, Token};
use bedplate_facts::Facts;
use bedplate_host::Reader;

/// Returns the line of a file on the host. `None` if it cannot be read.
pub(crate) fn file_line(reader: &dyn Reader, path: &str, facts: &Facts) -> Option<CommandLine> {
    if !path.ends_with(".efi") {
        return reader.read(path).ok().map(|content| content_line(path, &content, facts));
    }
    let start = reader.read_start(path, uki::PREFIX_BYTES).ok()?;
    uki::cmdline(&start).ok().map(|line| CommandLine::parse(&line.unwrap_or_default()))
}

/// Returns the line of /etc/kernel/cmdline or of an entry file with this content. Text that GRUB could not read is used
/// verbatim.
pub(crate) fn content_line(path: &str, content: &[u8], facts: &Facts) -> CommandLine {
    let text = lossless_text::decode(content);
    let name = path.rsplit('/').next().unwrap_or(path);
    let line = match (is_entry_file(path), entry_reader(facts)) {
        (false, loader) => kernel_cmdline::cmdline(&text, loader).unwrap_or(text),
        (true, BlsReader::SystemdBoot) => BlsEntry::parse(name, &text).systemd_cmdline(),
        (true, BlsReader::Grub) => {
            let entry = BlsEntry::parse(name, &text);
            let read = entry.grub_cmdline(&|_| None);
            read.map_or_else(|_| entry.systemd_cmdline(), |(line, _)| line)
        }
    };
    CommandLine::parse(&line)
}

/// Returns the members of `arguments` in a line, also as parts of a list (`pci=`). Another value does not
/// count, because an operator may have set it.
pub(crate) fn carried<'a>(
    line: &CommandLine,
    arguments: &'a [Token],
    facts: &Facts,
) -> Vec<&'a Token> {
    let edit = Edit::new(arch(facts), Vec::<Token>::new());
    let is_part =
        |token: &Token| edit.as_ref().is_ok_and(|edit| edit.staying(token, line).is_some());
    let is_carried = |token: &&Token| has(line, token) || is_part(token);
    arguments.iter().filter(is_carried).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::{Depth, observe};
    use bedplate_testhosts::HostSpec;

    #[test]
    fn argument_is_found_with_its_value_or_in_a_list() {
        let own = ["iommu=pt", "nosmt", "pci=realloc"].map(Token::from_static);
        for (loader, options, expected) in [
            ("systemd-boot", "root=/dev/r ro pci=noats,realloc", &["pci=realloc"][..]),
            ("rhel9", "root=/dev/r ro \"pci=noats,realloc\" $tuned_params", &["pci=realloc"][..]),
            ("systemd-boot", "root=/dev/r ro nosmt", &["nosmt"][..]),
            // Set by an operator.
            ("systemd-boot", "root=/dev/r ro nosmt=force pci=realloc=off", &[][..]),
        ] {
            let host = format!("machine = 'plain'\nloader = '{loader}'\n");
            let facts = observe(&HostSpec::from_toml(&host).unwrap().build(), Depth::Plan);
            let content = format!("linux /vmlinuz\noptions {options}\n");
            let line = content_line("/boot/loader/entries/a.conf", content.as_bytes(), &facts);
            let found = carried(&line, &own, &facts).into_iter().map(Token::as_str);
            assert_eq!(found.collect::<Vec<_>>(), expected, "{loader}: {options}");
        }
    }
}
