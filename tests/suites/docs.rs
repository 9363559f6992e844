//! References in the repository's texts to `docs/` resolve: sections of the handbook and of the design, files named in the
//! documents, and link targets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bedplate_core::verify::CHECKS;
use bedplate_tests::program;

/// Documents that are cited by section, under the names used for citations.
const CITED: [&str; 2] = ["handbook", "design"];
/// Documents whose links and source paths must resolve.
const LINKING: [&str; 30] = [
    "CONTRIBUTING.md",
    "README.md",
    "docs/SUMMARY.md",
    "docs/architecture.md",
    "docs/comparison.md",
    "docs/daemon.md",
    "docs/design.md",
    "docs/distributions.md",
    "docs/fabrics.md",
    "docs/handbook.md",
    "docs/hardware.md",
    "docs/how-do-i.md",
    "docs/howtos.md",
    "docs/incident.md",
    "docs/install.md",
    "docs/integrations.md",
    "docs/introduction.md",
    "docs/operations.md",
    "docs/performance.md",
    "docs/plan.md",
    "docs/profile.md",
    "docs/reboot.md",
    "docs/reboots.md",
    "docs/release.md",
    "docs/render.md",
    "docs/security.md",
    "docs/topology.md",
    "docs/tutorial.md",
    "docs/verify.md",
    "packaging/README.md",
];
/// Directories without texts of the repository.
const SKIPPED: [&str; 3] = [".git", "target", "node_modules"];

type Sections = BTreeMap<&'static str, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns every text of the repository by its path.
fn texts() -> BTreeMap<String, String> {
    let root = root();
    let (mut open, mut found) = (vec![root.clone()], BTreeMap::new());
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the repository") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("its type");
            if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                open.push(entry.path());
            } else if kind.is_file()
                && let Ok(text) = std::fs::read_to_string(entry.path())
            {
                let path = entry.path();
                let path = path.strip_prefix(&root).expect("below the root");
                found.insert(path.display().to_string(), text);
            }
        }
    }
    found
}

/// Returns the sections of a document: `3` and `3.1` by their headings, `12.40` by an entry of a numbered list in section
/// 12.
fn sections(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut chapter = None;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            chapter = heading.split_once(". ").map(|(number, _)| number.to_owned());
            found.extend(chapter.clone());
        } else if let Some(heading) = line.strip_prefix("### ") {
            let number = heading.split(' ').next().unwrap_or_default();
            assert!(found.insert(number.to_owned()), "two sections are called {number}");
            // Lists below a subsection belong to it.
            chapter = None;
        } else if let (Some(chapter), Some((number, _))) = (&chapter, line.split_once(". "))
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            let number = format!("{chapter}.{number}");
            assert!(found.insert(number.clone()), "two sections are called {number}");
        }
    }
    found
}

/// Returns every citation in a text: `handbook §3.2`, `design §6, §7`, also across a line break. A `§` without a name is a
/// section of the document itself; in other texts it belongs to another source.
fn citations(text: &str, own: Option<&'static str>) -> Vec<(&'static str, String)> {
    let text = text.to_lowercase();
    let gap = |character: char| character.is_whitespace() || "/!#|,".contains(character);
    let (mut found, mut name, mut end) = (Vec::new(), None, 0);
    for (at, sign) in text.match_indices('§') {
        let before = text[end..at].trim_matches(gap);
        if end == 0 || !matches!(before, "" | "and") {
            let before = before.strip_suffix(".md").unwrap_or(before);
            name = CITED.into_iter().find(|name| before.ends_with(name)).or(own);
        }
        let after = &text[at + sign.len()..];
        let length = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
        let number = after[..length].trim_end_matches('.');
        end = at + sign.len() + number.len();
        found.extend(name.map(|name| (name, number.to_owned())));
    }
    found
}

/// Returns citations of sections that do not exist.
fn dangling(text: &str, own: Option<&'static str>, sections: &Sections) -> Vec<String> {
    citations(text, own)
        .into_iter()
        .filter(|(name, number)| !sections[name].contains(number))
        .map(|(name, number)| format!("{name} §{number}"))
        .collect()
}

