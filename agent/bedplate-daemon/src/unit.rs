//! The systemd units that run tasks for the daemon.

bedplate_base::named! {
    /// The units, distinguished by their rights. The name is part of the names of sockets and unit files:
    /// `bedplate-NAME.socket`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
    pub enum Unit {
        /// Observes the host. May read everything and write nothing.
        Observer = "observer",
        /// Changes the host, except for modules, and observes it afterwards.
        Worker = "worker",
        /// Like `Worker`, and may load and unload modules.
        Loader = "loader",
        /// Reads the open files of all processes.
        Holders = "holders",
        /// Runs the operator's busy check, and writes the marker in /run that requests a reboot from other tools.
        Check = "check",
    }
}
