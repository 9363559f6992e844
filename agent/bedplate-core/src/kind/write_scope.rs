//! Paths that resource types write and tools that they run, to check a ledger against. The ledger is a file: a user who can
//! write it, or who supplies an image with one inside, could otherwise have any file written and any program run as root.
//! Pure.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};

use super::KINDS;
use super::sysctl::key::Key;
use crate::ledger::{FileRecord, FileState, Ledger, SettingRecord};
use crate::plan::KindId;
use crate::setting::{SetConfigBits, SettingChange};
use bedplate_base::value::RegisterBits;
use bedplate_host::symlink::is_plain;
use bedplate_host::{FileMeta, Reader};

/// Scope of a resource type's changes, in this version or an earlier one: a ledger may be older than the program. `*`
/// matches any part of one component.
#[derive(Debug, Clone, Copy)]
pub struct WriteScope {
    /// Files written by bedplate or by a tool that it runs.
    pub files: &'static [&'static str],
    /// Files of the running kernel; a trailing `**` matches any number of components.
    pub attributes: &'static [&'static str],
    /// Registers in config space.
    pub registers: Option<RegisterScope>,
    /// Whether it sets VF attributes and eswitch modes.
    pub nics: bool,
    /// Tools: the program, then a pattern for each argument. The last pattern matches any number of arguments.
    pub tools: &'static [&'static [&'static str]],
}

/// Whether an action is on a resource type's register of a host.
type IsOwn = fn(&dyn Reader, &SetConfigBits) -> Result<bool, String>;

/// Registers that a resource type writes.
#[derive(Debug, Clone, Copy)]
pub struct RegisterScope {
    /// Name in plans and in the ledger.
    pub name: &'static str,
    /// First offset, and the one after the last.
    pub offsets: (u16, u16),
    /// Bits.
    pub bits: u16,
    /// Whether a register of a host is one of them, if the offset does not tell. Fails if the host cannot be read.
    pub is_own: Option<IsOwn>,
    /// Formats bits of the register, as in plans.
    pub format: fn(RegisterBits) -> String,
}

impl RegisterScope {
    fn contains(&self, action: &SetConfigBits) -> bool {
        let (first, end) = self.offsets;
        (first..end).contains(&action.offset) && action.bits.mask & !self.bits == 0
    }
}

/// Formats bits of a register for operators; those of an unknown register in hexadecimal digits.
pub fn format_register(name: &str, bits: RegisterBits) -> String {
    let mut scopes = KINDS.iter().filter_map(|kind| kind.owns.registers);
    match scopes.find(|scope| scope.name == name) {
        Some(scope) => (scope.format)(bits),
        None => format!("{:04x}", bits.value),
    }
}

/// Whether a recorded register is one that its resource type writes on this host. The ledger has its offset, but a replaced
/// device, or a forged record, may have another register there.
///
/// # Errors
/// Reason why the register cannot be read.
pub(crate) fn owns_register(
    reader: &dyn Reader,
    kind: KindId,
    action: &SetConfigBits,
) -> Result<bool, String> {
    let scope = KINDS.iter().find(|one| one.id == kind).and_then(|one| one.owns.registers);
    match scope.filter(|scope| scope.contains(action)) {
        Some(RegisterScope { is_own: Some(is_own), .. }) => is_own(reader, action),
        scope => Ok(scope.is_some()),
    }
}

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

impl WriteScope {
    /// Empty scope.
    pub const NONE: WriteScope =
        WriteScope { files: &[], attributes: &[], registers: None, nics: false, tools: &[] };

    fn file(&self, path: &str) -> bool {
        self.files.iter().any(|pattern| matches(pattern, path))
    }

    /// Whether one of its files may be below this directory.
    fn directory(&self, path: &str) -> bool {
        let parts = path.split('/').count();
        self.files.iter().any(|pattern| {
            let above: Vec<&str> = pattern.split('/').take(parts).collect();
            parts < pattern.split('/').count() && matches(&above.join("/"), path)
        })
    }

    /// Whether the resource type writes this file, directory or attribute.
    fn writes(&self, path: &str) -> bool {
        self.file(path) || self.directory(path) || self.attribute(path)
    }

    fn attribute(&self, path: &str) -> bool {
        self.attributes.iter().any(|pattern| matches(pattern, path))
    }

    fn tool(&self, argv: &[String]) -> bool {
        self.tools.iter().any(|tool| {
            let Some(last) = tool.last() else { return false };
            let patterns = tool.iter().chain(std::iter::repeat(last));
            argv.len() >= tool.len()
                && patterns.zip(argv).all(|(pattern, word)| word_matches(pattern, word))
        })
    }
}

