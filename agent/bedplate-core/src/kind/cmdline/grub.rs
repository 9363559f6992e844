//! GRUB configured by shell variables (handbook §10.1, §10.4). Debian and derivatives use a drop-in that sorts last,
//! and the main file only to remove arguments. SUSE, and RHEL without BLS, use the main file.

mod active_configuration;
mod edit;
mod obstacles;
mod remove_arguments;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use super::boot_files::{self, agreed, verify};
use super::menu::Menu;
use super::mounts::no_directory;
use super::owned_arguments::owned;
use super::{Context, NAME, ObservedLines, Obstacle, Steps};
use crate::plan::{Action, ToolUndo};
use bedplate_base::Reading;
use bedplate_cmdline::boot::grub_cfg::{Device, Wait};
use bedplate_cmdline::boot::grub_default::{self, CMDLINE, CMDLINE_DEFAULT, MAIN};
use bedplate_cmdline::boot::shell::Shell;
use bedplate_cmdline::{CommandLine, Edit, Token};
use bedplate_facts::boot::KEEP_ENTRIES;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

use active_configuration::instead_of;
pub(crate) use active_configuration::{configurations, leads_on, vendor};
use edit::NOTE;
pub(crate) use edit::edit_files;
pub(super) use sources::read;

/// Paths and tools of a family of distributions.
pub(crate) struct Family {
    /// Directory of drop-ins that grub-mkconfig itself reads after the main file. Upstream GRUB has none, but the main
    /// file may source drop-ins.
    drop_ins: Option<&'static str>,
    /// Shell assumed for /bin/sh if the link there cannot be read.
    shell: Shell,
    /// Variable that takes bedplate's arguments.
    variable: &'static str,
    /// Path of the generated configuration.
    configuration: &'static str,
    /// Whether a UEFI build of GRUB may have a whole configuration on the EFI system partition instead.
    may_be_on_esp: bool,
    /// Tools that generate it, each with the file that proves it installed. `%` stands for the path of the
    /// configuration.
    tools: &'static [(&'static str, &'static [&'static str])],
}

/// Name of bedplate's drop-in. `zz` sorts it after 50-cloudimg-settings.cfg and other files that set the variable
/// again.
const OWN: &str = "zz-bedplate.cfg";
/// Time limit of the tools. grub-mkconfig runs os-prober, which mounts every partition.
const TOOL_LIMIT_S: u32 = 300;

const DEBIAN: Family = Family {
    drop_ins: Some("/etc/default/grub.d"),
    shell: Shell::Posix,
    // Recovery entries do not get this variable, so they stay bootable with any profile.
    variable: CMDLINE_DEFAULT,
    configuration: "/boot/grub/grub.cfg",
    may_be_on_esp: false,
    tools: &[
        ("/usr/sbin/update-grub", &["update-grub"]),
        ("/usr/sbin/grub-mkconfig", &["grub-mkconfig", "-o", "%"]),
    ],
};
const SUSE: Family = Family {
    drop_ins: None,
    shell: Shell::Bash,
    variable: CMDLINE_DEFAULT,
    configuration: "/boot/grub2/grub.cfg",
    may_be_on_esp: false,
    tools: &[("/usr/sbin/grub2-mkconfig", &["grub2-mkconfig", "-o", "%"])],
};
/// RHEL, Fedora and derivatives. On BLS systems only the variable is used: `bls` handles the entries.
pub(crate) const RHEL: Family = Family {
    drop_ins: None,
    shell: Shell::Bash,
    variable: CMDLINE,
    configuration: active_configuration::BOOT,
    may_be_on_esp: true,
    tools: &[("/usr/sbin/grub2-mkconfig", &["grub2-mkconfig", "-o", "%"])],
};

fn family(boot: &BootLoader) -> &'static Family {
    match boot {
        BootLoader::GrubSuse => &SUSE,
        BootLoader::GrubRhel | BootLoader::GrubBls => &RHEL,
        _ => &DEBIAN,
    }
}

