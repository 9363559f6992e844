//! Targets `mkosi` and `packer`: a script for an image build with `bedplate`, which runs `apply --root` to configure
//! the image like a host. mkosi itself writes the kernel command line and the initrd, so it gets the arguments in a
//! separate file.

use bedplate_base::CpuVendor;
use bedplate_cmdline::Token;
use bedplate_cmdline::boot::grub_quote::grub_token;
use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::cmdline;

use super::agent::{self, Agent};
use super::common::{Unsupported, heading, kernel_arguments, preamble};
use super::vf_rules::vfs;
use super::{Options, OutFile, RenderError, RenderResult, SCRIPT_MODE, Target};

/// Ends the profile in the script; lengthened until no line of the profile equals it.
const END: &str = "BEDPLATE_PROFILE";

/// Drop-in that mkosi (15 and later) reads after mkosi.conf.
const MKOSI_CONF: &str = "mkosi.conf.d/50-bedplate.conf";

const NOT_WRITTEN: Unsupported = Unsupported {
    why: "mkosi reads `#` as the start of a comment, and joins words with one blank",
    instead: "choose a value without these",
};

const ABSENT: Unsupported = Unsupported {
    why: "KernelCommandLine= can only add arguments",
    instead: "remove it from KernelCommandLine= in mkosi.conf, or from etc/kernel/cmdline and usr/lib/kernel/cmdline",
};

/// Differences between image builds.
struct Build<'a> {
    /// Path of the script.
    script: &'a str,
    /// Root of the image, as a word of the shell.
    root: &'a str,
    /// Additional options of `apply`.
    options: &'a str,
    /// Comment above `apply`.
    comment: &'a str,
    /// Lines after `apply` that handle its exit status.
    on_exit: &'a str,
}

pub(crate) const MKOSI: Target = Target::new(
    "mkosi",
    "mkosi.conf.d file with the kernel arguments, mkosi.postinst script that runs `bedplate apply --root`",
    &[MKOSI_CONF, "mkosi.postinst"],
    mkosi,
);

/// Renders target `mkosi`, which runs `mkosi.postinst` outside of the image, with the image's root in `BUILDROOT`.
fn mkosi(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let without = format!(" --without {}", cmdline::NAME);
    let script = Build {
        script: "mkosi.postinst",
        root: "${BUILDROOT:?mkosi sets it}",
        options: &without,
        comment: "# The kernel command line is in mkosi.conf.d; mkosi creates boot entries and its initrd after this script.",
        on_exit: MKOSI_ON_EXIT,
    };
    let mut rendered = script.render(build, options)?;
    rendered.notes.push(
        "mkosi.postinst runs outside of the image: `bedplate` must be on the PATH of the build"
            .to_owned(),
    );
    let (tokens, lost): (Vec<Token>, Vec<Token>) =
        kernel_arguments(build, options.arch)?.into_iter().partition(is_carried);
    rendered.inexpressible.extend(lost.iter().map(|token| NOT_WRITTEN.argument(token)));
    rendered.notes.extend(ABSENT.not_removed(build.absent_tokens()));
    if !tokens.is_empty() {
        rendered.notes.push(
            "mkosi before 24 sets console=ttyS0 only if KernelCommandLine= is not set; add it to mkosi.conf if needed".to_owned(),
        );
        if tokens.iter().any(|token| token.as_str().contains(';')) {
            rendered.notes.push(
                "mkosi 16 to 24 reads `;` as the start of a comment; build with mkosi 25 or later"
                    .to_owned(),
            );
        }
        let is_special = |token: &Token| grub_token(token).ok().as_deref() != Some(token.as_str());
        if tokens.iter().any(is_special) {
            rendered.notes.push(
                "with Bootloader=grub, GRUB parses the line as script and removes quotes and `;` (handbook §10.1); \
                build unified kernel images or boot entries for systemd-boot".to_owned(),
            );
        }
        rendered.files.insert(0, OutFile::new(MKOSI_CONF, conf(build, &tokens)));
    }
    Ok(rendered)
}

/// Whether mkosi passes an argument on unchanged: it splits at blanks, ignores quotes, and joins the words again.
fn is_carried(token: &Token) -> bool {
    let text = token.as_str();
    !text.contains('#') && !text.contains("  ") && !text.contains(|c: char| c.is_control())
}

