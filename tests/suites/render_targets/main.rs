//! Every render target with every shipped profile, checked with the schemas that the projects publish, and with the real
//! programs if Debian has a package. Expected texts are in `tests/data/render/TARGET/*.txt`; `BLESS=1 cargo test -p
//! bedplate-tests --test render_targets` rewrites them.

mod ansible;
mod consumers;
mod golden;
mod image_scripts;
mod jobs;
mod matrix;
mod schemas;
mod shipped;
mod udev;