/// Returns the resource type that runs a tool, given by its command or its program alone.
pub(crate) fn kind_of_tool(named: &str) -> Option<KindId> {
    let words: Vec<String> = named.split(' ').map(str::to_owned).collect();
    let starts = |owns: &WriteScope| owns.tools.iter().any(|tool| tool.first() == Some(&named));
    let by_program = || KINDS.iter().find(|kind| starts(&kind.owns)).map(|kind| kind.id);
    kind_of_command(&words).or_else(by_program)
}

/// Returns the resource type that runs this command.
pub(crate) fn kind_of_command(argv: &[String]) -> Option<KindId> {
    KINDS.iter().find(|kind| kind.owns.tool(argv)).map(|kind| kind.id)
}

/// Whether a word can only be bedplate's: the name of a resource type, of a register, of a tool or a fixed tool argument, or
/// the path of a file, directory or attribute that a resource type writes.
pub fn is_own_word(word: &str) -> bool {
    KINDS.iter().any(|kind| {
        let WriteScope { tools, registers, .. } = kind.owns;
        let of_tool = |pattern: &&str| match pattern.starts_with('/') {
            true => matches(pattern, word),
            false => **pattern == *word,
        };
        let of_tools = tools.iter().flat_map(|tool| tool.iter()).any(of_tool);
        let of_registers = registers.is_some_and(|scope| scope.name == word);
        kind.id.name() == word || of_tools || of_registers || kind.owns.writes(word)
    })
}

/// Describes the first ledger entry that is outside every resource type's scope.
pub fn outside_write_scope(ledger: &Ledger) -> Option<String> {
    let any = |of: &dyn Fn(&WriteScope) -> bool| KINDS.iter().any(|kind| of(&kind.owns));
    let files = ledger.files.iter().find_map(|(path, record)| {
        if !any(&|owns| owns.file(path)) {
            return Some(format!("entry for {path}, a file that bedplate never writes"));
        }
        rights(path, record).map(|what| format!("entry that gives {path} {what}"))
    });
    let generators = ledger.files.values().flat_map(|record| {
        record.generator.iter().chain(&record.readers).map(|tool| tool.argv.as_slice())
    });
    let owed = ledger.owed.iter().map(|tool| tool.argv.as_slice());
    let undo = ledger.undo.iter().map(|tool| tool.argv.as_slice());
    let tool = || {
        let foreign = |argv: &&[String]| !any(&|owns| owns.tool(argv));
        let argv = generators.chain(owed).chain(undo).find(foreign)?;
        Some(format!("entry that would run `{}`, which bedplate never runs", argv.join(" ")))
    };
    let directory = || {
        let path = ledger.directories.iter().find(|path| !any(&|owns| owns.directory(path)))?;
        Some(format!("entry for directory {path}, which bedplate never creates"))
    };
    let attribute = || {
        let runs = |path: &str| Key::of_path(path).is_some_and(|key| key.names_program());
        let foreign = |path: &&String| runs(path) || !any(&|owns| owns.attribute(path));
        let path = ledger.attributes.keys().find(foreign)?;
        Some(format!("entry for {path}, which bedplate never writes"))
    };
    let register = || {
        let foreign = |record: &&SettingRecord<SetConfigBits>| {
            !any(&|owns| owns.registers.is_some_and(|scope| scope.contains(&record.action)))
        };
        let record = ledger.registers.values().find(foreign)?;
        let SetConfigBits { address, offset, .. } = &record.action;
        Some(format!("entry for register {offset:#x} of {address}, which bedplate never writes"))
    };
    let nic = || {
        let mut names =
            ledger.vfs.keys().chain(ledger.starts.keys()).chain(ledger.eswitches.keys());
        names.next().filter(|_| !any(&|owns| owns.nics)).map(|name| foreign(name))
    };
    let start = || ledger.starts.iter().find(|(name, one)| **name != one.key.name());
    let misnamed = || {
        let setting = misnamed(&ledger.attributes)
            .or_else(|| misnamed(&ledger.registers))
            .or_else(|| misnamed(&ledger.vfs))
            .or_else(|| misnamed(&ledger.eswitches));
        setting.or_else(|| start().map(|(name, _)| name.as_str())).map(foreign)
    };
    let settings = || misnamed().or_else(attribute).or_else(register).or_else(nic);
    files.or_else(tool).or_else(directory).or_else(settings)
}

fn foreign(name: &str) -> String {
    format!("entry {name:?}, which bedplate never sets")
}

/// Returns the first record whose name does not match its setting.
fn misnamed<C: SettingChange>(records: &BTreeMap<String, SettingRecord<C>>) -> Option<&str> {
    let other = records.iter().find(|(name, record)| **name != record.action.name());
    other.map(|(name, _)| name.as_str())
}

