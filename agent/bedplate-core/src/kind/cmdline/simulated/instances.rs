//! Single hosts, one for each past bug.

use super::*;
use bedplate_cmdline::MAX_LINE_BYTES;

const UBUNTU_HEAD: &str = "function gfxmode {\n\tset gfxpayload=\"${1}\"\n\tif [ \"${1}\" = \"keep\" ]; then\n\
    \t\tset vt_handoff=vt.handoff=7\n\telse\n\t\tset vt_handoff=\n\tfi\n}\n\
    if [ -e ${prefix}/gfxblacklist.txt ]; then\n\tif hwmatch ${prefix}/gfxblacklist.txt 3; then\n\
    \t\tset linux_gfx_mode=keep\n\telse\n\t\tset linux_gfx_mode=text\n\tfi\nelse\n\tset linux_gfx_mode=text\nfi\n\
    export linux_gfx_mode\ngfxmode $linux_gfx_mode\n";

pub(super) fn blockers(plan: &KindPlan) -> Vec<&str> {
    plan.blockers.iter().map(|blocker| blocker.reason.as_str()).collect()
}

pub(super) fn debian(main: &str) -> Host {
    let mut host =
        Host::new("loader = 'debian'\nremove = ['/etc/default/grub.d/50-cloudimg-settings.cfg']");
    host.put("/etc/default/grub", main.as_bytes());
    host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
    host
}

fn ubuntu(listed: bool) -> Host {
    let mut host = debian("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\nGRUB_CMDLINE_LINUX=\"\"\n");
    host.menu_head = UBUNTU_HEAD;
    host.menu_tail = " $vt_handoff";
    if listed {
        host.put("/boot/grub/gfxblacklist.txt", b"");
    }
    host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
    host
}

#[test]
fn hardware_dependent_values_need_not_be_known() {
    for listed in [false, true] {
        let mut host = ubuntu(listed);
        assert_eq!(host.next().possible_lines().count(), if listed { 2 } else { 1 });
        assert_eq!(host.apply("args = ['iommu=pt']\nabsent = ['quiet']"), Ok(()), "{listed}");
        assert!(
            host.next().possible_lines().all(|line| line.to_string().contains("splash iommu=pt"))
        );
        assert_eq!(host.plan("args = ['iommu=pt']").changes.len(), 0);
    }
    // Requesting the value that the line may have anyway does not conflict.
    let mut same = ubuntu(true);
    assert_eq!(same.apply("args = ['vt.handoff=7']"), Ok(()));
    assert!(
        same.next().possible_lines().all(|line| line.to_string().contains("splash vt.handoff=7"))
    );
    for wish in ["absent = ['vt.handoff']", "args = ['vt.handoff=1']"] {
        let plan = ubuntu(true).plan(wish);
        assert!(blockers(&plan)[0].contains("`vt.handoff=7`"), "{wish}: {plan:?}");
        assert_eq!(plan.changes.len(), 0, "{wish}");
    }
}

