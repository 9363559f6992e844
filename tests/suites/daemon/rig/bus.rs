//! The rig's bus: started, reconfigured, stopped and restarted.

use std::process::{Child, Command, Stdio};

use super::{Rig, serve_logind, until};

impl Rig {
    /// Changes the configuration of the bus.
    pub fn configure_bus(&self, change: impl FnOnce(String) -> String) {
        self.write("bus.conf", &change(self.read("bus.conf")));
        let bus = async {
            let bus = zbus::fdo::DBusProxy::new(&self.logind).await?;
            bus.reload_config().await.map_err(zbus::Error::from)
        };
        self.runtime.block_on(bus).expect("the bus takes it");
    }

    /// Stops the bus for good.
    pub fn stop_bus(&mut self) {
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }

    /// Restarts dbus: every connection ends, and a new bus starts at the same address after `between`.
    pub fn restart_bus(&mut self, between: impl FnOnce(&Self)) {
        let _ = self.bus.kill();
        let _ = self.bus.wait();
        let _ = std::fs::remove_file(self.path("bus"));
        between(self);
        let config = self.path("bus.conf");
        self.bus = start(&config);
        let socket = self.path("bus");
        until("the bus is there", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        self.logind = serve_logind(&self.runtime, &self.address(), &self.login);
    }
}

pub fn start(config: &std::path::Path) -> Child {
    Command::new("dbus-daemon")
        .arg(format!("--config-file={}", config.display()))
        .arg("--nofork")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dbus-daemon starts")
}
