//! Host-wide variables of the collective library: /etc/nccl.conf or /etc/rccl.conf (handbook §8.6).

use std::collections::BTreeSet;

use bedplate_base::Reading;
use bedplate_host::Reader;

/// File that NCCL reads before each job.
pub const NCCL_CONF: &str = "/etc/nccl.conf";
/// File that RCCL reads before each job.
pub const RCCL_CONF: &str = "/etc/rccl.conf";

/// Content of the file, parsed as the library does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclConf {
    /// Path of the file.
    pub path: &'static str,
    /// Variables, the first line of each; `Absent`: no file.
    pub variables: Reading<Vec<Variable>>,
    /// Whether the configured topology file exists; `Absent`: not configured.
    pub topology_file: Reading<bool>,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Line number, from 1.
    pub line: usize,
    /// Name of the variable.
    pub name: String,
    /// Value, including blanks.
    pub value: String,
}

/// Variable with the path of a topology file.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";

/// Reads and parses the file.
pub fn observe(reader: &dyn Reader, path: &'static str) -> NcclConf {
    let variables = Reading::from_result(reader.read(path))
        .map(|bytes| variables(&String::from_utf8_lossy(&bytes)));
    let named = variables.known().and_then(|all| all.iter().find(|one| one.name == TOPOLOGY));
    let topology_file = match named {
        None => Reading::Absent,
        // A snapshot masks the paths of other files.
        Some(one) if !one.value.starts_with('/') => {
            Reading::unknown("the topology file's path is unknown")
        }
        Some(one) => match Reading::from_result(reader.exists(&one.value)) {
            Reading::Absent => Reading::Known(false),
            found => found,
        },
    };
    NcclConf { path, variables, topology_file }
}

/// Parses lines `NAME=value` without quotes. The first line of a name takes effect.
fn variables(text: &str) -> Vec<Variable> {
    let mut found: Vec<Variable> = Vec::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        if let Some((name, value)) = line.split_once('=')
            && !line.starts_with('#')
            && names.insert(name)
        {
            let (name, value) = (name.to_owned(), value.to_owned());
            found.push(Variable { line: number + 1, name, value });
        }
    }
    found
}

/// Returns the value on the first line of `name`, including blanks.
pub(crate) fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_of_a_name_wins() {
        let found = variables("#A=1\nA=2\nA=3\n B=4\nC=\n");
        let found: Vec<_> =
            found.iter().map(|one| (one.line, one.name.as_str(), one.value.as_str())).collect();
        assert_eq!(found, [(2, "A", "2"), (4, " B", "4"), (5, "C", "")]);
    }

    #[test]
    fn value_is_exact_text_of_first_line() {
        assert_eq!(value("NCCL_DEBUG=INFO\nA=106\nA=0\n", "A"), Some("106"));
        for text in ["", "# A=1", "A =106", "AX=1"] {
            assert_eq!(value(text, "A"), None, "{text}");
        }
    }
}
