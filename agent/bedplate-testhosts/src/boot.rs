//! Boot configuration of fake hosts, as each family's installer leaves it, and the running kernel's command line.

use super::spec::{HostSpec, Loader};
use super::system::put;
use bedplate_host::snapshot::{Node, Snapshot};

/// Machine id of fake hosts.
const MACHINE_ID: &str = "00000000000000000000000000000000";
const ROOT: &str = "root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344 ro";
const LOADER_GUID: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

fn tools(snapshot: &mut Snapshot, names: &[&str]) {
    for name in names {
        snapshot.insert(&format!("/usr/{name}"), Node::Present);
    }
}

/// Adds boot configuration, tools and `/proc/cmdline` to a host.
pub(crate) fn files(spec: &HostSpec, snapshot: &mut Snapshot) {
    let usual = match spec.loader {
        Loader::Debian => debian(spec, snapshot),
        Loader::Rhel9 => rhel(spec, snapshot, false),
        Loader::Rhel8 => rhel(spec, snapshot, true),
        Loader::Suse => suse(spec, snapshot),
        Loader::SystemdBoot => systemd_boot(spec, snapshot, false),
        Loader::Uki => systemd_boot(spec, snapshot, true),
        Loader::RpmOstree => ostree(spec, snapshot, "/usr/bin/rpm-ostree"),
        Loader::Bootc => ostree(spec, snapshot, "/usr/bin/bootc"),
        Loader::Talos => {
            "talos.platform=metal console=ttyS0 init_on_alloc=1 slab_nomerge pti=on".to_owned()
        }
        Loader::None => ROOT.to_owned(),
    };
    if spec.running {
        let arguments = spec.running_cmdline.as_ref().unwrap_or(&spec.cmdline);
        let line = format!("BOOT_IMAGE=/boot/vmlinuz-{} {}", spec.kernel, join(&usual, arguments));
        put(snapshot, "/proc/cmdline", &format!("{line}\n"));
    }
}

fn join(first: &str, second: &str) -> String {
    format!("{first} {second}").trim().to_owned()
}