fn shipped() -> Sections {
    CITED.map(|name| (name, sections(&document(&format!("docs/{name}.md"))))).into()
}

#[test]
fn every_cited_section_exists() {
    let sections = shipped();
    let (mut found, mut wrong) = (0, Vec::new());
    for (path, text) in texts() {
        // This file has wrong citations on purpose.
        if path.ends_with("suites/docs.rs") {
            continue;
        }
        let own = CITED.into_iter().find(|name| path == format!("docs/{name}.md"));
        found += citations(&text, own).len();
        wrong.extend(
            dangling(&text, own, &sections).into_iter().map(|cited| format!("{path}: {cited}")),
        );
    }
    assert!(wrong.is_empty(), "cited and not in docs/:\n{}", wrong.join("\n"));
    assert!(found > 200, "only {found} citations were found: are the texts looked at?");
}

#[test]
fn dangling_citation_is_found() {
    let sections: Sections = [
        (
            "handbook",
            sections("## 3. ACS\n### 3.1 Finding it\n## 12. Errors\n\n1. one\n40. forty\n"),
        ),
        ("design", sections("## 8. Rules\n4. Reboots\n")),
    ]
    .into();
    let wrong = |text| dangling(text, None, &sections);
    for right in [
        "handbook §3",
        "(Handbook §3.1; design §8.4)",
        "handbook §12.40.",
        "handbook\n/// §3.1, §12.1",
        "Microsoft PE/COFF specification §99, §98",
    ] {
        assert!(wrong(right).is_empty(), "{right}: {:?}", wrong(right));
    }
    assert_eq!(wrong("// (handbook §3.9)"), ["handbook §3.9"]);
    assert_eq!(wrong("DESIGN §8.5"), ["design §8.5"]);
    assert_eq!(wrong("design.md §4"), ["design §4"]);
    assert_eq!(wrong("handbook §3.1, §3.2"), ["handbook §3.2"]);
    assert_eq!(wrong("handbook\n    //! §41"), ["handbook §41"]);
    assert_eq!(wrong("handbook §12.41"), ["handbook §12.41"]);
    assert_eq!(wrong("design §8 and §9"), ["design §9"]);
    let own = dangling("§3.1 and §7; design §8; see §8", Some("handbook"), &sections);
    assert_eq!(own, ["handbook §7", "handbook §8"]);
}

/// Returns paths of source files in a document: words that end in `.rs`, without wildcards.
fn sources(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| c.is_whitespace() || "`(),;:".contains(c))
        .filter(|word| word.ends_with(".rs") && !word.contains('*'))
        .collect()
}

#[test]
fn files_named_in_the_architecture_exist() {
    let text = document("docs/architecture.md");
    let named = sources(&text);
    assert!(named.len() > 30, "{named:?}");
    let file = |name: &str| match name.split_once('/') {
        Some(("agent", _)) => name.to_owned(),
        Some(("bedplate", rest)) => format!("agent/bedplate/src/{rest}"),
        Some((of, rest)) => format!("agent/bedplate-{of}/src/{rest}"),
        None => format!("agent/{name}"),
    };
    let missing: Vec<&&str> =
        named.iter().filter(|name| !root().join(file(name)).exists()).collect();
    assert!(missing.is_empty(), "named in docs/architecture.md, and not there: {missing:?}");
}

/// Documents that name files by their path in the repository.
const WITH_PATHS: [&str; 5] =
    ["CONTRIBUTING.md", "README.md", "docs/design.md", "docs/security.md", "docs/handbook.md"];

/// Each path exists. A name before a path in parentheses (`` `NAME` (`path` ``) is defined in that file.
#[test]
fn paths_named_in_documents_exist() {
    let mut paths = 0;
    for document_path in WITH_PATHS {
        let text = document(document_path).replace("\n", " ");
        let words: Vec<&str> = text.split('`').collect();
        for (at, word) in words.iter().enumerate().skip(1).step_by(2) {
            let is_path =
                ["agent/", "tests/", "packaging/"].iter().any(|top| word.starts_with(top));
            let path = word.split(' ').next().unwrap_or_default();
            if !is_path || path.contains(['*', '<']) || path.bytes().any(|b| b.is_ascii_uppercase())
            {
                continue;
            }
            paths += 1;
            let file = root().join(path);
            assert!(file.exists(), "{document_path} names {path}, which is not there");
            if words[at - 1].trim() == "(" && at >= 2 && path.ends_with(".rs") {
                let source = std::fs::read_to_string(&file).expect("it is a file");
                let name = words[at - 2];
                let defines = |kind: &&str| source.contains(&format!("{kind} {name}"));
                let kinds =
                    ["const", "static", "struct", "enum", "trait", "type", "fn", "macro_rules!"];
                assert!(kinds.iter().any(defines), "{document_path}: {path} has no {name}");
            }
        }
    }
    assert!(paths > 40, "only {paths} paths");
}

