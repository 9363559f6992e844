//! Dependencies follow deny.toml: licences, sources, banned crates, and one version per crate. cargo-deny reads the same
//! file and also knows advisories (`.ci/run`), but takes longer to build than bedplate. Crates, and files within them,
//! depend on each other in one direction.

mod import_circles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
    /// `dev`, `build`, or `None` for normal dependencies.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

#[derive(Deserialize)]
struct Deny {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Named>,
    skip: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "crate")]
    name: String,
}

#[derive(Deserialize)]
struct Sources {
    #[serde(rename = "allow-registry")]
    registries: Vec<String>,
}

fn deny() -> Deny {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    toml::from_str(&std::fs::read_to_string(path).expect("it is there"))
        .expect("as cargo-deny has it")
}

/// Returns all packages that are built on one of the targets.
fn packages(deny: &Deny) -> Vec<Package> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--locked", "--format-version=1"])
        .args(deny.graph.targets.iter().map(|target| format!("--filter-platform={target}")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("JSON");
    let built: BTreeSet<String> = metadata.resolve.nodes.into_iter().map(|node| node.id).collect();
    let packages = metadata.packages.into_iter().filter(|package| built.contains(&package.id));
    let packages: Vec<Package> = packages.collect();
    assert!(packages.len() > 100, "{} packages", packages.len());
    packages
}

/// Whether an SPDX expression can be met with these licences. Older crates write `/` for OR.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let met = any_of(&mut words, allowed);
    assert!(words.is_empty(), "{expression} is no SPDX expression");
    met
}

fn any_of(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let mut met = all_of(words, allowed);
    while words.pop_if(|word| *word == "OR").is_some() {
        met |= all_of(words, allowed);
    }
    met
}

fn all_of(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let mut met = is_license_met(words, allowed);
    while words.pop_if(|word| *word == "AND").is_some() {
        met &= is_license_met(words, allowed);
    }
    met
}

fn is_license_met(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let word = words.pop().expect("a licence");
    if word == "(" {
        let met = any_of(words, allowed);
        assert_eq!(words.pop(), Some(")"));
        return met;
    }
    match words.pop_if(|word| *word == "WITH") {
        Some(_) => allowed.contains(&format!("{word} WITH {}", words.pop().expect("an exception"))),
        None => allowed.contains(word),
    }
}

#[test]
fn spdx_expressions_are_evaluated() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()]);
    for met in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "(X AND Y) OR MIT",
        "Apache-2.0 WITH LLVM-exception AND MIT",
    ] {
        assert!(is_met(met, &allowed), "{met}");
    }
    for other in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR X) AND Y", "MIT WITH X"] {
        assert!(!is_met(other, &allowed), "{other}");
    }
}

#[test]
fn licences_and_sources_are_allowed() {
    let deny = deny();
    let mut wrong = Vec::new();
    for package in packages(&deny) {
        let named = format!("{} {}", package.name, package.version);
        match &package.license {
            Some(license) if is_met(license, &deny.licenses.allow) => {}
            license => wrong.push(format!("{named}: licence {license:?}")),
        }
        let Some(source) = &package.source else { continue };
        let registry = source.strip_prefix("registry+").unwrap_or("no registry");
        if !deny.sources.registries.iter().any(|own| own == registry) {
            wrong.push(format!("{named}: from {source}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_banned_or_duplicate_crate_is_used() {
    let deny = deny();
    let packages = packages(&deny);
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &packages {
        if deny.bans.deny.iter().any(|banned| banned.name == package.name) {
            wrong.push(format!("{} is not to be used", package.name));
        }
        versions.entry(&package.name).or_default().push(&package.version);
        let own = package.source.is_none();
        for dependency in package.dependencies.iter().filter(|_| own) {
            if dependency.req == "*" && dependency.path.is_none() {
                wrong.push(format!("{} wants any version of {}", package.name, dependency.name));
            }
        }
    }
    let mut skipped: BTreeSet<&str> =
        deny.bans.skip.iter().map(|named| named.name.as_str()).collect();
    for (name, found) in &versions {
        let left: Vec<&&str> = found
            .iter()
            .filter(|version| !skipped.remove(format!("{name}@{version}").as_str()))
            .collect();
        if left.len() > 1 {
            wrong.push(format!("{name} in versions {left:?}: update, or say in deny.toml why not"));
        }
    }
    wrong
        .extend(skipped.iter().map(|stale| format!("deny.toml skips {stale}, which is not there")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The agent's crates with their allowed dependencies, as listed in docs/design.md.
fn layers() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/design.md");
    let text = std::fs::read_to_string(path).expect("it is there");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `bedplate"));
    let cells = rows.filter_map(|row| row.strip_suffix(" |")?.split_once("` | "));
    let all = cells.map(|(name, rest)| {
        let allowed = rest.rsplit(" | ").next().unwrap_or_default();
        let allowed = allowed.split(", ").map(|name| format!("bedplate-{name}")).collect();
        (format!("bedplate{name}"), allowed)
    });
    all.collect()
}

/// Normal dependencies only; tests may use more.
#[test]
fn crates_depend_on_each_other_as_the_layout_allows() {
    let layers = layers();
    assert_eq!(layers.len(), 10, "{layers:?}");
    let packages = packages(&deny());
    let mut wrong = Vec::new();
    for (name, allowed) in &layers {
        let Some(package) = packages.iter().find(|package| package.name == *name) else {
            wrong.push(format!("{name} is no package"));
            continue;
        };
        let own = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
        for dependency in own.filter(|dependency| dependency.kind.is_none()) {
            if !allowed.contains(&dependency.name) {
                wrong.push(format!("{name} -> {}", dependency.name));
            }
        }
    }
    let is_ours = |package: &&Package| package.name.starts_with("bedplate");
    let unknown = packages.iter().filter(is_ours).filter(|one| !layers.contains_key(&one.name));
    let unknown = unknown.filter(|package| package.name != "bedplate-tests");
    wrong.extend(unknown.map(|package| format!("{} is not in docs/design.md", package.name)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Source folders of the crates.
fn source_roots() -> Vec<PathBuf> {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("agent");
    let pattern = format!("{}/*/src", agent.display());
    glob::glob(&pattern).expect("a pattern").map(|root| root.expect("readable")).collect()
}

/// Source files below a folder, without those of tests, by their module.
fn source_files(root: &Path) -> BTreeMap<Vec<String>, PathBuf> {
    let pattern = format!("{}/**/*.rs", root.display());
    let files = glob::glob(&pattern).expect("a pattern").map(|file| file.expect("readable"));
    let modules = files.filter_map(|file| {
        let inside = file.strip_prefix(root).ok()?.with_extension("");
        let mut module: Vec<String> = inside.to_str()?.split('/').map(str::to_owned).collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        (!module.iter().any(|name| name == "tests")).then_some((module, file))
    });
    modules.collect()
}

#[test]
fn source_files_have_at_most_400_lines() {
    let mut long = Vec::new();
    for root in source_roots() {
        let files = glob::glob(&format!("{}/**/*.rs", root.display())).expect("a pattern");
        for file in files.map(|file| file.expect("readable")) {
            let lines = std::fs::read_to_string(&file).expect("UTF-8").lines().count();
            long.extend((lines > 400).then(|| format!("{} has {lines} lines", file.display())));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}
