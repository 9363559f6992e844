//! Restarting the machine the right way, once. `decide` is pure: everything that counts at one moment goes in, one
//! decision comes out. What was asked for is in the `record`, before it is asked for; `came` tells which reboot a
//! boot follows, `stuck` why it did not help; `hold`, `busy` and `fleetlock` are what may stand in the way. If anything fails
//! on the way to a decision, nothing is rebooted (design §8.4).

pub mod attempt;
pub mod busy;
pub mod decide;
pub mod fleetlock;
pub mod hold;
pub mod identity;
pub mod kexec;
pub mod last_boot;
pub mod method;
pub mod record;
pub mod state;
