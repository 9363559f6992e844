//! Man page content that is not in the help: exit statuses, files, the profile format and the checks of `verify`. The
//! format uses the same schema as `bedplate profile explain`; the checks come from their registry.

use std::io::Write;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::examples;
use bedplate_core::profile::{self, KeyDescription};
use bedplate_core::verify::{CHECKS, Check, NOT_LOOKED_AT};

/// Center of a page's header.
pub(crate) const TITLE: &str = "bedplate manual";
/// Footer of a page.
pub(crate) const SOURCE: &str = concat!("bedplate ", env!("CARGO_PKG_VERSION"));

const EXIT_STATUS: [(&str, &str); 8] = [
    ("0", "Done, or no changes. For `status`: ready."),
    ("1", "Failed. The error and its fix are on standard error."),
    (
        "2",
        "`plan --exit-code` found changes; `revert --dry-run --exit-code` found settings to restore, `seal --dry-run --exit-code` \
         state to remove; files in the directory of `render --check` differ.",
    ),
    ("3", "A reboot is pending."),
    (
        "4",
        "Blocked, or not ready: an operator must decide, repair something, or correct the profile, which may have an \
         error-level lint.",
    ),
    (
        "5",
        "Unknown: no other status applies, and something could not be read (`plan --exit-code`, `apply`); `reboot status`: it is \
         not yet known whether a reboot is needed.",
    ),
    (
        "6",
        "The files of an image are written, but the image build must still run tools (`apply`, `plan --exit-code`).",
    ),
    ("64", "Invalid command line."),
];

const FILES: [(&str, &str); 10] = [
    (
        "/etc/bedplate/profile.toml",
        "The profile of this host: bedplate-profile(5). `bedplate profile init` writes one.",
    ),
    (
        "/etc/bedplate/profiles/",
        "Used without a profile.toml: profiles of a mixed fleet; the best match is used.",
    ),
    (
        "/etc/bedplate/profile.d/*.toml",
        "Overrides of the profile, applied in the order of their names.",
    ),
    ("/usr/share/doc/bedplate/profile.toml", "A sample profile with comments."),
    (
        "/var/lib/bedplate/",
        "Changes by bedplate and the replaced settings, for `history` and `revert`. Root only.",
    ),
    (
        "/var/lib/bedplate/daemon/",
        "State of the daemon: scheduled reboot, attempts, known devices. Root only.",
    ),
    ("/run/bedplate/status.json", "Status of the daemon, for clients without the bus."),
    (
        "/run/bedplate/bedplate.prom",
        "Metrics; in the directory of Debian's node exporter, if it is installed.",
    ),
    (
        "/etc/default/grub.d/zz-bedplate.cfg",
        "Kernel arguments, with Debian's GRUB setup. For other boot loaders, `bedplate plan` names the files.",
    ),
    (
        "/etc/modules-load.d/bedplate.conf, /etc/modprobe.d/zz-bedplate.conf",
        "Modules to load, module options, and blocked modules.",
    ),
];

/// Writes a page from its title to its examples.
fn sections(command: &Command, page: &Man, out: &mut dyn Write) -> std::io::Result<()> {
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    let mut roff = Roff::new();
    list(&mut roff, "EXAMPLES", examples::of(command));
    roff.to_writer(out)
}

/// Writes the page of a subcommand.
///
/// # Errors
/// The writer's error.
pub(crate) fn of_a_command(
    command: &Command,
    page: &Man,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    sections(command, page, out)?;
    if command.get_after_help().is_some() {
        page.render_extra_section(out)?;
    }
    page.render_version_section(out)?;
    see_also(out, &["bedplate(1)", "bedplate-profile(5)"])
}

/// Writes `bedplate.1`: the help, exit statuses, files and related pages.
///
/// # Errors
/// The writer's error.
pub(crate) fn of_the_program(
    command: &Command,
    page: &Man,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    sections(command, page, out)?;
    let mut roff = Roff::new();
    list(&mut roff, "EXIT STATUS", &EXIT_STATUS);
    list(&mut roff, "FILES", &FILES);
    list(
        &mut roff,
        "ENVIRONMENT",
        &[
            (
                "NO_COLOR, CLICOLOR_FORCE",
                "No color, or color also in a pipe; `--color` overrides both.",
            ),
            ("COLUMNS", "Width of reports, instead of the terminal's."),
        ],
    );
    roff.to_writer(out)?;
    let more = [
        "bedplate-profile(5)",
        "bedplate-plan(1)",
        "bedplate-apply(1)",
        "bedplate-status(1)",
        "bedplate-reboot(1)",
        "systemd-logind.service(8)",
        "journalctl(1)",
    ];
    see_also(out, &more)?;
    page.render_version_section(out)
}

/// Writes the list of related pages.
fn see_also(out: &mut dyn Write, pages: &[&str]) -> std::io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let last = pages.len().saturating_sub(1);
    let words = pages.iter().enumerate().flat_map(|(at, page)| {
        let (name, section) = page.split_once('(').unwrap_or((page, ""));
        let end = if at == last { "" } else { ", " };
        [bold(name), roman(format!("({section}{end}"))]
    });
    roff.text(words.collect::<Vec<_>>());
    roff.to_writer(out)
}

