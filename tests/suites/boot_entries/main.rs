//! Boot entries of every family, in directories that stand for a host's root: what the program writes there, what it
//! refuses, and what `revert` gives back. A tool of a distribution is the real one where this machine has it, and a short
//! script that does the same to the files where it has not; each test says which.

mod bls;
mod families;
mod ostree;
mod reverted;
mod rhel_grub;
mod root;
mod sdbootutil;
mod systemd_boot;
mod unfinished;
mod whole_roots;