fn conf(build: &ImageConfig, tokens: &[Token]) -> String {
    // `%` starts a specifier. With one argument per line, one that mkosi truncates does not affect the others.
    let words: Vec<String> = tokens.iter().map(|token| token.as_str().replace('%', "%%")).collect();
    format!("{}[Content]\nKernelCommandLine={}\n", preamble(build, "# "), words.join("\n    "))
}

pub(crate) const PACKER: Target = Target::new(
    "packer",
    "script for Packer's shell provisioner that runs `bedplate apply --root /`",
    &["bedplate-provision.sh"],
    packer,
);

/// Packer's shell provisioner runs scripts in the machine that it turns into an image.
fn packer(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let script = Build {
        script: "bedplate-provision.sh",
        root: "/",
        options: " --chroot-tools",
        comment: "# Tools of the image (update-grub, dracut …) run inside it.",
        on_exit: PACKER_ON_EXIT,
    };
    let mut rendered = script.render(build, options)?;
    rendered.notes.push(
        "use the script in a `provisioner \"shell\"` block that runs as root (`execute_command = \"sudo sh -c '{{ \
        .Vars }} {{ .Path }}'\"`); install `bedplate` in the machine first"
            .to_owned(),
    );
    Ok(rendered)
}

/// mkosi writes boot entries and its initrd after the script, so pending tools are not an error.
const MKOSI_ON_EXIT: &str = r#"# 3: the rest is pending until boot. 6: the image is written, and tools must still run in it.
case $status in
  0 | 3) ;;
  6) echo "$0: still to be run in the image: the tools listed above" >&2 ;;
  *) exit "$status" ;;
esac
"#;

/// Packer runs nothing after the script: if tools are pending, the image may not boot as the profile requires.
const PACKER_ON_EXIT: &str = r#"# 3: the rest is pending until boot. 6: the tools listed above must still run in the image, and the build fails.
case $status in
  0 | 3) ;;
  *) exit "$status" ;;
esac
"#;

impl Build<'_> {
    fn render(&self, build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
        let profile = options.profile_text.as_deref().ok_or_else(|| {
            let why = "the target needs the text of the profile, which was not given";
            RenderError::Refused(why.to_owned())
        })?;
        let cpu = match options.cpu {
            Some(CpuVendor::Intel) => " --cpu intel",
            Some(CpuVendor::Amd) => " --cpu amd",
            Some(CpuVendor::Arm) => " --cpu arm",
            Some(CpuVendor::Other) | None => "",
        };
        let left = vfs(build, "run bedplate on the host").into_iter();
        let agent =
            Agent::with_rest(build, options, left.chain(agent::of_machine(build)).collect());
        let mut rendered = agent.rest;
        let text = self.text(build, profile, cpu, agent.profile.is_some());
        let path = self.script.to_owned();
        rendered.files.push(OutFile { path, mode: SCRIPT_MODE, text });
        rendered.notes.extend(build.notes.iter().cloned());
        if cpu.is_empty() {
            rendered.notes.push("an image has no CPU: render with --cpu, or for a host, so that the script names the vendor".to_owned());
        }
        Ok(rendered)
    }

    fn text(&self, build: &ImageConfig, profile: &str, cpu: &str, has_agent: bool) -> String {
        let Build { root, options, comment, on_exit, .. } = self;
        let enable = match has_agent {
            true => format!(
                "# bedplate applies deferred settings on the machine: install its package in the image.\n{}\n",
                agent::enable("\"$root\"", "--root=\"$root\" ", agent::FAIL)
            ),
            false => String::new(),
        };
        let end = terminator(profile);
        let profile = profile.trim_end_matches('\n');
        format!(
            "#!/bin/sh\n{heading}set -eu\nroot=\"{root}\"\nmkdir -p \"$root/etc/bedplate\"\n\
             cat >\"$root/etc/bedplate/profile.toml\" <<'{end}'\n{heading}{profile}\n{end}\n\
             {comment}\nstatus=0\n\
             bedplate apply --root \"$root\" --profile \"$root/etc/bedplate/profile.toml\"{cpu}{options} --yes || status=$?\n\
             {on_exit}{enable}",
            heading = heading(build, "# "),
        )
    }
}

/// Returns a word that does not equal any line of `text`, so that no profile can end the here-document.
fn terminator(text: &str) -> String {
    let mut end = END.to_owned();
    while text.lines().any(|line| line.trim_end() == end) {
        end.push('_');
    }
    end
}