#[test]
fn undecidable_menu_is_refused_in_the_plan() {
    let mut host = debian("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    host.menu_tail = " $x";
    host.menu_head = "if cpuid -l; then set x=$lang; fi\n";
    host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
    let plan = host.plan("args = ['iommu=pt']");
    assert!(blockers(&plan)[0].contains("[\"x\"]"), "{plan:?}");
    assert_eq!(plan.changes.len(), 0);
}

/// Asserts that `iommu=pt` fits next to the longest possible unmanaged argument, and no longer with one more byte.
/// `front` is the text before that argument.
pub(super) fn fits(front: &str, with: &dyn Fn(&str) -> Host) {
    let room = MAX_LINE_BYTES - front.len() - " iommu=pt".len();
    let wish = "args = ['iommu=pt']";
    let mut host = with(&"a".repeat(room));
    assert_eq!(host.apply(wish), Ok(()), "{front}");
    let line = host.next().to_string();
    assert!(line.ends_with("iommu=pt"), "{front}");
    assert_eq!(blockers(&host.plan(wish)), [""; 0]);
    let refused = with(&"a".repeat(room + 1)).plan(wish);
    assert!(blockers(&refused)[0].contains("2048 bytes"), "{front}: {refused:?}");
    assert_eq!(refused.changes.len(), 0, "{front}");
}

#[test]
fn length_includes_grub_prefix() {
    let front = format!("BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {ROOT} ");
    fits(&front, &|long| debian(&format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{long}\"\n")));
    // An image without a menu.
    let front = format!("BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {} ", length::USUAL_ROOT);
    let image = |long: &str| {
        let mut host = Host::new(
            "loader = 'debian'\nrunning = false\nremove = ['/boot/grub/grub.cfg', '/etc/default/grub.d/50-cloudimg-settings.cfg']",
        );
        host.put("/etc/default/grub", format!("GRUB_CMDLINE_LINUX=\"{long}\"\n").as_bytes());
        host
    };
    fits(&front, &image);
    let front = format!("BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {ROOT} ");
    fits(&front, &|long| {
        let mut host = Host::new("loader = 'suse'");
        host.put(
            "/etc/default/grub",
            format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{long}\"\n").as_bytes(),
        );
        host.regenerate_grub("/bin/bash", "/boot/grub2/grub.cfg");
        host
    });
}

pub(super) fn rhel(loader: &str, line: &str) -> Host {
    let mut host = Host::new(&format!(
        "loader = '{loader}'\nremove = ['/usr/sbin/grubby', '/etc/kernel/cmdline']"
    ));
    host.put("/etc/default/grub", b"GRUB_CMDLINE_LINUX=\"\"\nGRUB_ENABLE_BLSCFG=true\n");
    match loader {
        "rhel8" => {
            let block = format!("# GRUB Environment Block\nkernelopts={line}\n");
            host.put("/boot/grub2/grubenv", format!("{block:#<4096}").as_bytes());
        }
        _ => {
            let path = host.entry("/boot/loader/entries").unwrap();
            host.write_options(&path, line);
        }
    }
    host
}

#[test]
fn length_includes_grub_prefix_of_entry_files() {
    for loader in ["rhel9", "rhel8"] {
        let front = format!("BOOT_IMAGE=(hd0,msdos1)/vmlinuz-{KERNEL} {ROOT} ");
        fits(&front, &|long| {
            let mut host = rhel(loader, &format!("{ROOT} {long}"));
            host.put("/proc/cmdline", b"ro\n");
            host
        });
        // The boot device is known.
        let front = format!("BOOT_IMAGE=(mduuid/0123)/vmlinuz-{KERNEL} {ROOT} ");
        fits(&front, &|long| {
            let mut host = rhel(loader, &format!("{ROOT} {long}"));
            host.put("/proc/cmdline", b"BOOT_IMAGE=(mduuid/0123)/vmlinuz-5.14 ro\n");
            host
        });
    }
}

#[test]
fn length_includes_initrds_of_systemd_boot() {
    let zeros = "0".repeat(32);
    let front = format!("initrd=/{zeros}/{KERNEL}/initrd.img-{KERNEL} {ROOT} ");
    fits(&front, &|long| {
        let mut host = Host::new("loader = 'systemd-boot'");
        host.put("/etc/kernel/cmdline", format!("{ROOT} {long}\n").as_bytes());
        host.regenerate_entry();
        host
    });
}

#[test]
fn truncated_line_is_not_converged() {
    let long = "a".repeat(2000);
    let host = debian(&format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{long} iommu=pt\"\n"));
    let plan = host.plan("args = ['iommu=pt']");
    assert!(blockers(&plan)[0].contains("the kernel drops"), "{plan:?}");
    // The line loses nothing that the profile requests.
    let host = debian(&format!("GRUB_CMDLINE_LINUX_DEFAULT=\"iommu=pt {long}\"\n"));
    assert_eq!(blockers(&host.plan("args = ['iommu=pt']")), [""; 0]);
}

