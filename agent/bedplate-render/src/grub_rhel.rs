//! The RHEL variant of target `grub`: grubby changes BLS entries, and /etc/default/grub.d is not read (handbook §10.3).
//! Renders a script for the image build, and a line for /etc/default/grub.

use super::common::{
    Unsupported, argument_id, grub_words, heading, in_shell_single_quotes, preamble,
};
use super::{Inexpressible, OutFile, RenderError, RenderResult, SCRIPT_MODE};
use bedplate_cmdline::Token;
use bedplate_cmdline::boot::grub_default::{CMDLINE, write_drop_in};
use bedplate_core::image_config::ImageConfig;

pub(super) const SCRIPT: &str = "bedplate-grubby.sh";
pub(super) const APPEND: &str = "default-grub.append";
/// Command line of kernels that are installed later.
const KERNEL_CMDLINE: &str = "/etc/kernel/cmdline";

pub(super) fn render(build: &ImageConfig, tokens: &[Token]) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    let (carried, lost): (Vec<Token>, Vec<Token>) = tokens.iter().cloned().partition(is_carried);
    rendered.inexpressible.extend(lost.iter().filter_map(lost_argument));
    let words = grub_words(&carried)?.join(" ");
    let (removed, _) = removable(build);
    if !words.is_empty() {
        rendered
            .files
            .push(OutFile::new(APPEND, write_drop_in(CMDLINE, &carried, &heading(build, ""))?));
        rendered.notes.push(format!(
            "append {APPEND} once to /etc/default/grub, before the script runs, for kernels installed later"
        ));
    }
    if !words.is_empty() || !removed.is_empty() {
        let has_all = argument_tests(&carried, &removed)?;
        let text = script(&words, &removed.join(" "), &has_all, &preamble(build, "# "));
        rendered.files.push(OutFile { path: SCRIPT.to_owned(), mode: SCRIPT_MODE, text });
        rendered.notes.push(format!(
            "run {SCRIPT} in the image after its kernel is installed; it changes every boot entry"
        ));
    }
    if carried.iter().any(|token| token.name() == "pci") {
        rendered.notes.push(
            "grubby may delete every other `pci=` argument when it adds one: move the image's own `pci=` settings \
            into the profile (grubby(8); handbook §10.3)"
                .to_owned(),
        );
    }
    Ok(rendered)
}

fn is_carried(token: &Token) -> bool {
    grubby_mangles(token.as_str()).is_none()
}

/// Returns lines of a shell script that exit with status 0 if the default boot entry matches the result of [`SCRIPT`].
///
/// # Errors
/// [`RenderError::Grub`].
pub(super) fn entry_test(build: &ImageConfig, tokens: &[Token]) -> Result<String, RenderError> {
    let carried: Vec<Token> = tokens.iter().filter(|token| is_carried(token)).cloned().collect();
    let read = "info=$(grubby --info=DEFAULT) || exit 1\n\
                args=$(printf '%s\\n' \"$info\" | sed -n 's/^args=\"\\(.*\\)\"$/\\1/p')\n\
                [ -n \"$args\" ] || exit 1\n";
    Ok(read.to_owned() + &argument_tests(&carried, &removable(build).0)?)
}

/// Returns lines of a shell script that exit with status 1 unless `$args` has these arguments and none of the `removed`.
fn argument_tests(carried: &[Token], removed: &[String]) -> Result<String, RenderError> {
    let wanted = grub_words(carried)?;
    let wanted = wanted.iter().map(|word| {
        let word = in_shell_single_quotes(word);
        format!("case \" $args \" in *\" \"{word}\" \"*) ;; *) exit 1 ;; esac\n")
    });
    let removed = removed.iter().map(|word| {
        let quoted = in_shell_single_quotes(word);
        // grubby removes a name with any value.
        let valued = match word.contains('=') {
            true => String::new(),
            false => format!(" | *\" \"{quoted}=*"),
        };
        format!("case \" $args \" in *\" \"{quoted}\" \"*{valued}) exit 1 ;; esac\n")
    });
    Ok(wanted.chain(removed).collect())
}

/// Returns the script. With `--no-etc-grub-update`, because grubby would copy the quotes into /etc/default/grub without
/// the backslashes that a shell script needs there, and `;` would start a command the next time it is sourced. It goes
/// last, behind the option that it qualifies. Afterwards /etc/kernel/cmdline is newer than /etc/default/grub; otherwise
/// the next installation of a kernel would drop the arguments that only /etc/kernel/cmdline has (handbook §10.3). A
/// file that had all arguments and was older stays older, as in `bedplate apply`: an operator has edited
/// /etc/default/grub since, and that edit must reach it.
fn script(words: &str, removed: &str, has_all: &str, preamble: &str) -> String {
    let mut command = "grubby --update-kernel=ALL".to_owned();
    for (option, value) in [("--remove-args", removed), ("--args", words)] {
        if !value.is_empty() {
            command.push_str(&format!(" {option}={}", in_shell_single_quotes(value)));
        }
    }
    format!(
        "#!/bin/sh\n{preamble}set -eu\n\
         # Whether {KERNEL_CMDLINE} has all arguments, and /etc/default/grub was edited since.\n\
         is_outdated() (\n\
         [ -n \"$(find /etc/default/grub -newer {KERNEL_CMDLINE} 2>/dev/null)\" ] || exit 1\n\
         args=$(cat {KERNEL_CMDLINE})\n{has_all})\n\
         age=now\nif is_outdated; then age=@0; fi\n\
         {command} --no-etc-grub-update\ntouch -c -d \"$age\" {KERNEL_CMDLINE}\n"
    )
}

