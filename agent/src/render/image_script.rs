//! Targets `mkosi` and `packer`: a script for an image build that has `bedplate` and runs `apply --root`, which does in the image what
//! it does on a host, and runs the tools that are owed there.

use crate::facts::CpuVendor;
use crate::kind::contribution::Contributions;

use super::agent::{self, Agent};
use super::common::heading;
use super::vf_rules::vfs;
use super::{Options, OutFile, RenderError, Rendered, SCRIPT_MODE};

/// Ends the profile in the script, lengthened until no line of the profile is this word.
const END: &str = "BEDPLATE_PROFILE";

/// mkosi runs `mkosi.postinst` outside of the image, with its root in `BUILDROOT`.
pub(super) fn mkosi(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let mut rendered = script(build, options, "mkosi.postinst", "${BUILDROOT:?mkosi sets it}")?;
    rendered.notes.push(
        "mkosi.postinst runs outside of the image: `bedplate` has to be on the PATH of the build. Where mkosi builds a unified kernel image, its line comes from KernelCommandLine= of mkosi.conf: put the arguments there (`bedplate render kernel-install` shows them)"
            .to_owned(),
    );
    Ok(rendered)
}

/// Packer's shell provisioner runs scripts in the machine of which it makes an image.
pub(super) fn packer(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let mut rendered = script(build, options, "bedplate-provision.sh", "/")?;
    rendered.notes.push(
        "name the script in a `provisioner \"shell\"` block that runs as root (`execute_command = \"sudo sh -c '{{ .Vars }} {{ .Path }}'\"`); `bedplate` has to be installed in the machine"
            .to_owned(),
    );
    Ok(rendered)
}

fn script(
    build: &Contributions,
    options: &Options,
    path: &str,
    root: &str,
) -> Result<Rendered, RenderError> {
    let profile = options.profile_text.as_deref().ok_or(RenderError::NoProfileText)?;
    let cpu = match options.cpu {
        Some(CpuVendor::Intel) => " --cpu intel",
        Some(CpuVendor::Amd) => " --cpu amd",
        Some(CpuVendor::Arm) => " --cpu arm",
        Some(CpuVendor::Other) | None => "",
    };
    let left = vfs(build, "run bedplate on the host").into_iter().chain(agent::of_machine(build));
    let agent = Agent::of(build, options, left.collect());
    let enable = match agent.profile {
        Some(_) => format!(
            "# What no file holds bedplate does on the machine: its package has to be installed in the image.\n\
             {}\n",
            agent::enable("\"$root\"", "--root=\"$root\" ", agent::FAIL)
        ),
        None => String::new(),
    };
    let end = terminator(profile);
    let profile = profile.trim_end_matches('\n');
    let text = format!(
        "#!/bin/sh\n{heading}set -eu\nroot=\"{root}\"\nmkdir -p \"$root/etc/bedplate\"\n\
         cat >\"$root/etc/bedplate/profile.toml\" <<'{end}'\n{heading}{profile}\n{end}\n\
         # Tools of the image (update-grub, dracut …) run inside of it. 3: what is left waits for the boot.\n\
         status=0\n\
         bedplate apply --root \"$root\" --profile \"$root/etc/bedplate/profile.toml\"{cpu} --chroot-tools --yes || status=$?\n\
         case $status in 0 | 3) ;; *) exit \"$status\" ;; esac\n{enable}",
        heading = heading(build, "# "),
    );
    let mut rendered = agent.rest;
    rendered.files.push(OutFile { path: path.to_owned(), mode: SCRIPT_MODE, text });
    rendered.notes.extend(build.notes.iter().cloned());
    if cpu.is_empty() {
        rendered.notes.push("an image has no CPU of its own: render with --cpu, or for a host, so that the script names the vendor".to_owned());
    }
    Ok(rendered)
}

/// A word that no line of `text` is: whatever stands in a profile stays text.
fn terminator(text: &str) -> String {
    let mut end = END.to_owned();
    while text.lines().any(|line| line.trim_end() == end) {
        end.push('_');
    }
    end
}
