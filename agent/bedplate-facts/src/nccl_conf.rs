//! Variables of the collective library for all jobs of a host: /etc/nccl.conf or /etc/rccl.conf (handbook §8.6).

use std::collections::BTreeSet;

use bedplate_base::Reading;
use bedplate_host::Reader;

/// File that NCCL reads before each job.
pub const NCCL_CONF: &str = "/etc/nccl.conf";
/// File that RCCL reads.
pub const RCCL_CONF: &str = "/etc/rccl.conf";

/// The file, as the library reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclConf {
    /// Its path.
    pub path: &'static str,
    /// Its variables, the first line of each; `Absent`: there is no such file.
    pub variables: Reading<Vec<Variable>>,
    /// Whether the topology file is there that it names; `Absent`: it names none.
    pub topology_file: Reading<bool>,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The line, from 1 on.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its value, blanks included.
    pub value: String,
}

/// The variable that names a topology file.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";

/// Reads it.
pub fn observe(reader: &dyn Reader, path: &'static str) -> NcclConf {
    let variables = Reading::from_result(reader.read(path))
        .map(|bytes| variables(&String::from_utf8_lossy(&bytes)));
    let named = variables.known().and_then(|all| all.iter().find(|one| one.name == TOPOLOGY));
    let topology_file = match named {
        None => Reading::Absent,
        // A recording masks where another's file is.
        Some(one) if !one.value.starts_with('/') => Reading::unknown("its path is not known"),
        Some(one) => match Reading::from_result(reader.exists(&one.value)) {
            Reading::Absent => Reading::Known(false),
            found => found,
        },
    };
    NcclConf { path, variables, topology_file }
}

/// A line is `NAME=value`, without quotes; what is set already stays.
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

/// The value of one variable: the first line counts, and blanks are part of it.
pub(crate) fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_name_counts() {
        let found = variables("#A=1\nA=2\nA=3\n B=4\nC=\n");
        let found: Vec<_> =
            found.iter().map(|one| (one.line, one.name.as_str(), one.value.as_str())).collect();
        assert_eq!(found, [(2, "A", "2"), (4, " B", "4"), (5, "C", "")]);
    }

    #[test]
    fn a_value_is_that_of_the_first_line_with_its_blanks() {
        assert_eq!(value("NCCL_DEBUG=INFO\nA=106\nA=0\n", "A"), Some("106"));
        for text in ["", "# A=1", "A =106", "AX=1"] {
            assert_eq!(value(text, "A"), None, "{text}");
        }
    }
}
