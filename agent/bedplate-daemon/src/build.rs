//! Which build of this program runs at the two ends of a socket. They must be the same one: what they say to each other is not
//! kept stable between builds.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

use super::unit::Unit;

/// The file that this process runs, wherever its name leads by now.
const OWN: &str = "/proc/self/exe";

/// A program that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its path when it was asked.
    pub path: String,
    /// Device and inode.
    pub id: String,
}

impl Program {
    /// That of this process.
    ///
    /// # Errors
    /// When /proc is not there.
    pub fn own() -> std::io::Result<Self> {
        let path = std::fs::read_link(OWN)?.display().to_string();
        Ok(Program { path, id: id(Path::new(OWN))? })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (device:inode {})", self.path, self.id)
    }
}

fn bit(unit: Unit) -> u8 {
    1 << (unit as u8)
}

fn id(path: &Path) -> std::io::Result<String> {
    let file = std::fs::metadata(path)?;
    Ok(format!("{}:{}", file.dev(), file.ino()))
}

/// What a daemon knows of its own build and of that of its units.
#[derive(Debug)]
pub struct Builds {
    /// `None`: /proc is not there, and nothing is asked of any unit.
    own: Option<Program>,
    /// What the service manager starts: with a link in it, another file after an upgrade.
    started_as: Option<PathBuf>,
    /// Units that have answered as this build, a bit for each.
    agreed: AtomicU8,
    replaced: AtomicBool,
}

impl Builds {
    /// This unit has answered: it runs this build.
    pub fn note_current_build(&self, unit: Unit) {
        self.agreed.fetch_or(bit(unit), Ordering::Relaxed);
    }

    /// This unit has refused, since it runs another build, `theirs`. `Some`: why a new start of the daemon would not help, and
    /// what would; else the daemon was replaced. A unit that has never agreed may run another file for good, by a drop-in of
    /// its own, whatever the others do.
    pub fn refused(&self, unit: Unit, theirs: Option<&Program>) -> Option<String> {
        if self.agreed.load(Ordering::Relaxed) & bit(unit) != 0 || self.is_program_replaced() {
            self.replaced.store(true, Ordering::Relaxed);
            return None;
        }
        let shown = |program: Option<&Program>| {
            program.map_or_else(|| "another file".to_owned(), Program::to_string)
        };
        Some(format!(
            "bedplate.service runs {own}, and bedplate-{unit}@.service, which works for it, runs {theirs}: both must run the \
             same file. `systemctl cat bedplate bedplate-{unit}@` shows their ExecStart= and what was laid over them; \
             correct that, then `systemctl restart bedplate`",
            own = shown(self.own.as_ref()),
            unit = unit.name(),
            theirs = shown(theirs)
        ))
    }

    /// Whether a unit has said that this daemon was replaced.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Whether the next daemon would be another build than this one. A file that is not there would not be started at all.
    fn is_program_replaced(&self) -> bool {
        let next = self.started_as.as_deref().and_then(|path| id(path).ok());
        next.is_some_and(|next| self.own.as_ref().is_some_and(|own| own.id != next))
    }
}

impl Default for Builds {
    /// Of the daemon that this process is.
    fn default() -> Self {
        let own = Program::own().ok();
        let first = std::env::args_os().next().map(PathBuf::from);
        let started_as = first
            .filter(|path| path.is_absolute())
            .or_else(|| own.as_ref().map(|own| PathBuf::from(&own.path)));
        Builds { own, started_as, agreed: AtomicU8::new(0), replaced: AtomicBool::new(false) }
    }
}