/// Quotes tokens with special characters for GRUB script (handbook §10.1).
fn grub_words(line: &str) -> String {
    let special = |c: char| ";&|<>{}$".contains(c);
    let word = |token: &str| match token.contains(special) {
        true => match token.split_once("config_acs=") {
            Some((before, list)) => format!("{before}config_acs=\"{list}\""),
            None => format!("\"{token}\""),
        },
        false => token.to_owned(),
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Escapes a value for double quotes in a shell assignment.
fn shell_quoted(text: &str) -> String {
    text.chars().flat_map(|c| "\\\"$`".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

fn environment_block(lines: &str) -> String {
    format!("{:#<1024}", format!("# GRUB Environment Block\n{lines}"))
}

fn kernels(spec: &HostSpec) -> impl Iterator<Item = &String> {
    [&spec.kernel].into_iter().chain(spec.older_kernels.iter().rev())
}

/// Adds Ubuntu as installed from a cloud image: the drop-in overrides the main file.
fn debian(spec: &HostSpec, snapshot: &mut Snapshot) -> String {
    let usual = "console=tty1 console=ttyS0";
    let all = grub_words(&spec.cmdline);
    let text = format!(
        "# Run update-grub after changing this file.\nGRUB_DEFAULT=0\nGRUB_TIMEOUT_STYLE=hidden\nGRUB_TIMEOUT=0\n\
         GRUB_DISTRIBUTOR=`( . /etc/os-release; echo ${{NAME:-Ubuntu}} ) 2>/dev/null || echo Ubuntu`\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\nGRUB_CMDLINE_LINUX=\"{}\"\n",
        shell_quoted(&all)
    );
    put(snapshot, "/etc/default/grub", &text);
    let text = format!(
        "# Cloud image defaults; they win over /etc/default/grub.\nGRUB_RECORDFAIL_TIMEOUT=0\nGRUB_TIMEOUT=0\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"{usual}\"\nGRUB_TERMINAL=console\n"
    );
    put(snapshot, "/etc/default/grub.d/50-cloudimg-settings.cfg", &text);
    put(snapshot, "/boot/grub/grubenv", &environment_block(""));
    for script in ["00_header", "05_debian_theme", "10_linux", "30_os-prober", "40_custom"] {
        snapshot.insert(&format!("/etc/grub.d/{script}"), Node::Present);
    }
    tools(
        snapshot,
        &[
            "sbin/update-grub",
            "sbin/grub-mkconfig",
            "sbin/update-initramfs",
            "bin/grub-script-check",
        ],
    );
    let mut menu = String::from(
        "set default=\"0\"\nif [ -s $prefix/grubenv ]; then\n  set have_grubenv=true\n  load_env\nfi\n\
         if [ \"${next_entry}\" ] ; then\n   set default=\"${next_entry}\"\n   set next_entry=\n   save_env next_entry\n\
         \x20  set boot_once=true\nfi\nset timeout=0\n",
    );
    let newest = &spec.kernel;
    menu += &menu_entry("", "Ubuntu", "gnulinux-simple", newest, &join(&all, usual));
    menu += "submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced' {\n";
    for kernel in kernels(spec) {
        let title = format!("Ubuntu, with Linux {kernel}");
        menu += &menu_entry(
            "\t",
            &title,
            &format!("gnulinux-{kernel}-advanced"),
            kernel,
            &join(&all, usual),
        );
        let recovery = format!("{title} (recovery mode)");
        let line = join("recovery nomodeset dis_ucode_ldr", &all);
        menu += &menu_entry("\t", &recovery, &format!("gnulinux-{kernel}-recovery"), kernel, &line);
    }
    menu += "}\n";
    put(snapshot, "/boot/grub/grub.cfg", &menu);
    join(ROOT, usual)
}

fn menu_entry(indent: &str, title: &str, id: &str, kernel: &str, arguments: &str) -> String {
    format!(
        "{indent}menuentry '{title}' --class gnu-linux --class os $menuentry_id_option '{id}' {{\n\
         {indent}\trecordfail\n{indent}\tinsmod gzio\n{indent}\tsearch --no-floppy --fs-uuid --set=root 6a4d3b2c\n\
         {indent}\tlinux\t/boot/vmlinuz-{kernel} {}\n{indent}\tinitrd\t/boot/initrd.img-{kernel}\n{indent}}}\n",
        join(ROOT, arguments)
    )
}

/// Adds RHEL with BLS entries; on RHEL 8 their options are `$kernelopts` of grubenv.
fn rhel(spec: &HostSpec, snapshot: &mut Snapshot, kernelopts: bool) -> String {
    let usual = "crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M rhgb quiet";
    let arguments = join(usual, &grub_words(&spec.cmdline));
    let line = join(ROOT, &arguments);
    let text = format!(
        "GRUB_TIMEOUT=5\nGRUB_DISTRIBUTOR=\"$(sed 's, release .*$,,g' /etc/system-release)\"\nGRUB_DEFAULT=saved\n\
         GRUB_DISABLE_SUBMENU=true\nGRUB_TERMINAL_OUTPUT=\"console\"\nGRUB_CMDLINE_LINUX=\"{}\"\n\
         GRUB_DISABLE_RECOVERY=\"true\"\nGRUB_ENABLE_BLSCFG=true\n",
        shell_quoted(&arguments)
    );
    put(snapshot, "/etc/default/grub", &text);
    for kernel in kernels(spec) {
        let options = if kernelopts { "$kernelopts $tuned_params" } else { line.as_str() };
        let entry = format!(
            "title Red Hat Enterprise Linux ({kernel})\nversion {kernel}\nlinux /vmlinuz-{kernel}\n\
             initrd /initramfs-{kernel}.img $tuned_initrd\noptions {options}\ngrub_users $grub_users\n\
             grub_arg --unrestricted\ngrub_class rhel\n"
        );
        put(snapshot, &format!("/boot/loader/entries/{MACHINE_ID}-{kernel}.conf"), &entry);
        snapshot.insert(&format!("/boot/initramfs-{kernel}.img"), Node::Present);
    }
    let kernelopts = if kernelopts { format!("kernelopts={line}\n") } else { String::new() };
    let saved = format!("saved_entry={MACHINE_ID}-{}\n{kernelopts}boot_success=0\n", spec.kernel);
    put(snapshot, "/boot/grub2/grubenv", &environment_block(&saved));
    put(
        snapshot,
        "/boot/grub2/grub.cfg",
        "load_env\nset default=\"${saved_entry}\"\ninsmod blscfg\nblscfg\n",
    );
    put(snapshot, "/etc/kernel/cmdline", &format!("{line}\n"));
    tools(
        snapshot,
        &[
            "sbin/grubby",
            "sbin/grub2-mkconfig",
            "bin/grub2-editenv",
            "bin/dracut",
            "bin/kernel-install",
        ],
    );
    join(ROOT, usual)
}

fn suse(spec: &HostSpec, snapshot: &mut Snapshot) -> String {
    let usual = "splash=silent quiet security=apparmor";
    let arguments = join(usual, &grub_words(&spec.cmdline));
    let text = format!(
        "GRUB_DISTRIBUTOR=\nGRUB_DEFAULT=saved\nGRUB_TIMEOUT=8\nGRUB_CMDLINE_LINUX_DEFAULT=\"{}\"\n\
         GRUB_CMDLINE_LINUX=\"\"\nGRUB_TERMINAL=\"gfxterm\"\n",
        shell_quoted(&arguments)
    );
    put(snapshot, "/etc/default/grub", &text);
    put(snapshot, "/etc/sysconfig/bootloader", "LOADER_TYPE=\"grub2-efi\"\nSECURE_BOOT=\"yes\"\n");
    let entry = menu_entry("", "SLES 15-SP6", "gnulinux-simple", &spec.kernel, &arguments);
    put(snapshot, "/boot/grub2/grub.cfg", &format!("set default=\"${{saved_entry}}\"\n{entry}"));
    put(snapshot, "/boot/grub2/grubenv", &environment_block("saved_entry=gnulinux-simple\n"));
    tools(
        snapshot,
        &["sbin/grub2-mkconfig", "sbin/update-bootloader", "bin/dracut", "bin/grub2-editenv"],
    );
    join(ROOT, usual)
}

fn systemd_boot(spec: &HostSpec, snapshot: &mut Snapshot, uki: bool) -> String {
    let usual = "console=ttyS0 quiet";
    let line = join(&join(ROOT, usual), &spec.cmdline);
    put(snapshot, "/etc/kernel/cmdline", &format!("{line}\n"));
    put(
        snapshot,
        "/etc/kernel/install.conf",
        &format!("layout={}\n", if uki { "uki" } else { "bls" }),
    );
    put(snapshot, "/boot/efi/loader/loader.conf", "timeout 3\n");
    for kernel in kernels(spec) {
        if uki {
            snapshot
                .insert(&format!("/boot/efi/EFI/Linux/{MACHINE_ID}-{kernel}.efi"), Node::Present);
            continue;
        }
        let entry = format!(
            "title Debian GNU/Linux 13\nversion {kernel}\nmachine-id {MACHINE_ID}\nsort-key debian\noptions {line}\n\
             linux /{MACHINE_ID}/{kernel}/linux\ninitrd /{MACHINE_ID}/{kernel}/initrd.img-{kernel}\n"
        );
        put(snapshot, &format!("/boot/efi/loader/entries/{MACHINE_ID}-{kernel}.conf"), &entry);
        for file in ["linux".to_owned(), format!("initrd.img-{kernel}")] {
            snapshot.insert(&format!("/boot/efi/{MACHINE_ID}/{kernel}/{file}"), Node::Present);
        }
    }
    tools(snapshot, &["bin/bootctl", "bin/kernel-install", "sbin/update-initramfs"]);
    if spec.running {
        efi_variable(snapshot, "LoaderInfo", "systemd-boot 257.3-1");
        if uki {
            efi_variable(snapshot, "StubInfo", "systemd-stub 257.3-1");
        }
        let kernel = &spec.kernel;
        let suffix = if uki { ".efi" } else { ".conf" };
        efi_variable(snapshot, "LoaderEntrySelected", &format!("{MACHINE_ID}-{kernel}{suffix}"));
    }
    join(ROOT, usual)
}

/// Four bytes of attributes, then UTF-16 with a final NUL.
fn efi_variable(snapshot: &mut Snapshot, name: &str, text: &str) {
    let mut bytes = vec![6, 0, 0, 0];
    bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    snapshot.insert(&format!("/sys/firmware/efi/efivars/{name}-{LOADER_GUID}"), Node::File(bytes));
}

fn ostree(spec: &HostSpec, snapshot: &mut Snapshot, tool: &str) -> String {
    let system = if spec.loader == Loader::Bootc { "default" } else { "fedora-coreos" };
    let usual = format!(
        "console=ttyS0 ignition.platform.id=metal ostree=/ostree/boot.1/{system}/0/0 {ROOT}"
    );
    let kernel = &spec.kernel;
    let entry = format!(
        "title {system} (ostree:0)\nversion 1\noptions {}\nlinux /ostree/{system}/vmlinuz-{kernel}\n\
         initrd /ostree/{system}/initramfs-{kernel}.img\n",
        join(&usual, &spec.cmdline)
    );
    put(snapshot, "/boot/loader.1/entries/ostree-1.conf", &entry);
    for file in [format!("vmlinuz-{kernel}"), format!("initramfs-{kernel}.img")] {
        snapshot.insert(&format!("/boot/ostree/{system}/{file}"), Node::Present);
    }
    snapshot.insert("/boot/loader", Node::Link("loader.1".to_owned()));
    // Based on bootupd's grub-static-pre.cfg and configs.d.
    put(
        snapshot,
        "/boot/grub2/grub.cfg",
        "set pager=1\nsearch --label boot --set boot --no-floppy\nset root=$boot\nif [ -f ${config_directory}/grubenv ]; then\n  \
         load_env -f ${config_directory}/grubenv\nelif [ -s $prefix/grubenv ]; then\n  load_env\nfi\nblscfg\n",
    );
    snapshot.insert("/sysroot/ostree", Node::Dir(None));
    snapshot.insert("/usr/lib/bootc/kargs.d", Node::Dir(None));
    snapshot.insert(tool, Node::Present);
    if spec.running {
        put(snapshot, "/run/ostree-booted", "");
    }
    usual
}