/// Drop-in before and after the removal, and resulting line. The general variable is `x` before.
const PREPENDED: [(&str, &str, &str); 3] = [
    (
        "GRUB_CMDLINE_LINUX=\"quiet $GRUB_CMDLINE_LINUX\" # mine\n",
        "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX\" # mine\n",
        "x",
    ),
    (
        "GRUB_CMDLINE_LINUX=\"z=1  $GRUB_CMDLINE_LINUX quiet\"\n",
        "GRUB_CMDLINE_LINUX=\"z=1  $GRUB_CMDLINE_LINUX\"\n",
        "z=1 x",
    ),
    (
        "GRUB_CMDLINE_LINUX=\"a  quiet b ${GRUB_CMDLINE_LINUX}\"\n",
        "GRUB_CMDLINE_LINUX=\"a b ${GRUB_CMDLINE_LINUX}\"\n",
        "a b x",
    ),
];

#[test]
fn words_of_self_prepends_can_be_removed() {
    let path = "/etc/default/grub.d/40.cfg";
    for (before, after, line) in PREPENDED {
        let mut host = debian("GRUB_CMDLINE_LINUX=\"x\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"\"\n");
        host.put(path, before.as_bytes());
        host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
        assert_eq!(host.apply("absent = ['quiet']"), Ok(()), "{before}");
        assert_eq!(host.text(path).unwrap(), after);
        assert_eq!(host.next().to_string(), format!("{ROOT} {line}"), "{before}");
    }
}

#[test]
fn word_shared_by_self_prepend_is_left_alone() {
    let host =
        debian("GRUB_CMDLINE_LINUX=\"iet x\"\nGRUB_CMDLINE_LINUX=\"a qu$GRUB_CMDLINE_LINUX\"\n");
    let plan = host.plan("absent = ['a']");
    assert!(blockers(&plan)[0].contains("put together"), "{plan:?}");
}

const APPENDED: [&str; 3] = [
    "GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }quiet a=1\"\n",
    "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX quiet\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX a=1\"\n",
    "GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX-} a=1\"\nGRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX} quiet\"\n",
];

#[test]
fn words_of_self_appends_can_be_removed_and_replaced() {
    let path = "/etc/default/grub.d/40.cfg";
    for text in APPENDED {
        let host = || {
            let mut host = debian("GRUB_CMDLINE_LINUX=\"x\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"\"\n");
            host.put(path, text.as_bytes());
            host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
            host
        };
        let mut removed = host();
        assert_eq!(removed.apply("absent = ['quiet']"), Ok(()), "{text}");
        assert_eq!(removed.next().to_string(), format!("{ROOT} x a=1"), "{text}");
        let kept = removed.text(path).unwrap();
        assert_eq!(
            kept.matches("GRUB_CMDLINE_LINUX").count(),
            text.matches("GRUB_CMDLINE_LINUX").count(),
            "{kept}"
        );
        let mut replaced = host();
        assert_eq!(replaced.apply("args = ['a=2']"), Ok(()), "{text}");
        assert_eq!(replaced.next().to_string(), format!("{ROOT} x quiet a=2"), "{text}");
    }
}

#[test]
fn list_with_last_argument_in_effect_is_kept_whole() {
    for variable in ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"] {
        let mut host = debian(&format!("{variable}=\"module_blacklist=x,y\"\n"));
        assert_eq!(host.apply("args = ['module_blacklist=z']"), Ok(()));
        let line = host.next();
        let last = line.named("module_blacklist").next_back().map(ToString::to_string);
        assert_eq!(last.as_deref(), Some("module_blacklist=x,y,z"), "{variable}");
    }
}

#[test]
fn word_shared_by_two_assignments_is_left_alone() {
    let mut host = debian(
        "GRUB_CMDLINE_LINUX=\"qu\"\nGRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX}iet quiet\"\n",
    );
    let plan = host.plan("absent = ['quiet']");
    assert!(blockers(&plan)[0].contains("put together"), "{plan:?}");
    assert_eq!(host.apply("args = ['nosmt']"), Ok(()));
}

