//! Where to find what the tests check against but the repository does not carry: published schemas, recorded hosts,
//! and the real tools of a distribution. What is missing is said plainly; a CI run refuses to go without it.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Environment variable that names the directory with `schemas/` in it.
pub const FIXTURES_VAR: &str = "BEDPLATE_FIXTURES";

/// A file below the fixtures, or `None` with a line on stderr that says what is not checked.
///
/// # Panics
/// When it is missing and `CI=true`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = roots().into_iter().map(|root| root.join(name)).find(|path| path.exists());
    if path.is_none() {
        unchecked(&format!(
            "{name} is not there; set {FIXTURES_VAR} to the directory that holds it"
        ));
    }
    path
}

/// The fixtures beside the workspace, unless the environment names others.
fn roots() -> Vec<PathBuf> {
    if let Some(root) = std::env::var_os(FIXTURES_VAR) {
        return vec![PathBuf::from(root)];
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    workspace.and_then(Path::parent).map(|beside| beside.join("shared")).into_iter().collect()
}

/// A program, by name, in the directories where distributions put administrators' tools.
///
/// # Panics
/// When it is missing and `CI=true`.
pub fn tool(name: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let path = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
    if path.is_none() {
        unchecked(&format!("the program {name} is not installed"));
    }
    path
}

/// The Python into whose environment `tests/run` has put tests/requirements.txt.
///
/// # Panics
/// When it is missing and `CI=true`.
pub fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/bin/python");
    if !python.exists() {
        unchecked(
            "there is no target/python with the D-Bus client of tests/requirements.txt; tests/run makes it",
        );
        return None;
    }
    Some(python)
}

/// Says what was not checked, or fails where everything has to be.
///
/// # Panics
/// When `CI=true`.
pub fn unchecked(why: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "not checked, and CI=true wants everything: {why}"
    );
    eprintln!("NOT CHECKED: {why}");
}

/// A JSON or YAML document.
///
/// # Panics
/// When it cannot be read.
pub fn document(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Paths of all fields of `value` that `schema` does not name. Schemas for Kubernetes and Ignition let any field pass;
/// their consumers drop or refuse unknown ones.
pub fn unknown_fields(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, schema, value, "", &mut found);
    found
}

fn walk(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let parts = parts(root, schema);
            let open = |part: &&Value| {
                part.get("properties").is_none()
                    || part.get("additionalProperties").is_some_and(|more| more != false)
            };
            // A bare `type: object` (Kubernetes metadata, the embedded Ignition config) is not checked here.
            if parts.iter().all(open) {
                return;
            }
            for (name, field) in fields {
                let path = format!("{at}/{name}");
                match parts.iter().find_map(|part| part.get("properties")?.get(name)) {
                    Some(schema) => walk(root, schema, field, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            let schemas = parts(root, schema);
            let Some(schema) = schemas.iter().find_map(|part| part.get("items")) else { return };
            for (index, item) in items.iter().enumerate() {
                walk(root, schema, item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// A schema with its references followed and its `allOf` spread out.
fn parts<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#'));
        return target.map(|target| parts(root, target)).unwrap_or_default();
    }
    match schema.get("allOf").and_then(Value::as_array) {
        Some(all) => all.iter().flat_map(|schema| parts(root, schema)).collect(),
        None => vec![schema],
    }
}
