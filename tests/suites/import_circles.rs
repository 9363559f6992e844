//! Imports between the source files of a crate have no circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Segments = Vec<String>;
/// Absolute paths used by each module, with the name that `use` gives them.
type Imports = BTreeMap<Segments, Vec<(Segments, Option<String>)>>;

/// Splits code into words, `::` and punctuation, without comments and inline tests.
fn tokens(text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = product.lines().map(|line| line.split("//").next().unwrap_or_default());
    let marks = "{ } ( ) [ ] < > , ; . & | ! = * - + ? \" ' ::".split(' ');
    let spaced = marks.fold(code.collect::<Vec<_>>().join("\n"), |code, mark| {
        code.replace(mark, &format!(" {mark} "))
    });
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Reads the path or tree of paths at the start of `tokens`: each path with its name in this module.
fn read(tokens: &[String]) -> Vec<(Segments, String)> {
    let (mut found, mut around, mut before) = (Vec::new(), Vec::new(), "::");
    let (mut path, mut name) = (Segments::new(), String::new());
    for token in tokens {
        match (before, token.as_str()) {
            (_, "::" | "as") => {}
            ("::", "{") => around.push(path.clone()),
            (_, "," | "}") if !around.is_empty() => {
                found.push((std::mem::take(&mut path), std::mem::take(&mut name)));
                around.truncate(around.len() - usize::from(token == "}"));
                path = around.last().cloned().unwrap_or_default();
            }
            ("as", alias) => alias.clone_into(&mut name),
            ("::" | "{" | ",", word) if word.starts_with(char::is_alphanumeric) => {
                path.extend((word != "self" || path.is_empty()).then(|| word.to_owned()));
                name = path.last().cloned().unwrap_or_default();
            }
            _ => break,
        }
        before = token;
    }
    found.push((path, name));
    found.retain(|(_, name)| !name.is_empty());
    found
}

fn imports(
    text: &str,
    module: &Segments,
    files: &BTreeMap<Segments, PathBuf>,
) -> Vec<(Segments, Option<String>)> {
    let tokens = tokens(text);
    let mut imports = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let is_import = pair[0] == "use";
        let is_start = at == 0 || !matches!(tokens[at - 1].as_str(), "use" | "::" | "in");
        if !is_import && (pair[1] != "::" || !is_start) {
            continue;
        }
        for (path, name) in read(&tokens[at + usize::from(is_import)..]) {
            let ups = path.iter().take_while(|segment| *segment == "super").count();
            let is_absolute = path[0] == "crate";
            let depth = if is_absolute { 0 } else { module.len().saturating_sub(ups) };
            let skipped = ups.max(usize::from(is_absolute || path[0] == "self"));
            let whole = [&module[..depth], &path[skipped..]].concat();
            if skipped > 0 || files.contains_key(&whole[..=depth]) {
                imports.push((whole, is_import.then_some(name)));
            }
        }
    }
    imports
}

/// Returns the module of `path`, and also the module from which that one imports the name.
fn targets(path: &[String], imports: &Imports, depth: usize) -> Vec<Segments> {
    let known = (0..=path.len()).rev().find(|length| imports.contains_key(&path[..*length]));
    let (module, rest) = path.split_at(known.unwrap_or(0));
    let here = imports.get(module).filter(|_| depth > 0 && !rest.is_empty());
    let import = here.and_then(|here| here.iter().find(|(_, name)| name.as_ref() == rest.first()));
    let further = import.map(|(path, _)| targets(&[path, &rest[1..]].concat(), imports, depth - 1));
    [further.unwrap_or_default(), vec![module.to_vec()]].concat()
}

/// Returns the files of each circle. A module may use the modules around it.
fn circles(root: &Path) -> BTreeSet<String> {
    let files = super::source_files(root);
    let read =
        |module, file| imports(&std::fs::read_to_string(file).expect("UTF-8"), module, &files);
    let imports: Imports =
        files.iter().map(|(module, file)| (module.clone(), read(module, file))).collect();
    let edges = imports.iter().map(|(module, paths)| {
        let targets = paths.iter().flat_map(|(path, _)| targets(path, &imports, 8));
        (module, targets.filter(|target| !module.starts_with(target)).collect())
    });
    let edges: BTreeMap<&Segments, BTreeSet<Segments>> = edges.collect();
    let reached = edges.keys().map(|module| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![*module]);
        while let Some(module) = left.pop() {
            left.extend(edges[module].iter().filter(|target| reached.insert(*target)));
        }
        (*module, reached)
    });
    let reached: BTreeMap<&Segments, BTreeSet<&Segments>> = reached.collect();
    let circles = reached.iter().filter(|(module, targets)| targets.contains(*module));
    let named = circles.map(|(module, targets)| {
        let circle = targets.iter().filter(|target| reached[*target].contains(module));
        circle.map(|target| files[*target].to_string_lossy()).collect::<Vec<_>>().join(", ")
    });
    named.collect()
}

#[test]
fn imports_within_crates_have_no_circles() {
    let circles: Vec<String> =
        super::source_roots().iter().flat_map(|root| circles(root)).collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}