#[test]
fn non_utf8_value_is_refused_in_the_plan() {
    for main in
        [&b"GRUB_CMDLINE_LINUX=\"x=\xe9\"\n"[..], b"GRUB_X=\xe9\nGRUB_CMDLINE_LINUX=$GRUB_X\n"]
    {
        let mut host = debian("");
        host.put("/etc/default/grub", main);
        let plan = host.plan("args = ['nosmt']");
        assert!(blockers(&plan)[0].contains("UTF-8"), "{plan:?}");
        assert_eq!(plan.changes.len(), 0);
    }
}

#[test]
fn read_only_variable_is_refused_with_its_line() {
    let name = "GRUB_CMDLINE_LINUX_DEFAULT";
    for (main, line) in [
        (format!("{name}=\"quiet\"\nreadonly {name}\n"), 2),
        (format!("readonly {name}=quiet\n"), 1),
        (format!("{name}=quiet\nGRUB_X=$(true)\nreadonly GRUB_X {name}\n"), 3),
        (format!("{name}=$(true)\nreadonly {name}\n"), 2),
        (format!("{name}=quiet\nf() {{\n readonly {name}\n}}\nf\n"), 3),
    ] {
        let host = debian(&main);
        let plan = host.plan("args = ['nosmt']");
        assert!(
            blockers(&plan)[0].contains(&format!("/etc/default/grub:{line} ")),
            "{main}: {plan:?}"
        );
        assert_eq!(plan.changes.len(), 0);
    }
    // Another variable, and a change that needs no bedplate file.
    let mut other = debian(&format!("{name}=quiet\nreadonly GRUB_TIMEOUT=5\n"));
    assert_eq!(other.apply("args = ['nosmt']"), Ok(()));
    let mut removed = debian(&format!("{name}=\"quiet splash\"\nreadonly {name}\n"));
    assert_eq!(removed.apply("absent = ['quiet']"), Ok(()));
    // bedplate's file was written before.
    let mut later = debian(&format!("{name}=quiet\n"));
    assert_eq!(later.apply("args = ['nosmt']"), Ok(()));
    later.put("/etc/default/grub", format!("{name}=quiet\nreadonly {name}\n").as_bytes());
    let plan = later.plan("args = ['nosmt', 'a=1']");
    assert!(blockers(&plan)[0].contains("read-only"), "{plan:?}");
}

#[test]
fn hand_edits_of_own_file_are_noted() {
    let own = "/etc/default/grub.d/zz-bedplate.cfg";
    let wish = "args = ['nosmt']";
    let mut host = debian("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    assert_eq!(host.apply(wish), Ok(()));
    assert_eq!(host.plan(wish).notes, []);
    let text = host.text(own).unwrap();
    host.put(own, text.replace(" nosmt", " nosmt byhand=1").as_bytes());
    host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
    let plan = host.plan(wish);
    assert_eq!((plan.notes.len(), plan.notes[0].subject.as_str()), (1, own), "{plan:?}");
    assert!(
        plan.notes[0].text.contains("`byhand`") && !plan.notes[0].text.contains("=1"),
        "{plan:?}"
    );
    // The argument stays when the file changes.
    assert_eq!(host.apply("args = ['a=1']"), Ok(()));
    assert!(host.text(own).unwrap().contains("byhand=1"));
    for other in
        [format!("{text}GRUB_TIMEOUT=1\n"), "GRUB_CMDLINE_LINUX_DEFAULT=$(true)\n".to_owned()]
    {
        host.put(own, other.as_bytes());
        assert!(host.plan(wish).notes[0].text.contains("changed by hand"), "{other}");
    }
}

#[test]
fn missing_kernel_cmdline_is_not_converged() {
    let mut host = Host::new("loader = 'systemd-boot'\nremove = ['/etc/kernel/cmdline']");
    let plan = host.plan("args = ['nosmt']");
    let why: Vec<&str> =
        plan.changes[0].items[0].why.iter().map(|why| why.reason.as_str()).collect();
    assert!(!why.iter().any(|reason| reason.contains("configuration")), "{why:?}");
    assert_eq!(host.apply("args = ['nosmt']"), Ok(()));
    assert!(host.next().to_string().ends_with("nosmt"));
}
