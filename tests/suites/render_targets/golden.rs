//! Expected texts of every target: the first line of a file is the command, the rest its output.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bedplate_render::TARGETS;
use bedplate_tests::{expected, program};
use serde_json::Value;

fn directory() -> PathBuf {
    bedplate_tests::data("render")
}

#[test]
fn rendered_files_are_unchanged() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for target in TARGETS {
        let Ok(entries) = std::fs::read_dir(directory().join(target.name)) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let command = text.lines().next().unwrap_or_default().to_owned();
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(words[..4], ["$", "bedplate", "render", target.name], "{}", path.display());
            let actual = format!("{command}\n{}", output_of(&words[2..]));
            if let Err(difference) = expected::file(&path, &actual, "render_targets") {
                wrong.push(difference);
            }
            seen.insert(target.name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let missing: Vec<&str> =
        TARGETS.iter().map(|target| target.name).filter(|name| !seen.contains(name)).collect();
    assert_eq!(missing, [] as [&str; 0], "targets without a text in {}", directory().display());
}

/// Returns a command's result: files, notes, and remaining settings. Placeholders replace the digest, the version and the
/// profile's text, because those change with every new key of profiles.
fn output_of(args: &[&str]) -> String {
    let run = |args: &[&str]| {
        let output = program::bedplate(args).current_dir(directory()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&run(&[args, &["--json"]].concat())).unwrap();
    let name =
        args.iter().skip_while(|arg| **arg != "--profile").nth(1).expect("a profile is named");
    let profile = run(&["profile", "show", "--profile", name]);
    let digest = json["profile_digest"].as_str().unwrap();
    let mut text = String::new();
    for file in json["files"].as_array().unwrap() {
        let mode = file["mode"].as_u64().unwrap();
        let body = masked(file["text"].as_str().unwrap(), &profile, digest);
        text.push_str(&format!("--- {} {mode:04o} ---\n{body}", file["path"].as_str().unwrap()));
    }
    for left in json["deferred"].as_array().unwrap() {
        let part = |key: &str| left[key].as_str().unwrap().to_owned();
        text.push_str(&format!("deferred: {} ({}): {}\n", part("what"), part("id"), part("why")));
    }
    for note in json["notes"].as_array().unwrap() {
        text.push_str(&format!("note: {}\n", note.as_str().unwrap()));
    }
    for left in json["not_expressible"].as_array().unwrap() {
        let part = |key: &str| left[key].as_str().unwrap().to_owned();
        text.push_str(&format!(
            "not expressible: {} ({}): {}; instead: {}\n",
            part("what"),
            part("id"),
            part("why"),
            part("instead")
        ));
    }
    text
}

fn masked(text: &str, profile: &str, digest: &str) -> String {
    let quoted = serde_json::to_string(profile).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    // In a YAML block each line is indented.
    let indented = |by: usize| -> String {
        let line = |line: &str| {
            if line.is_empty() { "\n".to_owned() } else { format!("{:by$}{line}\n", "") }
        };
        profile.lines().map(line).collect()
    };
    let text = (4..=8).rev().fold(text.to_owned(), |text, by| {
        text.replace(&indented(by), &format!("{:by$}PROFILE\n", ""))
    });
    text.replace(profile, "PROFILE\n")
        .replace(quoted.trim_matches('"'), "PROFILE")
        .replace(&percent(profile), "PROFILE")
        .replace(digest, "DIGEST")
        .replace(&format!(", bedplate {version}"), ", bedplate VERSION")
        .replace(&percent(&format!(", bedplate {version}")), "%2C%20bedplate%20VERSION")
}

fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

#[test]
fn document_has_a_row_for_every_target() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/render.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("| target | what it makes |").expect("the table of targets");
    let table = table.lines().take_while(|line| line.starts_with('|') || line.ends_with('|'));
    let rows: Vec<&str> = table.filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), TARGETS.len(), "{rows:?}");
    for (row, target) in rows.iter().zip(TARGETS) {
        assert!(row.starts_with(&format!("| `{}` | {} | ", target.name, target.about)), "{row}");
        assert!(
            text.contains(&format!("**{}**", target.name)),
            "nothing to type for {}",
            target.name
        );
    }
}
