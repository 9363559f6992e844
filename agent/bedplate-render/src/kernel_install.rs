//! Target `kernel-install`: a script that adds the arguments to /etc/kernel/cmdline. That file is the whole line,
//! including `root=`, so it must be edited in place (kernel-install(8); handbook §10.3).

use bedplate_cmdline::Token;
use bedplate_core::image_config::ImageConfig;

use super::agent::Agent;
use super::common::{
    Unsupported, files, in_shell_single_quotes, kernel_arguments, preamble, removals, uses_modprobe,
};
use super::{Options, OutFile, RenderError, RenderResult, SCRIPT_MODE, Target, udev};

const SCRIPT: &str = "bedplate-kernel-cmdline.sh";

const BLANKS: Unsupported = Unsupported {
    why: "kernel-install splits the line at blanks, even quoted ones",
    instead: "set module parameters in [modules.options]",
};

pub(crate) const TARGET: Target = Target::new(
    "kernel-install",
    "script for /etc/kernel/cmdline (systemd-boot, unified kernel images), module, sysctl and udev files",
    &[
        SCRIPT,
        "etc/modprobe.d/zz-bedplate.conf",
        "etc/modules-load.d/bedplate.conf",
        "etc/sysctl.d/zz-bedplate.conf",
        "etc/systemd/system/{service}.service.d/zz-bedplate.conf",
        "etc/security/limits.d/zz-bedplate.conf",
        "etc/nccl.conf",
        "etc/cufile.json",
        "etc/udev/rules.d/70-bedplate-sriov.rules",
        "etc/bedplate/profile.toml",
        "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
    ],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let (lost, tokens): (Vec<Token>, Vec<Token>) = kernel_arguments(build, options.arch)?
        .into_iter()
        .partition(|token| token.as_str().contains(' '));
    let mut rendered = RenderResult::default();
    rendered.inexpressible.extend(lost.iter().map(|token| BLANKS.argument(token)));
    let (removed, parts) = removals(build);
    rendered.notes.extend(parts);
    if !tokens.is_empty() || !removed.is_empty() {
        let text = script(build, &tokens, &removed);
        rendered.files.push(OutFile { path: SCRIPT.to_owned(), mode: SCRIPT_MODE, text });
        rendered.notes.push(format!(
            "run `{SCRIPT} ROOT` (ROOT: the image's directory; omit it inside the image), then `kernel-install add \
            VERSION /lib/modules/VERSION/vmlinuz` in the image for each kernel"
        ));
        rendered.notes.push(
            "a unified kernel image contains the line: rebuild it (kernel-install with layout=uki, or ukify); under \
            Secure Boot its stub ignores arguments from the boot loader (systemd-stub(7); handbook §10.4)"
                .to_owned(),
        );
        rendered.notes.push(
            "the arguments are not quoted for GRUB: if GRUB reads the boot entries (RHEL, Fedora), render `grub --family rhel`"
                .to_owned(),
        );
    }
    let agent = Agent::of_image(build, options);
    rendered
        .files
        .extend(files(build).chain(udev::rules(build, options)).chain(agent.files(build)));
    rendered.add(agent.rest);
    if uses_modprobe(build) {
        rendered.notes.push(
            "options of modules in the initramfs take effect only after a rebuild, which kernel-install does (handbook §9)"
                .to_owned(),
        );
    }
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

fn script(build: &ImageConfig, tokens: &[Token], removed: &[String]) -> String {
    let mut patterns: Vec<String> = Vec::new();
    for token in tokens {
        // Unmanaged `pci=` arguments stay, because suboptions add up. For all other parameters, the profile owns the
        // name.
        let pattern = match token.name().as_ref() {
            "pci" => in_shell_single_quotes(token.as_str()),
            name => with_any_value(name),
        };
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    for token in removed {
        patterns.push(match token.contains('=') {
            true => in_shell_single_quotes(token),
            false => with_any_value(token),
        });
    }
    let line: Vec<&str> = tokens.iter().map(Token::as_str).collect();
    let has_acs = line.iter().any(|token| ACS_LISTS.iter().any(|list| token.contains(list)));
    format!(
        "#!/bin/sh\n{}{SCRIPT_HEAD}    {}) ;;\n{}{}ours={}\n{SCRIPT_TAIL}",
        preamble(build, "# "),
        patterns.join(" | "),
        if has_acs { EARLIER_LISTS } else { "" },
        "    *) kept=\"$kept $word\" ;;\n  esac\ndone\n",
        in_shell_single_quotes(&line.join(" ")),
    )
}

/// Returns a pattern for a name, alone or with a value; `-` and `_` are the same in it (handbook §1.1).
fn with_any_value(name: &str) -> String {
    let name: Vec<String> = name.split(['-', '_']).map(in_shell_single_quotes).collect();
    let name = name.join("[-_]");
    format!("{name} | {name}=*")
}

/// Suboptions of `pci=`; a list of one replaces that of the other.
const ACS_LISTS: [&str; 2] = ["disable_acs_redir=", "config_acs="];

/// Matches a list of an earlier build, alone in its argument.
const EARLIER_LISTS: &str =
    "    'pci=disable_acs_redir='*,* | 'pci=config_acs='*,*) kept=\"$kept $word\" ;;
    'pci=disable_acs_redir='* | 'pci=config_acs='*) ;;
";

/// `bedplate-added` records the arguments that an earlier build added; they are replaced. `set -f`: no word of the line
/// is a file name pattern. Arguments after `--` belong to init.
const SCRIPT_HEAD: &str = r#"set -euf
root=${1:-}
file=$root/etc/kernel/cmdline
record=$root/etc/kernel/bedplate-added
for path in "$file" "$record" "$root/usr/lib/kernel/cmdline"; do
  if [ -n "$root" ] && [ -L "$path" ]; then
    echo "$0: $path is a link, which may lead out of $root; replace it with a file first" >&2
    exit 1
  fi
done
added=
if [ -e "$record" ]; then
  added=$(cat "$record")
fi
if [ -e "$file" ]; then
  line=$(cat "$file")
elif [ -e "$root/usr/lib/kernel/cmdline" ]; then
  line=$(cat "$root/usr/lib/kernel/cmdline")
else
  echo "$0: no $file: kernel-install would use the command line of the build machine;" \
    "write a line with root= there first" >&2
  exit 1
fi
# Exactly one blank between words.
set -- $line
line=$*
set -- $added
added=$*
kept= tail=
for word in $line; do
  if [ -n "$tail" ] || [ "$word" = -- ]; then
    tail="$tail $word"
    continue
  fi
  case " $added " in *" $word "*) continue ;; esac
  case $word in
"#;

const SCRIPT_TAIL: &str = r#"new=
for word in $ours; do
  case " $kept $line " in
    *" $word "*) case " $added " in *" $word "*) new="$new $word" ;; esac ;;
    *) new="$new $word" ;;
  esac
done
set -- $kept $ours $tail
mkdir -p "$root/etc/kernel"
if [ -e "$file" ]; then
  cp -p "$file" "$file.bedplate"
fi
printf '%s\n' "$*" >"$file.bedplate"
# If interrupted here, the record lists too many rather than too few of the added arguments.
set -- $added $new
printf '%s\n' "$*" >"$record.bedplate"
mv "$record.bedplate" "$record"
mv "$file.bedplate" "$file"
set -- $new
printf '%s\n' "$*" >"$record.bedplate"
mv "$record.bedplate" "$record"
"#;
