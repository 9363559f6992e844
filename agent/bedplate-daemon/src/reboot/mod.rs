//! Restarting the machine the right way, once. `step` is a pure state machine over the persisted `record`: everything that
//! counts at one moment goes in, the next state and one effect come out. `decide` holds the rules, `phase` the reboot that is
//! arranged, `facts` the input, `state` the states that are shown. `hold`, `busy`, `kexec` and `fleetlock` are what may stand in
//! the way. If anything fails on the way to a decision, nothing is rebooted (design §8.4).

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

    /// `[reboot]` of a profile with these lines in it.
    pub(crate) fn settings(lines: &str) -> Reboot {
        let text = format!("schema = 1\n[reboot]\n{lines}\n");
        load(&[LayerText { path: "p.toml", text: &text }], shipped()).unwrap().profile.reboot
    }
}