fn list(roff: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (term, text) in entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text(inline(text));
    }
}

/// Sets `code` in bold.
fn inline(text: &str) -> Vec<Inline> {
    let styled = |(at, part): (usize, &str)| if at % 2 == 1 { bold(part) } else { roman(part) };
    text.split('`').enumerate().map(styled).collect()
}

/// Returns `bedplate-profile.5`: every key of a profile.
pub(crate) fn profile_format() -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["bedplate-profile", "5", "", SOURCE, TITLE]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("bedplate-profile - desired state of a host, for bedplate")]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text(inline(profile::about()));
    roff.control("PP", []);
    roff.text(inline(
        "A profile is a TOML file (toml.io). `bedplate profile init` writes one for a host, `bedplate profile check` \
         checks it, `bedplate profile show --origin` prints all effective values with their origin, \
         `bedplate profile schema` is for editors. Unknown keys are errors.",
    ));
    roff.control("PP", []);
    roff.text(inline(
        "The profile controls changes made as root. So the file, its directory, and those of drop-ins must belong to root (for an \
         image also to the user who changes it), and must not be writable by other users. Otherwise nothing \
         is applied, and the error has the `chown` or `chmod` to run.",
    ));
    roff.control("SH", ["EXAMPLE"]);
    roff.control("nf", []);
    for line in profile::EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    let keys: Vec<KeyDescription> =
        profile::explained_keys().iter().filter_map(|key| profile::explained(key)).collect();
    roff.control("SH", ["KEYS OF THE FILE"]);
    keys.iter().filter(|key| !key.key.contains('.')).for_each(|key| entry(&mut roff, key));
    for table in keys.iter().filter(|key| !key.key.contains('.') && !key.keys.is_empty()) {
        let below = format!("{}.", table.key);
        roff.control("SH", [format!("[{}]", table.key).as_str()]);
        keys.iter().filter(|key| key.key.starts_with(&below)).for_each(|key| entry(&mut roff, key));
    }
    ended(&roff, &["bedplate(1)", "bedplate-profile(1)", "bedplate-plan(1)", "bedplate-reboot(1)"])
}

/// Returns `bedplate-checks.7`: every check of `bedplate verify`.
pub(crate) fn checks() -> String {
    let mut roff = Roff::new();
    roff.control("TH", ["bedplate-checks", "7", "", SOURCE, TITLE]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("bedplate-checks - checks that a host must pass to be ready")]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text(inline(
        "`bedplate verify` reports whether a host is ready for GPUDirect RDMA. These are its checks, in order of priority. \
         A check of level `fail` that does not pass makes the host not ready; one of level `warn` does not. \
         `[verify]` of the profile may change a level, with a reason. An unknown result never counts \
         as passed. `bedplate verify --explain ID` shows one check.",
    ));
    roff.control("PP", []);
    roff.text(inline(&format!("Not checked, and not part of ready: {NOT_LOOKED_AT}.")));
    roff.control("SH", ["CHECKS"]);
    CHECKS.iter().for_each(|check| check_entry(&mut roff, check));
    ended(
        &roff,
        &["bedplate(1)", "bedplate-verify(1)", "bedplate-doctor(1)", "bedplate-profile(5)"],
    )
}

fn check_entry(roff: &mut Roff, check: &Check) {
    roff.control("TP", []);
    let root = if check.needs_root { ", needs root" } else { "" };
    let level = format!(" ({}, {}{root})", check.group.name(), check.severity.name());
    roff.text([bold(check.id), roman(level)]);
    roff.text(inline(&format!("Verifies that {}.", check.verifies)));
    for (name, text) in
        [("What", check.what), ("Why", check.why), ("How", check.how), ("Source", check.source)]
    {
        roff.control("IP", []);
        roff.text([vec![italic(name), roman(": ")], inline(text)].concat());
    }
}

/// Returns the page with its list of related pages.
fn ended(page: &Roff, more: &[&str]) -> String {
    let mut end = Vec::new();
    // Writing to a vector cannot fail.
    let _ = see_also(&mut end, more);
    page.render() + &String::from_utf8_lossy(&end)
}

fn entry(roff: &mut Roff, key: &KeyDescription) {
    roff.control("TP", []);
    let default =
        key.default.as_ref().map(|default| format!(", default {default}")).unwrap_or_default();
    roff.text([bold(key.key.as_str()), roman(format!(" ({}{default})", key.types))]);
    for (number, paragraph) in key.description.split("\n\n").enumerate() {
        if number > 0 {
            roff.control("IP", []);
        }
        roff.text(inline(paragraph));
    }
    for value in &key.values {
        roff.control("IP", []);
        match value.split_once(": ") {
            Some((word, meaning)) => {
                roff.text([vec![italic(word), roman(": ")], inline(meaning)].concat());
            }
            None => {
                roff.text([roman(value.as_str())]);
            }
        }
    }
    if !key.examples.is_empty() {
        roff.control("IP", []);
        roff.text([roman("Example: "), bold(key.examples.join("; "))]);
    }
}