/// Returns the paths of the menus that GRUB reads. Empty for other boot loaders, and if the active menu is unknown.
pub(crate) fn menu_paths(reader: &dyn Reader, boot: &BootLoader) -> Vec<String> {
    let is_grub = matches!(
        boot,
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse | BootLoader::GrubBls
    );
    let paths = is_grub.then(|| family(boot).configurations(reader).unwrap_or_default());
    paths.unwrap_or_default()
}

impl Family {
    fn own(&self) -> Option<String> {
        self.drop_ins.map(|directory| format!("{directory}/{OWN}"))
    }

    /// Returns the generated configurations that GRUB reads on this host, which every change must regenerate.
    fn configurations(&self, reader: &dyn Reader) -> Result<Vec<String>, Obstacle> {
        match self.may_be_on_esp {
            true => configurations(reader),
            false => match instead_of(reader, self.configuration) {
                Some(obstacle) => Err(obstacle),
                None => Ok(vec![self.configuration.to_owned()]),
            },
        }
    }
}

/// Reads both states.
pub(super) fn observe(reader: &dyn Reader, facts: &Facts) -> ObservedLines {
    let family = family(&facts.boot);
    let mut remarks = Vec::new();
    let configured = read(reader, family, &mut remarks);
    ObservedLines { configured, next: next(reader, family), remarks }
}

fn next(reader: &dyn Reader, family: &Family) -> Reading<CommandLine> {
    of_default(reader, family, Menu::next)
}

/// Returns the kernel image of the default entry, as GRUB names it.
pub(super) fn image(reader: &dyn Reader, facts: &Facts) -> Reading<String> {
    of_default(reader, family(&facts.boot), |menu| menu.entry().map(|entry| entry.image))
}

/// Files that the default entry loads, and reasons why GRUB may not boot it by itself.
#[derive(PartialEq)]
pub(crate) struct LoadedFiles {
    /// Kernel image, as GRUB names it.
    pub image: String,
    /// Initrds, as GRUB names them.
    pub initrds: Vec<String>,
    /// Device that contains the files.
    pub device: Device,
    /// Whether any entry of the menu loads an initrd.
    pub has_initrds: bool,
    /// Reasons why the menu may wait for input.
    pub waits: Vec<Wait>,
}

/// Reads the files that the default entry loads.
pub(crate) fn loaded_files(reader: &dyn Reader, facts: &Facts) -> Reading<LoadedFiles> {
    of_default(reader, family(&facts.boot), |menu| {
        menu.entry().map(|entry| LoadedFiles {
            image: entry.image,
            initrds: entry.initrds,
            device: entry.device,
            has_initrds: menu.has_initrds(),
            waits: entry.waits,
        })
    })
}

/// Returns a property of the default entry. Unknown if the configurations that GRUB may read disagree.
fn of_default<T: PartialEq>(
    reader: &dyn Reader,
    family: &Family,
    property: impl Fn(&Menu) -> Reading<T>,
) -> Reading<T> {
    let paths = match family.configurations(reader) {
        Ok(paths) => paths,
        Err(obstacle) => return Reading::unknown(obstacle.reason),
    };
    let found = paths.iter().map(|path| {
        Reading::from_result(Menu::read(reader, path)).and_then(|menu| property(&menu))
    });
    agreed(found, || format!("the default entries of {} differ", paths.join(" and ")))
}

/// Returns the known values of the variables in the default entry's line.
pub(crate) fn variables(reader: &dyn Reader, facts: &Facts) -> BTreeMap<String, String> {
    let variables = |menu: &Menu| Reading::Known(menu.variables());
    match of_default(reader, family(&facts.boot), variables) {
        Reading::Known(variables) => variables,
        Reading::Absent | Reading::Unknown(_) => BTreeMap::new(),
    }
}

/// Plans the actions that make both states satisfy the edit.
pub(crate) fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    boot_files::carried_by_grub(context)?;
    let family = family(&context.facts.boot);
    refuse_unreachable_entry(context, family, edit)?;
    let mut actions = edit_files(context.reader, family, edit)?;
    let subject = match actions.as_slice() {
        [] => "boot configuration".to_owned(),
        _ => family.own().unwrap_or_else(|| MAIN.to_owned()),
    };
    for configuration in family.configurations(context.reader)? {
        actions.push(regenerate(context, &configuration)?);
    }
    actions.push(verify(context));
    Ok(Steps { subject, actions, disrupts: Vec::new() })
}

