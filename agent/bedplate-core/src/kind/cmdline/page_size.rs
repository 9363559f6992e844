//! Huge page sizes of a kernel. On 64-bit Arm they depend on its page size (handbook §1.7).

use super::Obstacle;
use crate::plan::Note;
use bedplate_base::{Arch, Reading, memory_size};
use bedplate_facts::Facts;
use bedplate_facts::kernel_config::kernel_config;
use bedplate_host::Reader;

/// Source of the sizes.
const SOURCE: &str =
    "linux Documentation/arch/arm64/hugetlbpage.rst, arch/x86/mm/hugetlbpage.c, mm/hugetlb.c";

const K: u128 = 1 << 10;
const M: u128 = 1 << 20;
const G: u128 = 1 << 30;

/// Pages of a kernel: their size for messages, the option that it was built with, the sizes of its huge pages in bytes,
/// and the size of those that `hugepages=` requests without a size: PMD_SIZE (arch/arm64/include/asm/pgtable-hwdef.h).
struct Pages {
    size: &'static str,
    option: &'static str,
    huge: &'static [u128],
    default: u128,
}

const OF_X86: Pages = Pages { size: "4K", option: "", huge: &[2 * M, G], default: 2 * M };
const OF_ARM: [Pages; 3] = [
    Pages {
        size: "4K",
        option: "CONFIG_ARM64_4K_PAGES",
        huge: &[64 * K, 2 * M, 32 * M, G],
        default: 2 * M,
    },
    Pages {
        size: "16K",
        option: "CONFIG_ARM64_16K_PAGES",
        huge: &[2 * M, 32 * M, G],
        default: 32 * M,
    },
    Pages {
        size: "64K",
        option: "CONFIG_ARM64_64K_PAGES",
        huge: &[2 * M, 512 * M, 16 * G],
        default: 512 * M,
    },
];

/// Refuses arguments that request a size which the kernel of the next boot lacks: it would ignore that size and the
/// count after it. Returns a note if the kernel's page size is unknown and decides.
pub(super) fn check<'a>(
    reader: &dyn Reader,
    facts: &Facts,
    tokens: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<Note>, Obstacle> {
    let asked: Vec<(&str, u128)> = sizes_asked(tokens);
    let Some((first, _)) = asked.first() else { return Ok(None) };
    let pages = match facts.arch {
        Reading::Known(Arch::X86_64) => Ok(&OF_X86),
        Reading::Known(Arch::Aarch64) => of_arm(reader, facts),
        _ => return Ok(None),
    };
    let pages = match pages {
        Ok(pages) => pages,
        Err(why) => {
            let is_in_all =
                |(_, size): &(&str, u128)| OF_ARM.iter().all(|one| one.huge.contains(size));
            let text = format!(
                "cannot tell whether the kernel supports the huge page size of `{first}`: {why} ({SOURCE})"
            );
            let note = super::NAME.note("huge pages", text);
            return Ok((!asked.iter().all(is_in_all)).then_some(note));
        }
    };
    match asked.iter().find(|(_, size)| !pages.huge.contains(size)) {
        None => Ok(None),
        Some((token, _)) => Err(Obstacle {
            reason: format!(
                "a kernel with {} pages does not support the huge page size of `{token}`; it ignores that and the count \
                 after it ({SOURCE})",
                pages.size
            ),
            fix: format!("set the size to {} in [cmdline] of the profile", named(pages.huge)),
        }),
    }
}

/// Returns the size in bytes that the next kernel assumes for a `hugepages=` without a size before it. `None`: unknown.
pub(super) fn default_size(reader: &dyn Reader, facts: &Facts) -> Option<u128> {
    match super::arch(facts) {
        Arch::Aarch64 => of_arm(reader, facts).ok().map(|pages| pages.default),
        arch => fixed_default_size(arch),
    }
}

/// Returns that size if all kernels of the architecture assume the same one.
pub(crate) fn fixed_default_size(arch: Arch) -> Option<u128> {
    (arch == Arch::X86_64).then_some(OF_X86.default)
}