#[test]
fn modules_of_the_layout_exist() {
    let text = document("docs/design.md");
    let layout = text.split("\n## ").find(|section| section.starts_with("4. Layout"));
    let mut folder = String::new();
    let mut rooms = 0;
    for row in layout.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| ")) {
        if let Some(name) = row.strip_prefix("**`") {
            folder = format!("agent/{}/src", name.split('`').next().unwrap_or_default());
            continue;
        }
        let cell = row.split(" | ").next().filter(|_| !folder.is_empty()).unwrap_or_default();
        for room in cell.split('`').filter(|name| name.ends_with('/') || name.ends_with(".rs")) {
            let path = format!("{folder}/{room}");
            assert!(root().join(&path).exists(), "{path} is not there");
            rooms += 1;
        }
    }
    assert!(rooms > 50, "{rooms}");
}

#[test]
fn link_targets_exist() {
    let mut links = 0;
    for path in LINKING {
        let text = document(path);
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if target.contains("://") || file.is_empty() {
                continue;
            }
            links += 1;
            let file = root().join(path).with_file_name("").join(file);
            assert!(file.exists(), "{path} links to {target}, which is not there");
        }
    }
    assert!(links >= 5, "only {links} links were found");
}

/// Every step has an answer that exists: checks, commands and their options. Every entry of §12 has a step.
#[test]
fn how_to_steps_have_existing_answers() {
    let text = document("docs/howtos.md");
    let rows: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | "))
        .filter(|(_, answer)| *answer != "answered by")
        .collect();
    assert!(rows.len() > 60, "{}", rows.len());
    let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    let groups: BTreeSet<&str> = ids.iter().filter_map(|id| id.split('.').next()).collect();
    let mut commands = BTreeSet::new();
    for (step, answer) in &rows {
        let named: Vec<&str> = answer.split('`').skip(1).step_by(2).collect();
        let checks = named
            .iter()
            .filter(|word| word.split('.').next().is_some_and(|at| groups.contains(at)));
        for id in checks.clone() {
            assert!(ids.contains(id), "{step}: there is no check {id}");
        }
        let run: Vec<&str> =
            named.iter().filter_map(|word| word.strip_prefix("bedplate ")).collect();
        let is_answered = checks.count() + run.len() > 0 || answer.starts_with("none");
        assert!(is_answered, "{step}: {answer}");
        commands.extend(run);
    }
    for command in &commands {
        let (words, rest): (Vec<&str>, Vec<&str>) =
            command.split(' ').partition(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
        let help = program::stdout(&[&words[..], &["--help"]].concat());
        for option in rest.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "bedplate {command}: no {option}");
        }
    }
    assert!(commands.len() > 4, "{commands:?}");
    let steps = rows.iter().filter_map(|(step, _)| step.split_once(": "));
    let numbers: BTreeSet<String> = steps
        .flat_map(|(numbers, _)| numbers.split(", "))
        .map(|number| format!("12.{number}"))
        .collect();
    let cited = &shipped()["handbook"];
    let missing: Vec<&String> =
        cited.iter().filter(|at| at.starts_with("12.") && !numbers.contains(*at)).collect();
    assert!(missing.is_empty(), "of the handbook and without an answer: {missing:?}");
}

/// The table of `bedplate seal` matches the code.
#[test]
fn seal_table_in_the_document_matches_the_code() {
    let table = bedplate_core::seal::markdown();
    assert!(document("docs/render.md").contains(&table), "docs/render.md lacks:\n{table}");
}
