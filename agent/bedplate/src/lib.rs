//! Command-line program: parses arguments, prints text and JSON, draws pictures.
//!
//! [`cli`] has one file per subcommand; [`report`] formats the results of the other crates. Without the feature
//! `daemon`, the daemon and its client commands are left out. Depends on all other crates but bedplate-testhosts. Start
//! with `cli.rs`.

pub mod cli;
pub mod demo;
pub mod report;
