//! Boot entries of every family, in directories that represent a host's root: what the program writes and refuses, and what
//! `revert` restores. Each test says whether a distribution's tool is the real one, if installed, or a short script with
//! the same effect on the files.

mod bls;
mod distributions;
mod families;
mod ostree;
mod real_tools;
mod reverted;
mod rhel_grub;
mod root;
mod sdbootutil;
mod systemd_boot;
mod unfinished;
mod whole_roots;
