//! Restarting the machine the right way, once. `decide` is pure: everything that counts at one moment goes in, one
//! decision comes out. What was asked for is in the `record`, before it is asked for; `stuck` tells why a boot did not
//! help. If anything fails on the way to a decision, nothing is rebooted (DESIGN §8.4).

pub mod decide;
pub mod record;
pub mod stuck;
