//! Property for every back end and any profile: the next boot's line is the previous line with the edit applied,
//! nothing else is lost, and with the loader's additions the line is short enough for the kernel.

use proptest::prelude::*;

use super::*;
use bedplate_cmdline::MAX_LINE_BYTES;
use bedplate_cmdline::boot::grub_quote::grub_token;

/// Back end and layout of its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Debian(u8),
    Suse,
    Rhel,
    Entries,
    Kernelopts,
    SystemdBoot,
    Unified,
    Ostree,
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        4 => (0..6u8).prop_map(Layout::Debian),
        1 => Just(Layout::Suse),
        1 => Just(Layout::Rhel),
        1 => Just(Layout::Entries),
        1 => Just(Layout::Kernelopts),
        1 => Just(Layout::SystemdBoot),
        1 => Just(Layout::Unified),
        1 => Just(Layout::Ostree),
    ]
}

/// Arguments that are common on lines and in profiles.
fn argument() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "quiet",
        "splash",
        "nosmt",
        "nosmt=force",
        "iommu=pt",
        "iommu=nopt",
        "iommu.passthrough=0",
        "iommu=pt,soft",
        "intel_iommu=on",
        "intel_iommu=on,sm_on",
        "intel_iommu=off",
        "pci=realloc",
        "pci=noats,realloc=off",
        "pci=config_acs=xx@1;yy@2",
        "pci=noaer",
        "modprobe.blacklist=nouveau",
        "modprobe.blacklist=a,nouveau",
        "module_blacklist=x,y",
        "video=DP-1:d",
        "video=efifb:off",
        "video=DP-2:e",
        "crashkernel=1G,high",
        "crashkernel=256M,low",
        "crashkernel=512M",
        "console=tty0",
        "console=ttyS0,115200",
        "console=ttyS1",
        "ip=eth0:dhcp",
        "ip=eth1:dhcp",
        "nameserver=10.0.0.1",
        "earlycon",
        "fbcon=map:1",
        "fbcon=nodefer",
        "tsc=reliable",
        "tsc=nowatchdog",
        "nvme.dyndbg=+p",
        "rd.lvm.lv=vg/root",
        "memmap=1G!4G",
        "default_hugepagesz=1G",
        "isolcpus=1-3",
        "a=1",
        "a=2",
        "b",
        "x=a;b|c",
        "numa_balancing=disable",
    ]);
    let pages =
        prop::sample::select(vec!["hugepagesz=1G hugepages=16", "hugepagesz=2M hugepages=512"]);
    prop_oneof![
        12 => known.prop_map(str::to_owned),
        1 => pages.prop_map(str::to_owned),
        1 => Just("dyndbg=\"file a +p\"".to_owned()),
        1 => (1..700usize).prop_map(|length| format!("long={}", "y".repeat(length))),
    ]
}

fn arguments(most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(argument(), 0..most)
}

fn wish(set: &[Token], absent: &[Token]) -> String {
    let list =
        |all: &[Token]| all.iter().map(|one| format!("'{one}'")).collect::<Vec<_>>().join(", ");
    format!("args = [{}]\nabsent = [{}]", list(set), list(absent))
}

/// Splits into single arguments, without duplicates.
fn single(all: &[String]) -> Vec<Token> {
    let mut once: Vec<Token> = Vec::new();
    for token in all.iter().flat_map(|one| tokens(one)) {
        if !once.contains(&token) {
            once.push(token);
        }
    }
    once
}

fn tokens(text: &str) -> Vec<Token> {
    CommandLine::parse(text).tokens().cloned().collect()
}

/// Quotes each argument as in GRUB's files.
fn in_grub(arguments: &[String]) -> String {
    let all = arguments.iter().flat_map(|one| tokens(one));
    all.map(|token| grub_token(&token).unwrap()).collect::<Vec<_>>().join(" ")
}

