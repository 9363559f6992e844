//! The generated menu of a machine that runs: usable, lost, or not to be touched. A lost menu leaves GRUB at its prompt, so
//! making it again is a change of its own; a menu with content that bedplate cannot follow is never overwritten.

use super::files::raw;
use super::menu::is_blank;
use super::mounts::unmounted;
use super::{Context, Observed, Obstacle, Steps, grub};
use crate::facts::BootLoader;
use crate::host::{Cause, HostKind, Reader, Reading, Reason};
use crate::plan::{Action, Item, Why};

/// State of the generated menu.
pub enum Generated {
    /// It was followed, or this back end generates none, or why it is not known is reported elsewhere.
    Usable,
    /// Empty or absent.
    Lost(LostMenu),
    /// It must not be generated, and the default entry is not known.
    Blocked(Obstacle),
}

impl Generated {
    /// The menu to generate, if it is lost.
    ///
    /// # Errors
    /// Why it must not be generated.
    pub fn lost(self) -> Result<Option<LostMenu>, Obstacle> {
        match self {
            Generated::Usable => Ok(None),
            Generated::Lost(lost) => Ok(Some(lost)),
            Generated::Blocked(obstacle) => Err(obstacle),
        }
    }
}

/// A menu that has to be generated.
pub struct LostMenu {
    path: String,
    is_empty: bool,
}

/// Reads the state. A tool that was cut short and is owed makes the menu again, whatever it left.
pub fn state(context: &Context, observed: &Observed, is_owed: bool) -> Generated {
    // An image's menu is made when it is installed.
    if context.facts.host == HostKind::Image {
        return Generated::Usable;
    }
    let paths = grub::menu_paths(context.reader, &context.facts.boot);
    if let Some(lost) = paths.iter().find_map(|path| lost(context.reader, path)) {
        return of_lost(context, lost);
    }
    let why = not_followed(context, &paths, observed).filter(|_| !is_owed);
    why.map_or(Generated::Usable, |why| {
        Generated::Blocked(Obstacle {
            reason: format!("the default boot entry is not known: {why}"),
            remedy: "correct that file at that line, or move it away and plan again: bedplate never overwrites a menu that it \
                     cannot follow"
                .into(),
        })
    })
}

fn of_lost(context: &Context, lost: LostMenu) -> Generated {
    let path = &lost.path;
    match unmounted(context.reader, path) {
        Reading::Absent => Generated::Lost(lost),
        Reading::Known(point) => Generated::Blocked(Obstacle {
            reason: format!(
                "nothing is mounted at {point}, which is a mount point: the boot menu {path} is on that file system"
            ),
            remedy: format!("mount {point}"),
        }),
        Reading::Unknown(why) => Generated::Blocked(Obstacle {
            reason: format!("{path} is {}, and {why}", lost.shown()),
            remedy: "check that every file system of /etc/fstab is mounted".into(),
        }),
    }
}

/// Where the menu cannot be followed, with the place. Variables of an entry that only GRUB knows are another matter.
fn not_followed(context: &Context, paths: &[String], observed: &Observed) -> Option<String> {
    let is_understood = |why: &Reason| why.cause != Cause::NotUnderstood;
    let is_place = |why: &Reason| paths.iter().any(|path| why.starts_with(path.as_str()));
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

fn lost(reader: &dyn Reader, path: &str) -> Option<LostMenu> {
    let lost = |is_empty| Some(LostMenu { path: path.to_owned(), is_empty });
    match raw(reader, path) {
        Ok(text) if is_blank(&text) => lost(true),
        Ok(_) => None,
        Err(error) if error.is_absent() => {
            let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
            // Without its directory GRUB is not installed here.
            if reader.exists(directory) == Ok(true) { lost(false) } else { None }
        }
        Err(_) => None,
    }
}

impl LostMenu {
    fn shown(&self) -> &'static str {
        if self.is_empty { "empty" } else { "absent" }
    }

    /// The line of the change that says why the menu is made again.
    pub fn item(&self) -> Item {
        Item {
            subject: self.path.clone(),
            before: self.is_empty.then(|| self.shown().to_owned()),
            after: Some("generated from the configuration".into()),
            why: vec![Why::new(
                "without a menu GRUB stops at its prompt, and the machine does not come back from a reboot",
                "grub-core/normal/main.c",
            )],
        }
    }

    /// Adds the generator where the back end's own steps have none: it runs before the next boot is read back.
    ///
    /// # Errors
    /// When the generator is not installed.
    pub fn complete(&self, context: &Context, mut steps: Steps) -> Result<Steps, Obstacle> {
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
