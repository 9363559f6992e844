//! The units that work for the daemon.

/// The units, by their rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Observes the host: it may read everything, and write nothing.
    Observer,
    /// Changes the host, but for modules, and observes it afterwards.
    Worker,
    /// The same, and loads and unloads modules.
    Loader,
    /// Sees the open files of all processes.
    Holders,
    /// Runs the operator's busy check, and writes the marker in /run that asks others for a reboot.
    Check,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 5] =
        [Unit::Observer, Unit::Worker, Unit::Loader, Unit::Holders, Unit::Check];

    /// Of its socket and its file: `bedplate-NAME.socket`.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Observer => "observer",
            Unit::Worker => "worker",
            Unit::Loader => "loader",
            Unit::Holders => "holders",
            Unit::Check => "check",
        }
    }
}