fn in_shell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`")
}

/// Creates a host with these arguments, in two groups.
fn host(layout: Layout, first: &[String], second: &[String]) -> Host {
    let (one, two) = (in_grub(first), in_grub(second));
    match layout {
        Layout::Debian(style) => debian(style, &one, &two),
        Layout::Suse => suse(&in_shell(&one), &in_shell(&two)),
        Layout::Rhel => rhel(&in_shell(&one), &in_shell(&two)),
        Layout::Entries | Layout::Kernelopts => entries(layout, &one, &two),
        Layout::SystemdBoot | Layout::Unified => {
            let plain = first.iter().chain(second).flat_map(|one| tokens(one));
            kernel_install(layout, &plain.collect::<Vec<_>>().join(" "))
        }
        Layout::Ostree => ostree(&format!("{one} {two}")),
    }
}

const NAME_DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

fn debian(style: u8, one: &str, two: &str) -> Host {
    let (shell_one, shell_two) = (in_shell(one), in_shell(two));
    let name = NAME_DEFAULT;
    let mut host =
        Host::new("loader = 'debian'\nremove = ['/etc/default/grub.d/50-cloudimg-settings.cfg']");
    let (main, extra) = match style {
        0 => (format!("GRUB_CMDLINE_LINUX=\"{shell_one}\"\n{name}=\"{shell_two}\"\n"), None),
        1 => {
            (format!("{name}=\"{shell_one}\"\n"), Some(format!("{name}=\"${name} {shell_two}\"\n")))
        }
        2 => {
            (format!("{name}=\"{shell_one}\"\n{name}=\"${{{name}:+${name} }}{shell_two}\"\n"), None)
        }
        3 => (format!("{name}='{one}'\nexport {name}=\"${{{name}}} {shell_two}\"\n"), None),
        4 => (
            format!("GRUB_CMDLINE_LINUX=\"{shell_one}\"\n"),
            Some(format!(
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {shell_two}\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX z=1\"\n"
            )),
        ),
        _ => (
            format!("GRUB_CMDLINE_LINUX=\"{shell_one}\" # first\n{name}=\n"),
            Some(format!("{name}=\"{shell_two}\"\n")),
        ),
    };
    host.put("/etc/default/grub", main.as_bytes());
    if let Some(extra) = extra {
        host.put("/etc/default/grub.d/40.cfg", extra.as_bytes());
    }
    host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
    host
}

fn suse(shell_one: &str, shell_two: &str) -> Host {
    let name = NAME_DEFAULT;
    let mut host = Host::new("loader = 'suse'");
    let text = format!("GRUB_CMDLINE_LINUX=\"{shell_one}\"\n{name}=\"{shell_two}\"\n");
    host.put("/etc/default/grub", text.as_bytes());
    host.regenerate_grub("/bin/bash", "/boot/grub2/grub.cfg");
    host
}

fn rhel(shell_one: &str, shell_two: &str) -> Host {
    let mut host = Host::new(
        "loader = 'rhel9'\nremove = ['/boot/loader', '/usr/sbin/grubby', '/etc/kernel/cmdline']",
    );
    let text =
        format!("GRUB_CMDLINE_LINUX=\"{shell_one}\"\nGRUB_CMDLINE_LINUX+=\" {shell_two}\"\n");
    host.put("/etc/default/grub", text.as_bytes());
    host.regenerate_grub("/bin/bash", "/boot/grub2/grub.cfg");
    host
}

fn entries(layout: Layout, one: &str, two: &str) -> Host {
    let (shell_one, shell_two) = (in_shell(one), in_shell(two));
    let all = format!("{one} {two}");
    let loader = if layout == Layout::Entries { "rhel9" } else { "rhel8" };
    let mut host = Host::new(&format!("loader = '{loader}'\nremove = ['/usr/sbin/grubby']"));
    let text = format!("GRUB_CMDLINE_LINUX=\"{shell_one} {shell_two}\"\nGRUB_ENABLE_BLSCFG=true\n");
    host.put("/etc/default/grub", text.as_bytes());
    host.put("/etc/kernel/cmdline", format!("{ROOT} {all}\n").as_bytes());
    if layout == Layout::Entries {
        let path = host.entry("/boot/loader/entries").unwrap();
        host.write_options(&path, &format!("{ROOT} {all}"));
    } else {
        let block =
            format!("# GRUB Environment Block\nkernelopts={ROOT} {}\n", all.replace('\\', "\\\\"));
        host.put("/boot/grub2/grubenv", format!("{block:#<8192}").as_bytes());
    }
    host
}

fn kernel_install(layout: Layout, arguments: &str) -> Host {
    let plain = format!("{ROOT} {arguments}");
    let loader = if layout == Layout::SystemdBoot { "systemd-boot" } else { "uki" };
    let mut host = Host::new(&format!("loader = '{loader}'"));
    host.put("/etc/kernel/cmdline", format!("{plain}\n").as_bytes());
    if layout == Layout::Unified {
        let old: Vec<String> = host.files.nodes().map(|(path, _)| path.to_owned()).collect();
        old.iter().filter(|path| path.ends_with(".efi")).for_each(|path| host.remove(path));
    }
    host.regenerate_entry();
    host
}

fn ostree(all: &str) -> Host {
    let mut host = Host::new("loader = 'rpm-ostree'");
    let path = host.entry("/boot/loader/entries").unwrap();
    host.write_options(&path, &format!("{ROOT} {all}"));
    host
}

/// Returns all arguments of a line, with lists split, sorted and without duplicates. The kernel reads a word that two
/// variables give the same way, once or twice.
fn contents(line: &CommandLine) -> Vec<String> {
    const LISTS: [&str; 7] = [
        "pci",
        "iommu",
        "intel_iommu",
        "modprobe.blacklist",
        "module_blacklist",
        "fbcon",
        "memmap",
    ];
    let mut all: Vec<String> = line
        .tokens()
        .flat_map(|token| {
            let name = token.folded_name();
            match token.value() {
                Some(value) if LISTS.contains(&name.as_str()) => {
                    value.split(',').map(|part| format!("{name}={part}")).collect::<Vec<_>>()
                }
                value => vec![format!("{name}={:?}", value.as_deref())],
            }
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn front(layout: Layout) -> usize {
    match layout {
        Layout::Unified => 0,
        Layout::SystemdBoot => {
            "initrd=/00000000000000000000000000000000//initrd.img- ".len() + 2 * KERNEL.len()
        }
        Layout::Ostree => "BOOT_IMAGE=/ostree/fedora-coreos/vmlinuz- ".len() + KERNEL.len(),
        _ => "BOOT_IMAGE=/vmlinuz- ".len() + KERNEL.len(),
    }
}

/// Applies a profile and compares the result with the edit of the previous line. Returns whether the plan was carried
/// out.
fn apply(
    host: &mut Host,
    layout: Layout,
    set: &[String],
    absent: &[String],
) -> Result<bool, TestCaseError> {
    let (set, gone) = (single(set), single(absent));
    let cmdline = wish(&set, &gone);
    let before = host.next();
    let facts = observe(&host.files, Depth::Plan);
    let edit = Edit::new(arch(&facts), &set).and_then(|edit| edit.without(&gone));
    let Ok(edit) = edit else { return Ok(false) };
    let disowned = edit.disowned(&owned(&host.ledger));
    let edit = edit.without(disowned).expect("what is wanted is not disowned");
    let plan = host.plan(&cmdline);
    let expected = edit.apply(&before);
    if !plan.blockers.is_empty() {
        prop_assert_eq!(plan.changes.len(), 0);
        return Ok(false);
    }
    let done = host.apply(&cmdline);
    prop_assert_eq!(done, Ok(()), "{:?} {} on {}", layout, cmdline, before);
    let after = host.next();
    // An argument that is satisfied in another spelling is not rewritten.
    let expected = match plan.changes.is_empty() {
        true => before.clone(),
        false => expected.expect("nothing that was carried out is refused for the whole line"),
    };
    prop_assert_eq!(
        contents(&after),
        contents(&expected),
        "{:?} {} on {}",
        layout,
        cmdline,
        before
    );
    for finding in edit.satisfied_by(&after, &KernelDefaults::default()) {
        prop_assert!(finding.status.is_satisfied(), "{:?}: {:?} on {}", layout, finding, after);
    }
    if !plan.changes.is_empty() {
        prop_assert!(
            front(layout) + after.to_string().len() <= MAX_LINE_BYTES,
            "{:?}: {}",
            layout,
            after
        );
    }
    let again = host.plan(&cmdline);
    prop_assert_eq!(
        (again.changes.len(), again.blockers.len()),
        (0, 0),
        "{:?} {} on {}",
        layout,
        cmdline,
        after
    );
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn next_line_is_the_edit_of_the_line_before(
        layout in layout(), first in arguments(6), second in arguments(4),
        (set, absent) in (arguments(4), arguments(2)), (later, without) in (arguments(4), arguments(2)),
    ) {
        // GRUB cannot carry quotes within a word, and drops text beyond its limit.
        let length = first.iter().chain(&second).map(|one| one.len() + 1).sum::<usize>();
        prop_assume!(length < 1900);
        let mut host = host(layout, &first, &second);
        if apply(&mut host, layout, &set, &absent)? {
            apply(&mut host, layout, &later, &without)?;
        }
    }
}

/// The property does not cover refused profiles. These must not be refused.
#[test]
fn ordinary_profiles_apply_on_every_back_end() {
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let layouts = (0..6).map(Layout::Debian).chain([
        Layout::Suse,
        Layout::Rhel,
        Layout::Entries,
        Layout::Kernelopts,
        Layout::SystemdBoot,
        Layout::Unified,
        Layout::Ostree,
    ]);
    for layout in layouts {
        let mut host = host(
            layout,
            &words("quiet console=tty0 pci=noaer a=1"),
            &words("video=DP-1:d iommu=nopt"),
        );
        let set = words("iommu=pt pci=realloc console=ttyS0 video=DP-2:d a=2");
        for (set, absent) in [(set, words("quiet")), (words("nosmt"), words("pci=noaer"))] {
            let done = apply(&mut host, layout, &set, &absent).map_err(|error| error.to_string());
            assert_eq!(done, Ok(true), "{layout:?}");
        }
    }
}
