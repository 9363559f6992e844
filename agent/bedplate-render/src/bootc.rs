//! Target `bootc`: a kargs.d file, configuration files, and Containerfile lines that copy them into the image.

use serde::Serialize;

use bedplate_base::Arch;
use bedplate_cmdline::Token;
use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::cmdline::BOOTC_KARGS;

use super::agent::{self, Agent};
use super::common::{
    Unsupported, files, grub_words, heading, kernel_arguments, preamble, uses_modprobe,
};
use super::{Options, OutFile, RenderError, RenderResult, Target, udev};

const CONTAINERFILE: &str = "Containerfile.bedplate";

/// Parameters that only x86 reads: other kernels would pass them to init.
const X86_ONLY: [&str; 3] = ["iommu", "intel_iommu", "amd_iommu"];

const ABSENT: Unsupported = Unsupported {
    why: "kargs.d files can only add arguments",
    instead: "remove it from the base image's kargs.d file; on a host, run `rpm-ostree kargs --delete`",
};

/// File format of bootc, which rejects other keys.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Kargs {
    kargs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_architectures: Vec<&'static str>,
}

pub(crate) const TARGET: Target = Target::new(
    "bootc",
    "bootc kargs.d file, module, sysctl and udev files, Containerfile lines",
    &[
        CONTAINERFILE,
        "usr/lib/bootc/kargs.d/50-bedplate.toml",
        "usr/lib/modprobe.d/zz-bedplate.conf",
        "usr/lib/modules-load.d/bedplate.conf",
        "usr/lib/sysctl.d/zz-bedplate.conf",
        "etc/systemd/system/{service}.service.d/zz-bedplate.conf",
        "etc/security/limits.d/zz-bedplate.conf",
        "etc/nccl.conf",
        "etc/cufile.json",
        "usr/lib/udev/rules.d/70-bedplate-sriov.rules",
        "etc/bedplate/profile.toml",
        // Of earlier versions.
        "etc/modprobe.d/zz-bedplate.conf",
        "etc/modules-load.d/bedplate.conf",
        "etc/sysctl.d/zz-bedplate.conf",
        "etc/udev/rules.d/70-bedplate-sriov.rules",
    ],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let tokens = kernel_arguments(build, options.arch)?;
    let mut rendered = RenderResult::default();
    if !tokens.is_empty() {
        let kargs = Kargs {
            // bootc passes each text on verbatim, and GRUB reads the boot entry as script (handbook §10.1).
            kargs: grub_words(&tokens)?,
            match_architectures: architectures(&tokens, options.arch),
        };
        let text = format!("{}{}", preamble(build, "# "), toml::to_string(&kargs)?);
        rendered.files.push(OutFile::new(BOOTC_KARGS.trim_start_matches('/'), text));
        rendered.notes.push(
            "arguments with special characters are quoted for GRUB; remove the quotes in images booted by \
            systemd-boot (handbook §10.1)"
                .to_owned(),
        );
    }
    let agent = Agent::of_image(build, options);
    rendered.files.extend(files(build).chain(udev::rules(build, options)).map(in_usr));
    rendered.files.extend(agent.profile.iter().cloned());
    if !rendered.files.is_empty() {
        let text = containerfile(build, &rendered.files, agent.profile.is_some());
        rendered.files.push(OutFile::new(CONTAINERFILE, text));
        rendered
            .notes
            .push(format!("add the lines of {CONTAINERFILE} to the Containerfile of the image"));
    }
    rendered.add(agent.rest);
    if uses_modprobe(build) {
        rendered.notes.push(
            "options of modules in the initramfs take effect only after a rebuild: run `dracut --force --no-hostonly \
            --add ostree /usr/lib/modules/RELEASE/initramfs.img RELEASE` in the image build (dracut(8); handbook §9)"
                .to_owned(),
        );
    }
    rendered.notes.extend(ABSENT.not_removed(build.absent_tokens()));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// Moves a file below /usr if possible. /etc belongs to the machine from its first boot on, and image updates reach
/// only /usr (bootc, filesystem.md). Files that are read only in /etc stay there.
fn in_usr(file: OutFile) -> OutFile {
    let path = match file.path.strip_prefix("etc/udev/") {
        Some(rest) => format!("usr/lib/udev/{rest}"),
        None => match file.path.strip_prefix("etc/") {
            Some(rest) if IN_USR.iter().any(|directory| rest.starts_with(directory)) => {
                format!("usr/lib/{rest}")
            }
            _ => file.path,
        },
    };
    OutFile { path, ..file }
}

/// Directories that are also read below /usr/lib.
const IN_USR: [&str; 3] = ["modprobe.d/", "modules-load.d/", "sysctl.d/"];

/// Returns the architectures, by Rust's names, if an argument has a meaning on one architecture only.
fn architectures(tokens: &[Token], arch: Arch) -> Vec<&'static str> {
    let names: Vec<String> = tokens.iter().map(Token::folded_name).collect();
    let any = |is: &dyn Fn(&str) -> bool| names.iter().any(|name| is(name));
    match arch {
        Arch::X86_64 if any(&|name| X86_ONLY.contains(&name)) => vec!["x86_64"],
        Arch::Aarch64 if any(&|name| ARM.iter().any(|start| name.starts_with(start))) => {
            vec!["aarch64"]
        }
        _ => Vec::new(),
    }
}

/// Prefixes of parameters set for Arm's IOMMU; x86 has other parameters.
const ARM: [&str; 2] = ["iommu.", "arm_smmu"];

fn containerfile(build: &ImageConfig, files: &[OutFile], agent: bool) -> String {
    let mut text = heading(build, "# ");
    for top in ["usr", "etc"] {
        if files.iter().any(|file| file.path.starts_with(&format!("{top}/"))) {
            text.push_str(&format!("COPY {top}/ /{top}/\n"));
        }
    }
    if agent {
        text.push_str("# bedplate applies deferred settings on the machine: install its package before this.\n");
        text.push_str(&format!("RUN {}\n", agent::enable("", "", agent::FAIL)));
    }
    text.push_str("RUN bootc container lint\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{arg, build, empty_desired};
    use super::*;

    fn body(token: &str, arch: Arch) -> String {
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg(token));
        let options = Options { arch, ..Options::default() };
        let rendered = render(&build(&desired), &options).unwrap();
        let text = &rendered.files[0].text;
        assert_eq!(rendered.files[1].text.lines().nth(1), Some("COPY usr/ /usr/"));
        text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn architecture_specific_arguments_are_restricted() {
        assert_eq!(
            body("iommu=pt", Arch::X86_64),
            "kargs = [\"iommu=pt\"]\nmatch-architectures = [\"x86_64\"]"
        );
        assert_eq!(body("quiet", Arch::X86_64), "kargs = [\"quiet\"]");
        assert_eq!(
            body("iommu.passthrough=1", Arch::Aarch64),
            "kargs = [\"iommu.passthrough=1\"]\nmatch-architectures = [\"aarch64\"]"
        );
        assert_eq!(body("quiet", Arch::Aarch64), "kargs = [\"quiet\"]");
    }
}
