//! Kernel log messages about rejected arguments. One table with an entry per message, under the kernel file that prints
//! it. Lines that only repeat the command line, or report the resulting policy, are not rejections.

use std::fmt;

use super::{Edit, Token, fold_name};
use bedplate_base::kernel_prefix::is_prefix;
use bedplate_base::mask::is_name;

/// How a message names the argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// Its name, after the entry's text.
    Name,
    /// Its name without the module, which the line starts with.
    ModuleParameter,
    /// One of several in double quotes, each with its value.
    Listed,
    /// The unknown option of this parameter.
    Option(&'static str),
    /// Not named: one of these options of this parameter.
    Suboptions(&'static str, &'static [&'static str]),
    /// Not named: one of these parameters.
    Parameters(&'static [&'static str]),
}

/// One message.
struct Row {
    /// Text that occurs in this message and in no other line.
    text: &'static str,
    about: About,
}

const fn row(text: &'static str, about: About) -> Row {
    Row { text, about }
}

const PAGES: About = About::Parameters(&["hugepages", "hugepagesz", "default_hugepagesz"]);

const ROWS: &[Row] = &[
    // init/main.c do_early_param
    row("Malformed early option '", About::Name),
    // init/main.c print_unknown_bootoptions
    row("Unknown kernel command line parameters \"", About::Listed),
    // init/main.c unknown_bootoption, before 5.13
    row("Unknown boot option `", About::Name),
    // kernel/params.c parse_args
    row("Unknown parameter `", About::Name),
    row("invalid for parameter `", About::Name),
    row("too large for parameter `", About::Name),
    // kernel/module/main.c unknown_module_param_cb
    row(": unknown parameter '", About::ModuleParameter),
    // drivers/pci/pci.c pci_setup
    row("PCI: Unknown option `", About::Option("pci")),
    // drivers/pci/pci.c __pci_config_acs
    row(
        "PCI: Can't parse ACS command line parameter",
        About::Suboptions("pci", &["config_acs", "disable_acs_redir"]),
    ),
    // drivers/pci/pci.c pci_disable_acs_redir, before 6.11
    row(
        "PCI: Can't parse disable_acs_redir parameter",
        About::Suboptions("pci", &["disable_acs_redir"]),
    ),
    // drivers/pci/pci.c pci_specified_resource_alignment
    row(
        "PCI: Can't parse resource_alignment parameter",
        About::Suboptions("pci", &["resource_alignment"]),
    ),
    // drivers/iommu/amd/init.c parse_amd_iommu_options
    row("AMD-Vi: Unknown option - '", About::Option("amd_iommu")),
    // drivers/iommu/intel/iommu.c intel_iommu_setup
    row("DMAR: Unknown option - '", About::Option("intel_iommu")),
    // mm/hugetlb.c hugepagesz_setup
    row("HugeTLB: unsupported hugepagesz=", PAGES),
    // mm/hugetlb.c default_hugepagesz_setup
    row("HugeTLB: unsupported default_hugepagesz=", PAGES),
    // mm/hugetlb.c hugepagesz_setup ("specified twice")
    row("HugeTLB: hugepagesz=", PAGES),
    // mm/hugetlb.c hugepages_setup ("does not follow")
    row("HugeTLB: hugepages=", PAGES),
    // mm/hugetlb.c hugepages_setup
    row("Invalid hugepages parameter", PAGES),
    // mm/hugetlb.c
    row("HugeTLB: huge pages not supported", PAGES),
    // mm/hugetlb.c ("failed. Only allocated")
    row("HugeTLB: allocating ", PAGES),
    // arch/x86/mm/hugetlbpage.c, before 5.8
    row("hugepagesz: Unsupported page size", PAGES),
    // kernel/crash_reserve.c parse_crashkernel_simple
    row("crashkernel: memory value expected", About::Parameters(&["crashkernel"])),
    // arch/x86/kernel/setup.c; kernel/crash_reserve.c
    row("crashkernel reservation failed", About::Parameters(&["crashkernel"])),
    // kernel/sched/isolation.c housekeeping_setup
    row(
        "Housekeeping: nohz_full= or isolcpus= incorrect CPU range",
        About::Parameters(&["nohz_full", "isolcpus"]),
    ),
    // kernel/sched/isolation.c housekeeping_isolcpus_setup
    row("isolcpus: ", About::Parameters(&["isolcpus"])),
    // drivers/iommu/amd/init.c iommu_snp_enable
    row(
        "SNP: IOMMU disabled or configured in passthrough mode",
        About::Parameters(&["iommu", "iommu.passthrough", "amd_iommu"]),
    ),
];

/// Returns the first line that rejects one of the required arguments.
pub fn find(log: &str, edit: &Edit) -> Option<String> {
    let tokens = edit.wanted().iter().flat_map(|wanted| wanted.tokens());
    let line = log.lines().find(|line| tokens.clone().any(|token| rejects(line, token)));
    line.map(|line| line.trim().chars().take(300).collect())
}

/// Whether this line rejects the argument.
pub fn rejects(line: &str, token: &Token) -> bool {
    found(line).any(|(row, before, rest)| row.about.means(before, rest, token))
}

/// Returns the unknown arguments that the kernel passes on to user space, each with its value.
pub fn passed_on(line: &str) -> Option<impl Iterator<Item = &str>> {
    let (_, _, rest) = found(line).find(|(row, ..)| row.about == About::Listed)?;
    Some(row_words(rest, '"').split(' ').filter(|word| !word.is_empty()))
}

/// A rejection reduced to the kernel's own text and the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection<'a> {
    /// The kernel's text before the argument.
    pub head: String,
    /// The argument as the kernel names it, or several; may be empty.
    pub arguments: &'a str,
    /// Closing text.
    pub tail: &'static str,
    /// Whether `arguments` is a name without a value.
    pub is_name: bool,
    /// The parameter, if `arguments` is an option of it.
    pub parameter: Option<&'static str>,
}