/// Refuses an edit that the check after regeneration would reject every time.
fn refuse_unreachable_entry(
    context: &Context,
    family: &Family,
    edit: &Edit,
) -> Result<(), Obstacle> {
    let reader = context.reader;
    // A menu that an unfinished tool left proves nothing about the menu that a complete run generates.
    let is_owed = context.ledger.owed.iter().any(|tool| tool.kind == NAME);
    let configured = read(reader, family, &mut Vec::new());
    for path in family.configurations(reader)? {
        let Ok(menu) = Menu::read(reader, &path) else { continue };
        let undecided = menu.undecidable().filter(|_| !is_owed);
        let found = undecided.or_else(|| menu.machine_dependent(edit)).or_else(|| {
            let configured = configured.known()?;
            menu.arguments_from_elsewhere(configured, edit).or_else(|| menu.by_variable(edit))
        });
        found.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Returns the action that generates a menu from the configuration.
///
/// # Errors
/// If the tool is not installed, or the menu's directory is absent.
pub(crate) fn regenerate(context: &Context, configuration: &str) -> Result<Action, Obstacle> {
    let family = family(&context.facts.boot);
    let is_image = context.facts.host == HostKind::Image;
    no_directory(context.reader, configuration).filter(|_| !is_image).map_or(Ok(()), Err)?;
    let there = family.tools.iter().find(|(proof, _)| context.reader.exists(proof) == Ok(true));
    let (_, argv) = match (there, family.tools.first()) {
        (Some(tool), _) => tool,
        // The image build has the tool, or will have it.
        (None, Some(tool)) if is_image => tool,
        _ => {
            return Err(Obstacle {
                reason: format!("cannot regenerate {configuration}: its tool is not installed"),
                fix: format!(
                    "install the package that contains {}",
                    family.tools.first().map_or("grub-mkconfig", |tool| tool.0)
                ),
            });
        }
    };
    let mut argv: Vec<String> = argv.iter().map(|word| word.replace('%', configuration)).collect();
    if context.facts.boot == BootLoader::GrubBls {
        argv.insert(1, KEEP_ENTRIES.to_owned());
    }
    Ok(Action::RunTool {
        argv,
        purpose: format!("regenerate {configuration}"),
        touches: vec![configuration.to_owned()],
        undo: ToolUndo::Repeat,
        limit_s: TOOL_LIMIT_S,
    })
}

/// Returns the path of bedplate's drop-in and a note if the file has content that bedplate did not write.
pub(crate) fn edited_by_hand(context: &Context, edit: &Edit) -> Option<(String, String)> {
    let family = family(&context.facts.boot);
    let path = family.own()?;
    let text = boot_files::raw(context.reader, &path).ok()?;
    by_hand(context, family, edit, &text).map(|remark| (path, remark))
}

fn by_hand(context: &Context, family: &Family, edit: &Edit, text: &str) -> Option<String> {
    let Ok(tokens) = grub_default::parse_drop_in(text, family.variable) else {
        return Some(format!("changed by hand: {OVERWRITTEN}"));
    };
    let own = owned(context.ledger);
    let wanted = edit.wanted().iter().flat_map(|wanted| wanted.tokens());
    let names: BTreeSet<String> = own.iter().chain(wanted).map(Token::folded_name).collect();
    let foreign: Vec<String> =
        tokens.iter().map(Token::folded_name).filter(|name| !names.contains(name)).collect();
    if !foreign.is_empty() {
        return Some(format!(
            "`{}` was added by hand and is kept; move it to a separate file in {}",
            foreign.join("`, `"),
            family.drop_ins?
        ));
    }
    let written = grub_default::write_drop_in(family.variable, &tokens, NOTE).ok()?;
    // Snapshots contain no comments.
    let code = |text: &str| text.lines().filter(|line| !line.starts_with('#')).collect::<String>();
    (code(&written) != code(text)).then(|| format!("changed by hand: {OVERWRITTEN}"))
}

const OVERWRITTEN: &str = "bedplate's next change of this file discards the edits";
