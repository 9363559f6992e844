//! The program: arguments in; text, JSON and pictures out.
//!
//! One file a subcommand in [`cli`]; [`report`] makes texts and pictures of what the crates below say. Without the feature `daemon`
//! the daemon and the commands that speak with it are left out. Depends on all other crates but bedplate-testhosts. Start with `cli.rs`.

pub mod cli;
pub mod demo;
pub mod report;
