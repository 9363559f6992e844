//! Puts every profile in `profiles/` into the program, but for the sample: `profile/shipped.rs` has the table.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// Template of `bedplate profile init`, not a profile of a machine.
const SAMPLE: &str = "example";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=profiles");
    let dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("profiles");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        names.extend(name.filter(|name| {
            path.extension().is_some_and(|ext| ext == "toml")
                && !name.starts_with('.')
                && name != SAMPLE
        }));
    }
    names.sort();
    let mut table = String::from("&[\n");
    for name in names {
        let path = dir.join(format!("{name}.toml"));
        writeln!(table, "    Shipped {{ name: {name:?}, text: include_str!({path:?}) }},")?;
    }
    table.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("shipped.rs"), table)?;
    Ok(())
}
