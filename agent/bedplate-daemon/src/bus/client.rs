//! Client side of the daemon's D-Bus interface.

/// The interface of [`super::Agent`].
#[zbus::proxy(
    interface = "org.bedplate.Agent1",
    default_service = "org.bedplate.Agent1",
    default_path = "/org/bedplate/Agent1"
)]
pub trait Agent1 {
    /// See [`super::Agent`].
    fn plan(&self) -> zbus::Result<String>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn reconcile(&self) -> zbus::Result<String>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn reload(&self) -> zbus::Result<()>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn schedule_reboot(&self, why: &str, not_before: u64) -> zbus::Result<(String, String)>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn force_reboot(&self, why: &str, not_before: u64) -> zbus::Result<(String, String)>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn update_reboot(&self) -> zbus::Result<String>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn cancel_reboot(&self) -> zbus::Result<String>;
    /// See [`super::Agent`].
    #[zbus(allow_interactive_auth)]
    fn forget_missing(&self) -> zbus::Result<String>;
    /// See [`super::Agent`].
    #[zbus(property)]
    fn host_verdict(&self) -> zbus::Result<String>;
    /// See [`super::Agent`].
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn checks(&self) -> zbus::Result<Vec<(String, String, String)>>;
    /// See [`super::Agent`].
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn status_json(&self) -> zbus::Result<String>;
}