/// Returns the privilege that a record gives to programs or other users; no file of bedplate has one.
fn rights(path: &str, record: &FileRecord) -> Option<&'static str> {
    // Who can write these decides which programs run as root.
    let is_unit = path.starts_with("/etc/systemd/") || path.starts_with("/etc/security/");
    let states = [Some(&record.original), record.unfinished.as_ref().map(|cut| &cut.before)];
    states.into_iter().flatten().find_map(|state| match state {
        FileState::File { meta: FileMeta { mode, .. }, .. } if mode & SET_ID != 0 => {
            Some("a set-user-ID or set-group-ID bit")
        }
        FileState::File { meta, .. } if meta.xattrs.contains_key("security.capability") => {
            Some("file capabilities")
        }
        FileState::File { meta, .. }
            if is_unit
                && (meta.mode & 0o022 != 0
                    || meta.xattrs.contains_key("system.posix_acl_access")) =>
        {
            Some("a mode with which others can write it")
        }
        FileState::File { .. } | FileState::Absent => None,
    })
}

fn matches(pattern: &str, path: &str) -> bool {
    is_plain(path) && !path.contains('\0') && word_matches(pattern, path)
}

fn word_matches(pattern: &str, text: &str) -> bool {
    // A path pattern must not cross directories. In an option such as `--append=console=/dev/x` a slash is an ordinary
    // character.
    let is_path = pattern.starts_with('/');
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: is_path,
        require_literal_leading_dot: is_path,
    };
    Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_with(text, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNS: WriteScope = WriteScope {
        files: &["/etc/a.d/*.conf", "/boot/efi/EFI/*/grub.cfg"],
        attributes: &["/proc/sys/**", "/sys/bus/pci/devices/*/sriov_numvfs"],
        registers: None,
        nics: false,
        tools: &[&["make", "-o", "/boot/*"], &["kargs", "--*"], &["bare"]],
    };

    #[test]
    fn path_patterns_do_not_cross_directories() {
        for path in ["/etc/a.d/x.conf", "/boot/efi/EFI/debian/grub.cfg"] {
            assert!(OWNS.file(path), "{path}");
        }
        for path in [
            "/etc/a.d/x",
            "/etc/a.d/../x.conf",
            "/etc/a.d/b/x.conf",
            "/etc/a.d/.x.conf",
            "etc/a.d/x.conf",
            "//etc/a.d/x.conf",
            "/boot/efi/EFI/../grub.cfg",
            "/boot/efi/EFI/a/b/grub.cfg",
            "/x/etc/a.d/x.conf",
            "/etc/a.d/x.conf\0",
            "",
        ] {
            assert!(!OWNS.file(path), "{path:?}");
        }
        for path in ["/etc", "/etc/a.d", "/boot/efi/EFI/x"] {
            assert!(OWNS.directory(path), "{path}");
        }
        for path in ["/", "", "/etc/a.d/x.conf", "/etc/b.d", "/etc/..", "/usr"] {
            assert!(!OWNS.directory(path), "{path:?}");
        }
        assert!(OWNS.attribute("/proc/sys/net/ipv4/conf/eth0/rp_filter"));
        assert!(OWNS.attribute("/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs"));
        for path in ["/proc/sys/../1/mem", "/sys/bus/pci/devices/x/config", "/proc/sysrq-trigger"] {
            assert!(!OWNS.attribute(path), "{path}");
        }
    }

    #[test]
    fn tool_patterns_match_all_arguments() {
        let tool = |line: &str| OWNS.tool(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in ["make -o /boot/x", "kargs --a=1", "kargs --a=/dev/x --b", "bare"] {
            assert!(tool(line), "{line}");
        }
        for line in ["make", "make -o", "make -o /etc/x", "kargs", "kargs x", "sh -c x", "/x/bare"]
        {
            assert!(!tool(line), "{line}");
        }
        assert!(!OWNS.tool(&[]));
    }

    #[test]
    fn ledger_may_name_only_bits_of_device_control() {
        let foreign = |kind, offset, mask| {
            let action = SetConfigBits {
                address: "0000:19:00.0".parse().unwrap(),
                offset,
                bits: RegisterBits { mask, value: 0 },
                before: mask,
                register: "device control".into(),
            };
            let mut ledger = Ledger::default();
            let now = RegisterBits::whole(mask);
            ledger.begin_setting(&action, kind, "this boot", &now);
            outside_write_scope(&ledger).is_some()
        };
        assert!(!foreign(KindId::Pcie, 0x68, 0x7010));
        // Bus master enable is in the command register; bit 15 of device control starts a reset.
        for (offset, mask) in [(0x04, 0x0010), (0x68, 0x8000), (0x68, 0x00e0), (0x3e, 0x0010)] {
            assert!(foreign(KindId::Pcie, offset, mask), "{offset:#x} {mask:#x}");
        }
    }
}