impl fmt::Display for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.head, self.arguments, self.tail)
    }
}

/// Parses a line. Returns `None` if it is not a rejection.
pub fn parse(line: &str) -> Option<Rejection<'_>> {
    let (row, before, rest) = found(line).next()?;
    let head = match row.about {
        About::ModuleParameter => format!("{}{}", module_of(before)?, row.text),
        _ => row.text.to_owned(),
    };
    let (arguments, tail) = match row.about {
        About::Name => (name_in(rest), "'"),
        About::ModuleParameter | About::Option(_) => (row_words(rest, '\''), "'"),
        About::Listed => (row_words(rest, '"'), "\""),
        About::Suboptions(..) | About::Parameters(_) => ("", ""),
    };
    let is_name = matches!(row.about, About::Name | About::ModuleParameter);
    let parameter = match row.about {
        About::Option(parameter) => Some(parameter),
        _ => None,
    };
    Some(Rejection { head, arguments, tail, is_name, parameter })
}

/// Returns the entries whose text the line contains, with the text before and after.
fn found(line: &str) -> impl Iterator<Item = (&'static Row, &str, &str)> {
    // The kernel logs the whole command line early, and its arguments may hold any text.
    let rows = if line.contains("ommand line: ") { &[] } else { ROWS };
    rows.iter().filter_map(move |row| {
        let (before, rest) = line.split_once(row.text)?;
        row.is_at(before).then_some((row, before, rest))
    })
}

/// Returns the module name in front of the message.
fn module_of(before: &str) -> Option<&str> {
    let module = without_time(before);
    is_name(module).then_some(module)
}

fn row_words(rest: &str, end: char) -> &str {
    rest.split(end).next().unwrap_or_default()
}

fn name_in(rest: &str) -> &str {
    rest.split(['\'', '`', '"', '=', ' ']).next().unwrap_or_default()
}

impl Row {
    /// Whether the kernel can print `before` there: nothing, parts with a colon, or the refused value.
    fn is_at(&self, before: &str) -> bool {
        let before = without_time(before);
        match self.about {
            About::ModuleParameter => is_name(before),
            About::Name if before.ends_with("' ") => {
                before.split_once('`').is_some_and(|(before, _)| is_prefix(before))
            }
            _ => is_prefix(before),
        }
    }
}

/// Strips the time that dmesg prints first: `[    9.1] `.
fn without_time(text: &str) -> &str {
    let rest = text.strip_prefix('[').and_then(|text| text.split_once("] "));
    let is_time = |time: &str| time.trim().bytes().all(|c| c.is_ascii_digit() || c == b'.');
    rest.filter(|(time, _)| is_time(time)).map_or(text, |(_, rest)| rest)
}

