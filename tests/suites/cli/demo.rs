//! The snapshots behind `--demo`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use bedplate::demo;
use bedplate_tests::expected;

/// `BLESS=1` packs them again with this machine's `zstd`.
#[test]
fn demo_snapshots_are_those_of_the_made_up_hosts() {
    assert!(demo::names().map(|(name, _)| name).eq(bedplate_testhosts::names()));
    for name in bedplate_testhosts::names() {
        let built = bedplate_testhosts::snapshot(name).expect("it is a demo");
        let text = built.to_text();
        if demo::text(name).as_ref() != Some(&text) {
            assert!(expected::is_blessing(), "{name} differs: BLESS=1 cargo test … --test cli");
            pack(name, &text);
            continue;
        }
        assert_eq!(demo::snapshot(name), Some(built), "{name}");
    }
}

fn pack(name: &str, text: &str) {
    let path = format!("{}/../agent/bedplate/demos/{name}.bp.zst", env!("CARGO_MANIFEST_DIR"));
    let mut zstd = Command::new("zstd")
        .args(["--ultra", "-22", "-q", "-f", "-o"])
        .arg(Path::new(&path))
        .stdin(Stdio::piped())
        .spawn()
        .expect("zstd, of the package of that name");
    zstd.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    assert!(zstd.wait().expect("it ends").success());
}
