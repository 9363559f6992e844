//! Target `grub`: the Debian family's drop-in, and the files below /etc. `grub_rhel` is the variant for RHEL.

use bedplate_cmdline::Token;
use bedplate_cmdline::boot::grub_default::{CMDLINE_DEFAULT, write_drop_in};
use bedplate_core::image_config::ImageConfig;

use super::agent::{self, Agent};
use super::common::{
    Unsupported, files, grub_words, in_shell_single_quotes, kernel_arguments, preamble,
    uses_modprobe,
};
use super::vf_rules::vfs;
use super::{GrubFamily, Options, OutFile, RenderError, RenderResult, Target, grub_rhel};

/// Sorts after the file of cloud images (`50-cloudimg-settings.cfg`), so that it takes effect last.
const DROP_IN: &str = "etc/default/grub.d/zz-bedplate.cfg";

/// The menu that `update-grub` writes.
const MENU: &str = "/boot/grub/grub.cfg";

pub(crate) const TARGET: Target = Target::new(
    "grub",
    "GRUB settings, module and sysctl files for a Debian or RHEL family image",
    &[
        "bedplate-grubby.sh",
        "default-grub.append",
        DROP_IN,
        "etc/modprobe.d/zz-bedplate.conf",
        "etc/modules-load.d/bedplate.conf",
        "etc/sysctl.d/zz-bedplate.conf",
        "etc/systemd/system/{service}.service.d/zz-bedplate.conf",
        "etc/security/limits.d/zz-bedplate.conf",
        "etc/nccl.conf",
        "etc/cufile.json",
        "etc/bedplate/profile.toml",
        "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
    ],
    render,
)
.by_family();

pub(super) fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = boot(build, options)?;
    rendered.notes.extend(not_removed(build, options));
    rendered.files.extend(files(build));
    let vfs = vfs(
        build,
        "run `bedplate apply` at every boot of the host, or let the SR-IOV network operator manage the PF",
    );
    let agent =
        Agent::with_rest(build, options, vfs.into_iter().chain(agent::of_machine(build)).collect());
    rendered.files.extend(agent.files(build));
    rendered.add(agent.rest);
    rendered.notes.extend(build.notes.iter().cloned());
    if uses_modprobe(build) {
        rendered.notes.push(match options.grub_family {
            GrubFamily::Debian => rebuild_note("update-initramfs -u -k all"),
            GrubFamily::Rhel => rebuild_note("dracut -f --regenerate-all"),
        });
    }
    Ok(rendered)
}

/// Renders only the kernel arguments.
pub(super) fn boot(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let tokens = kernel_arguments(build, options.arch)?;
    match options.grub_family {
        GrubFamily::Debian => debian(build, &tokens),
        GrubFamily::Rhel => grub_rhel::render(build, &tokens),
    }
}

/// Returns lines of a shell script that exit with status 0 if the boot entries have the arguments: on Debian an entry
/// of a menu written after the drop-in, on RHEL the default entry.
///
/// # Errors
/// Errors of [`boot`].
pub(super) fn entry_test(build: &ImageConfig, options: &Options) -> Result<String, RenderError> {
    let tokens = kernel_arguments(build, options.arch)?;
    match options.grub_family {
        GrubFamily::Debian => {
            // The drop-in adds them as one contiguous text.
            let words = format!(" {} ", grub_words(&tokens)?.join(" "));
            let words = in_shell_single_quotes(&words);
            Ok(format!(
                "sed -n 's/^[[:space:]]*linux.*/& /p' {MENU} | grep -qF -- {words} || exit 1\n\
                 [ -n \"$(find {MENU} -newer /{DROP_IN})\" ] || exit 1\n"
            ))
        }
        GrubFamily::Rhel => grub_rhel::entry_test(build, &tokens),
    }
}

fn rebuild_note(command: &str) -> String {
    format!(
        "options of modules in the initramfs take effect only after a rebuild: run `{command}` in the image \
        (initramfs-tools(7), dracut(8); handbook §9)"
    )
}

fn debian(build: &ImageConfig, tokens: &[Token]) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    if !tokens.is_empty() {
        // `_DEFAULT`: recovery entries do not get the arguments.
        let text = write_drop_in(CMDLINE_DEFAULT, tokens, &preamble(build, ""))?;
        rendered.files.push(OutFile::new(DROP_IN, text));
        rendered.notes.push(
            "run `update-grub` in the image; the arguments take effect at the next boot".to_owned(),
        );
    }
    Ok(rendered)
}

/// Returns a note about forbidden arguments that are not removed.
pub(super) fn not_removed(build: &ImageConfig, options: &Options) -> Option<String> {
    match options.grub_family {
        // A drop-in appends to the values read before it; removing an argument would need code that runs at every
        // `update-grub`.
        GrubFamily::Debian => DROP_IN_ADDS.not_removed(build.absent_tokens()),
        GrubFamily::Rhel => grub_rhel::not_removed(build),
    }
}

const DROP_IN_ADDS: Unsupported = Unsupported {
    why: "a drop-in in grub.d can only extend GRUB_CMDLINE_LINUX_DEFAULT",
    instead: "remove it from /etc/default/grub and the files before zz-bedplate.cfg, or run `bedplate apply --root` \
    on the image",
};

#[cfg(test)]
mod tests {
    use super::super::common::tests::{arg, build, desired, empty_desired, with_profile};
    use super::*;

    #[test]
    fn debian_drop_in_appends_quoted_words_with_reasons() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        assert_eq!(
            rendered.file(DROP_IN).unwrap().text,
            "# written by bedplate from profile hgx; changes made here are overwritten\n\
             # iommu=pt: a reason [handbook §1]\n\
             # pci=realloc: a reason [handbook §1]\n\
             # hugepages=64: a reason [handbook §1]\n\
             # pci=config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0: a reason [handbook §1]\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt \
             pci=realloc,config_acs=\\\"xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0\\\" hugepages=64\"\n"
        );
        let paths: Vec<&str> = rendered.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [DROP_IN, "etc/modules-load.d/bedplate.conf", "etc/modprobe.d/zz-bedplate.conf"]
        );
        assert!(rendered.notes.iter().any(|note| note.contains("update-initramfs")));
    }

    #[test]
    fn drop_in_notes_arguments_it_cannot_remove() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        assert!(rendered.notes.iter().any(|note| note.contains(": `nomodeset`, `iommu=off` (")));
    }

    #[test]
    fn argument_that_grub_would_change_is_rejected() {
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg("x=it's"));
        let error = render(&build(&desired), &Options::default()).unwrap_err();
        assert!(matches!(error, RenderError::Grub(_)), "{error}");
    }

    #[test]
    fn sysctls_are_rendered_as_host_file() {
        let sections = "[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";
        for grub_family in [GrubFamily::Debian, GrubFamily::Rhel] {
            let options = Options { grub_family, ..Options::default() };
            let rendered = render(&with_profile(sections, &empty_desired()), &options).unwrap();
            let [file] = rendered.files.as_slice() else { panic!("{rendered:?}") };
            assert_eq!(file.path, "etc/sysctl.d/zz-bedplate.conf");
            assert!(file.text.ends_with("\nkernel.numa_balancing = 0\n"), "{}", file.text);
            assert_eq!(rendered.inexpressible, []);
        }
    }
}
