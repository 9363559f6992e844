//! Contexts of the running kernel that change how to read its command line: hypervisor, crash kernel, installer, hidden
//! NUMA nodes, ACS override. Contexts that only add a note have an entry in `ROWS`.

use super::{NAME, iommu_wanted, passthrough_wanted};
use crate::kind::Context;
use crate::plan::KindPlan;
use bedplate_cmdline::{CommandLine, Token};
use bedplate_host::{HostKind, Reader};

/// Input of the checks in `ROWS`.
struct KernelContext<'a> {
    reader: &'a dyn Reader,
    line: &'a CommandLine,
    release: &'a str,
}

/// One context: the subject of its note, and a check that returns the text where the context applies.
struct Row {
    subject: &'static str,
    says: fn(&KernelContext<'_>) -> Option<String>,
}

const ROWS: &[Row] = &[
    Row { subject: "crash kernel", says: crash_kernel },
    Row { subject: "installer or live system", says: installer },
    Row { subject: "numa=", says: numa },
    Row { subject: "pcie_acs_override=", says: acs_override },
];

/// Release substrings of out-of-tree kernels that have the ACS override patch.
const PATCHED: [&str; 5] = ["-pve", "-zen", "-xanmod", "-liquorix", "-cachyos"];

/// Adds notes on the contexts that apply, and blockers where requested arguments have no effect or a side effect.
pub(crate) fn report(context: &Context, section: &mut KindPlan) {
    if context.facts.host == HostKind::Image {
        return;
    }
    let line = super::running_line(context.reader).unwrap_or_default();
    let release = context.facts.os.kernel.known().map_or("", String::as_str);
    let seen = KernelContext { reader: context.reader, line: &line, release };
    for row in ROWS {
        if let Some(text) = (row.says)(&seen) {
            section.notes.push(NAME.note(row.subject, text));
        }
    }
    xen(context, section);
    sev_snp(context, section);
}

/// Reports a Xen dom0. The hypervisor owns the IOMMU, so dom0's IOMMU arguments have no effect.
fn xen(context: &Context, section: &mut KindPlan) {
    let capabilities = context.reader.text("/proc/xen/capabilities").unwrap_or_default();
    if !capabilities.contains("control_d") {
        return;
    }
    let subject = "Xen dom0".to_owned();
    let text = "the Xen hypervisor owns the IOMMU; IOMMU arguments of Linux have no effect";
    match iommu_wanted(context) {
        true => section.blockers.push(NAME.blocker(
            subject,
            text,
            "set iommu.mode = \"keep\", and configure Xen's own `iommu=` (GRUB_CMDLINE_XEN in /etc/default/grub; xen \
             docs/misc/xen-command-line.pandoc)",
        )),
        false => section.notes.push(NAME.note(subject, text)),
    }
}

/// Reports SEV-SNP. With passthrough as the default, the kernel disables SNP at the next boot.
fn sev_snp(context: &Context, section: &mut KindPlan) {
    let path = "/sys/module/kvm_amd/parameters/sev_snp";
    if !matches!(context.reader.attribute(path).as_deref(), Ok("Y" | "1")) {
        return;
    }
    let subject = "SEV-SNP".to_owned();
    let text = "this host can run SEV-SNP VMs (kvm_amd sev_snp=Y); passthrough as the default makes the kernel disable \
                that (linux drivers/iommu/amd/init.c, iommu_snp_enable)";
    match passthrough_wanted(context) {
        true => section.blockers.push(NAME.blocker(
            subject,
            text,
            "set iommu.mode = \"translated\" or \"keep\"; without SEV-SNP VMs, set the kvm_amd option sev_snp=0 instead",
        )),
        false => section.notes.push(NAME.note(subject, text)),
    }
}

fn crash_kernel(seen: &KernelContext<'_>) -> Option<String> {
    let told = seen.line.named("elfcorehdr").next().is_some();
    (told || seen.reader.exists("/proc/vmcore") == Ok(true)).then(|| {
        "kdump started the running kernel to save a dump; its command line is kdump's, until the next boot"
            .to_owned()
    })
}

/// Recognizes anaconda, subiquity and casper, dracut live images, debian-installer, AutoYaST, archiso.
fn installer(seen: &KernelContext<'_>) -> Option<String> {
    const NAMES: [&str; 10] = [
        "inst.stage2",
        "inst.ks",
        "inst.repo",
        "autoinstall",
        "rd.live.image",
        "archisobasedir",
        "autoyast",
        "auto_install/enable",
        "preseed/file",
        "preseed/url",
    ];
    let live = |token: &&Token| match (token.folded_name().as_str(), token.value().as_deref()) {
        ("boot", Some("casper" | "live")) => true,
        ("root", Some(value)) => value.starts_with("live:"),
        (name, _) => NAMES.contains(&name),
    };
    let token = seen.line.tokens().find(live)?;
    Some(format!(
        "running from an installer or a live image (`{token}`); its command line is not that of the boot configuration"
    ))
}

fn numa(seen: &KernelContext<'_>) -> Option<String> {
    let token = seen.line.named("numa").next_back()?;
    match token.value().as_deref()? {
        "off" => Some(
            "`numa=off`: the kernel shows a single NUMA node, so the nodes of GPUs and NICs are meaningless (linux \
             arch/x86/mm/numa.c)"
                .to_owned(),
        ),
        value if value.starts_with("fake") => Some(format!(
            "`{token}`: the kernel emulates the NUMA nodes; they are not those of the hardware (linux mm/numa_emulation.c)"
        )),
        _ => None,
    }
}

fn acs_override(seen: &KernelContext<'_>) -> Option<String> {
    let token = seen.line.named("pcie_acs_override").next_back()?;
    let patched = PATCHED.iter().any(|part| seen.release.contains(part));
    Some(match patched {
        true => format!(
            "`{token}` is active: a patch of this kernel ({}) reports isolation that the hardware lacks; devices of \
             different IOMMU groups can reach each other",
            seen.release
        ),
        false => format!(
            "`{token}` has no effect on a mainline kernel; with the out-of-tree patch, devices of different IOMMU groups \
             can reach each other"
        ),
    })
}
