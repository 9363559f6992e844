//! The generated menu of a machine that runs: usable, lost, or not to be touched. A lost menu leaves GRUB at its prompt, so
//! making it again is a change of its own; a menu with content that bedplate cannot follow is never overwritten.

use super::boot_files::{is_blank, raw};
use super::mounts::{no_directory, unmounted};
use super::{Context, ObservedLines, Obstacle, Steps, grub};
use crate::plan::{Action, Item, Rationale};
use bedplate_base::{Cause, Reading, Reason};
use bedplate_facts::BootLoader;
use bedplate_facts::boot::started_by_grub;
use bedplate_host::HostKind;

/// State of the generated menu.
pub(crate) enum MenuState {
    /// It was followed, or this back end generates none, or why it is not known is reported elsewhere.
    Usable,
    /// Empty or absent.
    Lost(LostMenu),
    /// It must not be generated, and the default entry is not known.
    Blocked(Obstacle),
}

impl MenuState {
    /// The menu to generate, if it is lost.
    ///
    /// # Errors
    /// Why it must not be generated.
    pub(super) fn lost(self) -> Result<Option<LostMenu>, Obstacle> {
        match self {
            MenuState::Usable => Ok(None),
            MenuState::Lost(lost) => Ok(Some(lost)),
            MenuState::Blocked(obstacle) => Err(obstacle),
        }
    }
}

/// A menu that has to be generated.
pub(crate) struct LostMenu {
    path: String,
    is_empty: bool,
}

/// Reads the state. A tool that was cut short and is owed makes the menu again, whatever it left.
pub(crate) fn state(context: &Context, observed: &ObservedLines, is_owed: bool) -> MenuState {
    // An image's menu is made when it is installed.
    if context.facts.host == HostKind::Image {
        return MenuState::Usable;
    }
    let paths = grub::menu_paths(context.reader, &context.facts.boot);
    if let Some(lost) = paths.iter().find_map(|path| lost(context, path)) {
        return lost;
    }
    let why = not_followed(context, &paths, observed).filter(|_| !is_owed);
    why.map_or(MenuState::Usable, |why| {
        MenuState::Blocked(Obstacle {
            reason: format!("the default boot entry is not known: {why}"),
            remedy: "correct that file at that line, or move it away and plan again: bedplate never overwrites a menu that it \
                     cannot follow"
                .into(),
        })
    })
}

fn of_lost(context: &Context, lost: LostMenu) -> MenuState {
    let path = &lost.path;
    match unmounted(context.reader, path) {
        Reading::Absent => MenuState::Lost(lost),
        Reading::Known(point) => MenuState::Blocked(Obstacle {
            reason: format!(
                "nothing is mounted at {point}, which is a mount point: the boot menu {path} is on that file system"
            ),
            remedy: format!("mount {point}"),
        }),
        Reading::Unknown(why) => MenuState::Blocked(Obstacle {
            reason: format!("{path} is {}, and {why}", lost.state()),
            remedy: "check that every file system of /etc/fstab is mounted".into(),
        }),
    }
}

/// Where the menu cannot be followed, with the place. Variables of an entry that only GRUB knows are another matter.
fn not_followed(context: &Context, paths: &[String], observed: &ObservedLines) -> Option<String> {
    let is_understood = |why: &Reason| why.cause != Cause::NotUnderstood;
    let is_there = |path: &&String| context.reader.exists(path) != Ok(false);
    let mut there = paths.iter().filter(is_there);
    let mut is_place = |why: &Reason| there.any(|path| why.starts_with(path.as_str()));
    match (&context.facts.boot, &observed.next) {
        (BootLoader::GrubBls, Reading::Unknown(why)) if is_place(why) => {
            (!is_understood(why)).then(|| why.to_string())
        }
        (BootLoader::GrubBls, _) | (_, Reading::Known(_) | Reading::Absent) => None,
        (_, Reading::Unknown(_)) => match grub::image(context.reader, context.facts) {
            Reading::Unknown(why) if !is_understood(&why) && is_place(&why) => {
                Some(why.to_string())
            }
            _ => None,
        },
    }
}

/// The state of a menu that is empty or absent; `None` where it holds something, or where GRUB may not be installed.
fn lost(context: &Context, path: &str) -> Option<MenuState> {
    let reader = context.reader;
    let lost = |is_empty| Some(of_lost(context, LostMenu { path: path.to_owned(), is_empty }));
    match raw(reader, path) {
        Ok(text) if is_blank(&text) => lost(true),
        Ok(_) => None,
        Err(error) if error.is_absent() => match (reader.link(path), no_directory(reader, path)) {
            (Ok(target), _) => Some(MenuState::Blocked(leads_nowhere(path, &target))),
            (Err(_), None) => lost(false),
            (Err(_), Some(obstacle)) if started_by_grub(reader) => match lost(false) {
                Some(MenuState::Lost(_)) => Some(MenuState::Blocked(obstacle)),
                blocked => blocked,
            },
            (Err(_), Some(_)) => None,
        },
        Err(_) => None,
    }
}

fn leads_nowhere(path: &str, target: &str) -> Obstacle {
    Obstacle {
        reason: format!("the boot menu {path} is a link to {target}, which is not there"),
        remedy: format!(
            "mount the file system that {target} is on, or remove the link; then plan again"
        ),
    }
}

impl LostMenu {
    fn state(&self) -> &'static str {
        if self.is_empty { "empty" } else { "absent" }
    }

    /// The line of the change that says why the menu is made again.
    pub(super) fn item(&self) -> Item {
        let why = Rationale::new(
            "without a menu GRUB stops at its prompt, and the machine does not come back from a reboot",
            "grub-core/normal/main.c",
        );
        let before = self.is_empty.then(|| self.state());
        Item::new(&self.path, before, Some("generated from the configuration"), &[why])
    }

    /// Adds the generator where the back end's own steps have none: it runs before the next boot is read back.
    ///
    /// # Errors
    /// When the generator is not installed.
    pub(super) fn complete(&self, context: &Context, mut steps: Steps) -> Result<Steps, Obstacle> {
        let generates = |action: &Action| match action {
            Action::RunTool { touches, .. } => touches.contains(&self.path),
            _ => false,
        };
        if !steps.actions.iter().any(generates) {
            let tool = grub::regenerate(context, &self.path)?;
            let at = steps.actions.iter().position(|action| matches!(action, Action::Verify(_)));
            steps.actions.insert(at.unwrap_or(steps.actions.len()), tool);
        }
        Ok(steps)
    }
}
