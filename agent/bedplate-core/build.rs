//! Embeds every profile in `profiles/`, except the sample, in the program: `profile/shipped.rs` includes the table.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// Template of `bedplate profile init`, not a profile of a machine.
const SAMPLE: &str = "example";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=profiles");
    let dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("profiles");
    let failed = |error: &dyn Error| format!("{}, the shipped profiles: {error}", dir.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|error| failed(&error))? {
        let file = entry.map_err(|error| failed(&error))?.file_name();
        let file =
            file.to_str().ok_or_else(|| format!("{}: {file:?} is not UTF-8", dir.display()))?;
        // Hidden files belong to an editor.
        let name = file.strip_suffix(".toml").filter(|name| !name.starts_with('.'));
        names.extend(name.filter(|name| *name != SAMPLE).map(str::to_owned));
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
