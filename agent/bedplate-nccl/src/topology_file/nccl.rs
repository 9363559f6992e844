//! Parser for NCCL's topology XML (handbook §8.7), limited to parts that sysfs can confirm. Pure.

use roxmltree::{Document, Node, ParsingOptions};

use super::ImportError;

/// Maximum number of elements in NCCL's parser (MAX_NODES in src/graph/xml.h).
const MOST_ELEMENTS: usize = 2048;
/// Maximum number of elements, texts and comments.
const MOST_NODES: u32 = 16 * 1024;
/// Maximum number of attributes per element. NCCL's parser accepts 16 (MAX_ATTR_COUNT in src/graph/xml.h).
const MOST_ATTRIBUTES: usize = 64;
/// Maximum nesting of `pci`; no machine has that many switches in a row.
const DEEPEST: usize = 32;

/// A topology file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// `version` of the system, verbatim.
    pub version: Option<String>,
    /// CPUs: `numaid` and `affinity`.
    pub cpus: Vec<(String, Option<String>)>,
    /// All `pci` elements, in file order.
    pub functions: Vec<Function>,
}

/// A `pci` element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// `busid`.
    pub busid: String,
    /// `busid` of the parent `pci`; `None`: directly below a CPU.
    pub above: Option<String>,
    /// `numaid` of the CPU above.
    pub numaid: String,
    /// Whether it contains a `gpu`.
    pub gpu: bool,
    /// Names of the `net`s in it.
    pub nets: Vec<String>,
    /// `class`.
    pub class: Option<String>,
}

impl Function {
    /// Whether this is a GPU, by content or by class. RCCL also accepts the class of an accelerator.
    pub fn is_gpu(&self) -> bool {
        self.gpu || self.has_class(&["0x03", "0x12"])
    }

    /// Whether this is a NIC, by content or by class.
    pub fn is_nic(&self) -> bool {
        !self.nets.is_empty() || self.has_class(&["0x02"])
    }

    /// Whether this is a switch.
    pub fn is_bridge(&self) -> bool {
        self.has_class(&["0x0604"])
    }

    fn has_class(&self, prefixes: &[&str]) -> bool {
        let class = self.class.as_deref().unwrap_or_default();
        prefixes.iter().any(|prefix| class.starts_with(prefix))
    }
}

/// Parses a topology. Ignores everything that NCCL ignores.
///
/// # Errors
/// The text is not XML, not a topology, or exceeds a limit.
pub fn parse(text: &str) -> Result<File, ImportError> {
    // The parser's own checks are quadratic in namespaces and attributes.
    let malformed = |why: &str| ImportError(format!("not well-formed XML: {why}"));
    if text.contains("xmlns") {
        return Err(malformed("namespaces, which NCCL never writes"));
    }
    // A value may contain `>`, but not `<`.
    if text.split('<').any(|tag| tag.matches('=').count() > MOST_ATTRIBUTES) {
        return Err(ImportError::too_many(MOST_ATTRIBUTES, "attributes in one element"));
    }
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::NodesLimitReached => ImportError::too_many(MOST_ELEMENTS, "elements"),
        error => malformed(&error.to_string()),
    })?;
    let system = document.root_element();
    match system.tag_name().name() {
        "system" => {}
        "graphs" => {
            return Err(ImportError(
                "graph file of rings and trees (<graphs>, for NCCL_GRAPH_FILE), not a topology (<system>, for \
                 NCCL_TOPO_FILE)"
                    .to_owned(),
            ));
        }
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(ImportError(format!(
                "the root element is <{other}>, not <system> as in an NCCL topology"
            )));
        }
    }
    if document.descendants().filter(Node::is_element).count() > MOST_ELEMENTS {
        return Err(ImportError::too_many(MOST_ELEMENTS, "elements"));
    }
    let version = system.attribute("version").map(str::to_owned);
    let mut file = File { version, cpus: Vec::new(), functions: Vec::new() };
    for cpu in named(system, "cpu") {
        let numaid = attribute(cpu, "numaid").unwrap_or_default();
        let affinity = attribute(cpu, "affinity").filter(|mask| !mask.is_empty());
        file.cpus.push((numaid.clone(), affinity));
        let mut waiting: Vec<(Node, Option<String>, usize)> =
            named(cpu, "pci").map(|pci| (pci, None, 0)).collect();
        while let Some((pci, above, depth)) = waiting.pop() {
            if depth > DEEPEST {
                return Err(ImportError::too_many(DEEPEST, "levels of switches"));
            }
            let busid = attribute(pci, "busid").unwrap_or_default();
            let below = named(pci, "pci").map(|child| (child, Some(busid.clone()), depth + 1));
            waiting.extend(below);
            let nets = named(pci, "nic").flat_map(|nic| named(nic, "net"));
            file.functions.push(Function {
                busid,
                above,
                numaid: numaid.clone(),
                gpu: named(pci, "gpu").next().is_some(),
                nets: nets.filter_map(|net| attribute(net, "name")).collect(),
                class: attribute(pci, "class"),
            });
        }
    }
    Ok(file)
}

fn named<'a, 'i>(above: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    above.children().filter(move |node| node.is_element() && node.tag_name().name() == name)
}

fn attribute(node: Node, name: &str) -> Option<String> {
    node.attribute(name).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files below 1 MiB that kept a parser busy for minutes.
    #[test]
    fn input_with_quadratic_cost_is_rejected_early() {
        let many =
            |one: &str| (0..10_000).map(|n| one.replace('N', &n.to_string())).collect::<String>();
        let attributes = format!("<system{}/>", many(" aN=\"\""));
        let refused = |text: &str| parse(text).expect_err("too many").to_string();
        assert_eq!(
            refused(&attributes),
            "more than 64 attributes in one element: not a plausible host"
        );
        let hidden = format!("<system><pci x=\">\"{}/></system>", many(" aN=\"\""));
        assert!(refused(&hidden).contains("attributes"));
        let namespaces = format!("<system>{}</system>", many("<a xmlns:nN=\"n\"/>"));
        assert!(refused(&namespaces).contains("namespaces"));
    }
}
