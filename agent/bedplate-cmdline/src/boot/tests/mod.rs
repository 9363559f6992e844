//! Tests of the boot formats on realistic texts, and of the editors on generated ones.

mod bls;
mod grub_cfg;
mod grub_cfg_script;
mod grub_default;
mod grub_quote;
mod grubenv;
mod kernel_cmdline;
mod shell;
mod version;

use crate::Edit;
use crate::tests::edit_of;

fn edit(set: &[&str], absent: &[&str]) -> Edit {
    edit_of(set, absent).expect("a sensible edit")
}
