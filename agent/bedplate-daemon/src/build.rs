//! Identity of the program at each end of a socket. Both ends must run the same build: the protocol between them is
//! not stable across builds.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

use super::unit::Unit;

/// The file that this process runs, even if its path now leads to another file.
const OWN: &str = "/proc/self/exe";

/// A running program file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Path when it was read.
    pub path: String,
    /// Device and inode.
    pub id: String,
}

impl Program {
    /// Returns the program of this process.
    ///
    /// # Errors
    /// If /proc is not mounted.
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

/// Build of the daemon, and results of comparing it with its units.
#[derive(Debug)]
pub struct Builds {
    /// `None` if /proc is not mounted; then no unit can be used.
    own: Option<Program>,
    /// The path that the service manager starts. If it contains a symlink, it leads to another file after an upgrade.
    started_as: Option<PathBuf>,
    /// Units that have answered as this build, one bit each.
    agreed: AtomicU8,
    replaced: AtomicBool,
}

impl Builds {
    /// Records that this unit has answered as this build.
    pub fn note_current_build(&self, unit: Unit) {
        self.agreed.fetch_or(bit(unit), Ordering::Relaxed);
    }

    /// Records that this unit refused a request because it runs another build, `theirs`. Returns `None` if the daemon was
    /// replaced, else the reason why a restart of the daemon would not help, with the fix. A unit that has never agreed may
    /// run another file permanently because of a drop-in.
    pub fn refused(&self, unit: Unit, theirs: Option<&Program>) -> Option<String> {
        if self.agreed.load(Ordering::Relaxed) & bit(unit) != 0 || self.is_program_replaced() {
            self.replaced.store(true, Ordering::Relaxed);
            return None;
        }
        let shown = |program: Option<&Program>| {
            program.map_or_else(|| "another file".to_owned(), Program::to_string)
        };
        Some(format!(
            "bedplate.service runs {own}, but bedplate-{unit}@.service runs {theirs}: both must run the same file. \
             Compare their ExecStart= with `systemctl cat bedplate bedplate-{unit}@`, correct it, then run `systemctl \
             restart bedplate`",
            own = shown(self.own.as_ref()),
            unit = unit.name(),
            theirs = shown(theirs)
        ))
    }

    /// Whether a unit has reported that this daemon was replaced.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Whether the next start of the daemon would run another build. `false` if the file is missing: it could not be started.
    fn is_program_replaced(&self) -> bool {
        let next = self.started_as.as_deref().and_then(|path| id(path).ok());
        next.is_some_and(|next| self.own.as_ref().is_some_and(|own| own.id != next))
    }
}

impl Default for Builds {
    /// Returns the state for the current process.
    fn default() -> Self {
        let own = Program::own().ok();
        let first = std::env::args_os().next().map(PathBuf::from);
        let started_as = first
            .filter(|path| path.is_absolute())
            .or_else(|| own.as_ref().map(|own| PathBuf::from(&own.path)));
        Builds { own, started_as, agreed: AtomicU8::new(0), replaced: AtomicBool::new(false) }
    }
}
