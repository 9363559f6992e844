//! Every render target with every shipped profile, read by what will read it: schemas that the projects publish, and the
//! real programs where Debian has a package. Texts stand in `tests/data/render/TARGET/*.txt`; `BLESS=1 cargo test -p bedplate-tests
//! --test render_targets` rewrites them.

mod ansible;
mod consumers;
mod golden;
mod image_scripts;
mod jobs;
mod matrix;
mod schemas;
mod shipped;
mod udev;