impl About {
    fn means(self, before: &str, rest: &str, token: &Token) -> bool {
        let name = token.folded_name();
        let options =
            || token.value().unwrap_or_default().split(',').map(str::to_owned).collect::<Vec<_>>();
        match self {
            About::Name => fold_name(name_in(rest)) == name,
            About::ModuleParameter => {
                let module = module_of(before).unwrap_or_default();
                fold_name(&format!("{module}.{}", row_words(rest, '\''))) == name
            }
            About::Listed => row_words(rest, '"').split(' ').any(|word| {
                let own = word.split('=').next().unwrap_or_default();
                fold_name(own) == name && (word == own || word == token.as_str())
            }),
            // Some handlers print the rest of the list, starting at the unknown option.
            About::Option(param) => {
                let unknown = row_words(rest, '\'');
                let starts = |option: &String| {
                    unknown
                        .strip_prefix(option.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
                };
                name == param && options().iter().filter(|option| !option.is_empty()).any(starts)
            }
            About::Suboptions(param, known) => {
                let is_known =
                    |option: &String| known.contains(&option.split('=').next().unwrap_or_default());
                name == param && options().iter().any(is_known)
            }
            About::Parameters(known) => known.contains(&name.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::rows;
    use bedplate_base::Arch;

    /// A required argument and the kernel message that rejects it, one line per table entry, in table order.
    const SAID: &str = r#"
        iommu.strict=1 | Malformed early option 'iommu.strict'
        pcie_acs_override=downstream | Unknown kernel command line parameters "nosmp2 pcie_acs_override=downstream", will be passed to user space.
        nosuch=1 | Unknown boot option `nosuch=1': ignoring
        pcie_aspm.nosuch=1 | Booting kernel: Unknown parameter `pcie_aspm.nosuch'
        nmi_watchdog=x | Booting kernel: `x' invalid for parameter `nmi_watchdog'
        vfio_pci.ids=a | vfio_pci: `a' too large for parameter `vfio-pci.ids'
        nvidia.NVreg_Foo=1 | [    9.1] nvidia: unknown parameter 'NVreg_Foo' ignored
        pci=noaer,reallok | [    0.0] PCI: Unknown option `reallok'
        pci=config_acs=0@1 | PCI: Can't parse ACS command line parameter
        pci=disable_acs_redir=0 | PCI: Can't parse disable_acs_redir parameter: 0
        pci=resource_alignment=x | PCI: Can't parse resource_alignment parameter: x
        amd_iommu=on | [    0.0] AMD-Vi: Unknown option - 'on'
        intel_iommu=of,sm_on | DMAR: Unknown option - 'of,sm_on'
        hugepagesz=3G | HugeTLB: unsupported hugepagesz=3G
        default_hugepagesz=3G | HugeTLB: unsupported default_hugepagesz=3G
        hugepagesz=1G | HugeTLB: hugepagesz=1G specified twice, ignoring
        hugepages=8 | HugeTLB: hugepages=8 does not follow a valid hugepagesz, ignoring
        hugepages=many | HugeTLB: Invalid hugepages parameter many
        hugepages=8 | HugeTLB: huge pages not supported, ignoring associated command-line parameters
        hugepages=64 | HugeTLB: allocating 64 of page size 1.00 GiB failed.  Only allocated 51 hugepages.
        hugepagesz=16G | hugepagesz: Unsupported page size 16384 M
        crashkernel=x | crashkernel: memory value expected
        crashkernel=900G | crashkernel reservation failed - No suitable area found.
        isolcpus=900- | Housekeeping: nohz_full= or isolcpus= incorrect CPU range
        isolcpus=io,1 | isolcpus: Skipped unknown flag io
        iommu=pt | AMD-Vi: SNP: IOMMU disabled or configured in passthrough mode, SNP cannot be supported.
    "#;

    fn rejection_of(wanted: &str, log: &str) -> Option<String> {
        find(log, &Edit::new(Arch::X86_64, [Token::new(wanted).unwrap()]).unwrap())
    }

    #[test]
    fn every_table_entry_matches_its_message() {
        assert_eq!(rows::<2>(SAID).count(), ROWS.len());
        for ([wanted, line], row) in rows(SAID).zip(ROWS) {
            assert!(line.contains(row.text), "{line} is no example of {}", row.text);
            let log = format!("Kernel command line: ro {wanted} unknown invalid\n{line}\nlater\n");
            assert_eq!(rejection_of(wanted, &log).as_deref(), Some(line), "{wanted}");
            assert_eq!(rejection_of("mitigations=off", &log), None, "{line} is about {wanted}");
            let bare = parse(line).unwrap().to_string();
            assert!(rejection_of(wanted, &bare).is_some(), "{bare} says less than {line}");
            assert_eq!(parse(&bare).unwrap().to_string(), bare);
        }
    }

    #[test]
    fn message_that_names_argument_is_not_rejection() {
        let others = r#"
            iommu=pt | iommu: DMA domain TLB invalidation policy: lazy mode (set via kernel command line)
            iommu.strict=0 | iommu: DMA domain TLB invalidation policy: lazy mode
            iommu=pt | iommu: Default domain type: Passthrough (set via kernel command line)
            pci=config_acs=0@1 | Command line: ro pci=config_acs=0@1 PCI: Unknown option `config_acs'
            pci=realloc | PCI: Unknown option `reallok'
            pci=reallok,noaer | PCI: Unknown option `noats'
            foo | Unknown kernel command line parameters "foobar foo=2x", will be passed to user space.
            nvidia.NVreg_Foo=1 | nouveau: unknown parameter 'NVreg_Foo' ignored
            intel_iommu=on | DMAR: IOMMU enabled
            hugepages=8 | HugeTLB: registered 1.00 GiB page size, pre-allocated 8 pages
        "#;
        for [wanted, line] in rows(others) {
            assert_eq!(rejection_of(wanted, line), None, "{line}");
        }
        let bare = "Unknown kernel command line parameters \"splash nosmtx\", will be passed to user space.";
        assert_eq!(rejection_of("nosmtx", bare).as_deref(), Some(bare), "a bare name");
    }
}
