//! Control of reboots. `step` is a pure state machine over the persisted `record`: from all facts at one moment it derives
//! the next state and one effect. `decide` contains the rules, `phase` the scheduled reboot, `facts` the input, `state` the
//! published states. `hold`, `busy`, `kexec` and `fleetlock` provide the obstacles. A failure before a decision never leads
//! to a reboot (design §8.4).

pub mod busy;
pub mod controller;
pub mod decide;
pub mod docs;
pub mod facts;
pub mod fleetlock;
pub mod identity;
pub mod kexec;
pub mod last_boot;
pub mod method;
pub mod state;
pub mod step;

#[cfg(test)]
pub(crate) mod tests {
    use bedplate_core::profile::model::Reboot;
    use bedplate_core::profile::{LayerText, load, shipped};

    /// Returns `[reboot]` of a profile with these lines.
    pub(crate) fn settings(lines: &str) -> Reboot {
        let text = format!("schema = 1\n[reboot]\n{lines}\n");
        load(&[LayerText { path: "p.toml", text: &text }], shipped()).unwrap().profile.reboot
    }
}
