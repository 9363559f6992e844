//! The units that work for the daemon.

bedplate_base::named! {
    /// The units, by their rights; their names are in those of their sockets and files: `bedplate-NAME.socket`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
    pub enum Unit {
        /// Observes the host: it may read everything, and write nothing.
        Observer = "observer",
        /// Changes the host, but for modules, and observes it afterwards.
        Worker = "worker",
        /// The same, and loads and unloads modules.
        Loader = "loader",
        /// Sees the open files of all processes.
        Holders = "holders",
        /// Runs the operator's busy check, and writes the marker in /run that asks others for a reboot.
        Check = "check",
    }
}