/// Returns the reason why grubby (a shell script around sed) would change an argument.
fn grubby_mangles(token: &str) -> Option<&'static str> {
    match token {
        _ if token.contains(' ') => Some("grubby splits arguments at blanks, even quoted ones"),
        _ if token.contains('&') => Some("grubby passes its arguments to sed, which replaces `&`"),
        _ if token.contains(['$', '*', '?', '[']) => {
            Some("grubby lets the shell expand its arguments")
        }
        _ => None,
    }
}

fn lost_argument(token: &Token) -> Option<Inexpressible> {
    grubby_mangles(token.as_str()).map(|why| Inexpressible {
        id: argument_id(token),
        what: format!("kernel argument `{token}`"),
        why: why.to_owned(),
        instead: "set module parameters in [modules.options]; add other arguments to the `options` line of the boot \
        entries by hand"
            .to_owned(),
    })
}

/// Returns the arguments that grubby can remove (a name with any value, or a whole argument), and those that it cannot.
fn removable(build: &ImageConfig) -> (Vec<String>, Vec<&str>) {
    let (removed, kept): (Vec<&str>, Vec<&str>) = build
        .absent_tokens()
        .partition(|token| grubby_mangles(token).is_none() && !token.starts_with("pci="));
    (removed.into_iter().map(str::to_owned).collect(), kept)
}

/// Returns a note about arguments that are not removed.
pub(super) fn not_removed(build: &ImageConfig) -> Option<String> {
    let elsewhere = Unsupported {
        why: "grubby removes only whole arguments, not parts of `pci=`, and splits at blanks",
        instead: "run `bedplate apply --root` on the image, or remove it from the boot entries by hand",
    };
    elsewhere.not_removed(removable(build).1.into_iter())
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{arg, build, desired, empty_desired};
    use super::super::grub;
    use super::super::{GrubFamily, Options};
    use super::*;

    fn rhel(desired: &bedplate_core::desired::Desired) -> RenderResult {
        let options = Options { grub_family: GrubFamily::Rhel, ..Options::default() };
        grub::render(&build(desired), &options).unwrap()
    }

    #[test]
    fn script_has_one_grubby_call_with_removals() {
        let rendered = rhel(&desired());
        let script = rendered.file(SCRIPT).unwrap();
        assert_eq!(script.mode, 0o755);
        assert!(script.text.starts_with("#!/bin/sh\n# written by bedplate from profile hgx;"));
        assert!(
            script.text.ends_with(
                "\ngrubby --update-kernel=ALL --remove-args='nomodeset iommu=off' --args='iommu=pt \
                 pci=realloc,config_acs=\"xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0\" hugepages=64' \
                 --no-etc-grub-update\ntouch -c -d \"$age\" /etc/kernel/cmdline\n"
            ),
            "{}",
            script.text
        );
        assert!(
            script.text.contains(
                "\nset -eu\n# Whether /etc/kernel/cmdline has all arguments, and /etc/default/grub was edited since.\n\
                 is_outdated() (\n\
                 [ -n \"$(find /etc/default/grub -newer /etc/kernel/cmdline 2>/dev/null)\" ] || exit 1\n\
                 args=$(cat /etc/kernel/cmdline)\n\
                 case \" $args \" in *\" \"'iommu=pt'\" \"*) ;; *) exit 1 ;; esac\n"
            ),
            "{}",
            script.text
        );
        assert!(rendered.file(APPEND).unwrap().text.ends_with(
            "\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt \
             pci=realloc,config_acs=\\\"xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0\\\" hugepages=64\"\n"
        ));
        assert!(!rendered.files.iter().any(|file| file.path.contains("grub.d")));
    }

    #[test]
    fn argument_that_grubby_mangles_is_inexpressible() {
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg("dyndbg=\"file a.c +p\""));
        desired.cmdline.absent.push(arg("pci=noats"));
        let rendered = rhel(&desired);
        assert_eq!(rendered.files, []);
        let whats: Vec<&str> =
            rendered.inexpressible.iter().map(|item| item.what.as_str()).collect();
        assert_eq!(whats, ["kernel argument `dyndbg=\"file a.c +p\"`"]);
        assert!(rendered.notes.iter().any(|note| note.contains("`pci=noats`")));
    }

    #[test]
    fn removals_without_additions_write_script() {
        let mut desired = empty_desired();
        desired.cmdline.absent.push(arg("nomodeset"));
        let rendered = rhel(&desired);
        assert!(
            rendered.file(SCRIPT).unwrap().text.contains(" --remove-args='nomodeset' --no-etc")
        );
        assert!(rendered.file(APPEND).is_none());
    }
}