/// Returns the pages of the next kernel, by its configuration, else by the part of its release with which distributors
/// mark kernels with larger pages (handbook §1.7).
fn of_arm(reader: &dyn Reader, facts: &Facts) -> Result<&'static Pages, String> {
    let kernel = facts.os.next_kernel.known().or(facts.os.kernel.known());
    let Some(release) = kernel else {
        return Err("the kernel of the next boot is unknown".to_owned());
    };
    let read = kernel_config(reader, release);
    let config = read.known().map_or("", String::as_str);
    let is_built =
        |pages: &&Pages| config.lines().any(|line| line.strip_suffix("=y") == Some(pages.option));
    // A kernel without a mark may have pages of any size.
    let is_marked = |marks: &[&str]| release.split(['-', '+']).any(|part| marks.contains(&part));
    let by_name = |pages: &&Pages| match pages.size {
        "16K" => is_marked(&["16k"]),
        "64K" => is_marked(&["64k", "64kb"]),
        _ => false,
    };
    let found = OF_ARM.iter().find(is_built).or_else(|| OF_ARM.iter().find(by_name));
    found.ok_or_else(|| match read {
        Reading::Unknown(why) => why.to_string(),
        _ => format!("the build configuration of {release} does not give its page size"),
    })
}

/// Formats sizes as `2M, 512M or 16G`.
fn named(sizes: &[u128]) -> String {
    let all: Vec<String> = sizes.iter().map(|size| memory_size::format(*size)).collect();
    match all.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => all.concat(),
    }
}

/// Returns the arguments that name a size, with the size in bytes. Omits invalid sizes, which the kernel logs.
fn sizes_asked<'a>(tokens: impl Iterator<Item = &'a str>) -> Vec<(&'a str, u128)> {
    let size = |token: &'a str| {
        let (name, value) = token.split_once('=')?;
        let is_size = matches!(name, "hugepagesz" | "default_hugepagesz");
        is_size.then(|| memory_size::parse(value)).flatten().map(|size| (token, size))
    };
    tokens.filter_map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::{Depth, observe};
    use bedplate_testhosts::HostSpec;

    /// Returns the default size of a host with this machine and kernel, with or without the kernel's configuration.
    fn default_of(machine: &str, kernel: &str, has_config: bool) -> Option<u128> {
        let gone = if has_config { "" } else { "remove = ['/boot/config-KERNEL']" };
        let spec = format!("machine = '{machine}'\nkernel = 'KERNEL'\n{gone}");
        let host = HostSpec::from_toml(&spec.replace("KERNEL", kernel)).unwrap().build();
        default_size(&host, &observe(&host, Depth::Identity))
    }

    #[test]
    fn unreadable_configuration_leaves_the_name() {
        let kernel = "6.8.0-1025-nvidia-64k";
        let spec = format!(
            "machine = 'gb200'\nkernel = '{kernel}'\nremove = ['/boot/config-{kernel}']\n\
             denied = ['/usr/lib/modules/{kernel}/config']"
        );
        let host = HostSpec::from_toml(&spec).unwrap().build();
        let facts = observe(&host, Depth::Identity);
        assert!(matches!(kernel_config(&host, kernel), Reading::Unknown(_)));
        assert_eq!(default_size(&host, &facts), Some(512 * M));
    }

    #[test]
    fn default_size_follows_page_size_of_kernel() {
        let (small, large) = ("6.8.0-1025-nvidia", "6.8.0-1025-nvidia-64k");
        let (rhel, debug) = ("5.14.0-503.el9.aarch64+64k", "5.14.0-503.el9.aarch64+64k-debug");
        let (suse, fedora) = ("6.4.0-150600.21-64kb", "6.14.4-400.asahi.fc41.aarch64+16k");
        for (machine, kernel, has_config, expected) in [
            ("gb200", small, true, Some(2 * M)),
            ("gb200", small, false, None),
            ("gb200", large, true, Some(512 * M)),
            ("gb200", large, false, Some(512 * M)),
            ("gb200", rhel, false, Some(512 * M)),
            ("gb200", debug, false, Some(512 * M)),
            ("gb200", suse, false, Some(512 * M)),
            ("gb200", fedora, false, Some(32 * M)),
            ("plain", "6.8.0-45-generic", false, Some(2 * M)),
        ] {
            assert_eq!(default_of(machine, kernel, has_config), expected, "{machine} {kernel}");
        }
    }

    #[test]
    fn default_size_is_a_supported_size() {
        for pages in OF_ARM.iter().chain([&OF_X86]) {
            assert!(pages.huge.contains(&pages.default), "{}", pages.size);
        }
    }
}
