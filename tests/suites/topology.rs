//! Each directory in `tests/data/topology` is a machine: a description (`host.toml`, see `bedplate_testhosts`), its
//! topology worked out by hand (`by-hand.toml`, with the reason on top; never written by this program), and the output of
//! `bedplate topology` (`topology.txt`, `topology.json`, `nccl.xml`; `BLESS=1 cargo test -p bedplate-tests --test topology`
//! rewrites these).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bedplate::report::style;
use bedplate::report::topology::{self, Options, TopologyView};
use bedplate_core::documents as json;
use bedplate_core::engine::observe;
use bedplate_core::record::record;
use bedplate_facts::names::Names;
use bedplate_facts::topology::Topology;
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::{Depth, placement};
use bedplate_host::Reader;
use bedplate_host::snapshot::Snapshot;
use bedplate_nccl::Library;
use bedplate_nccl::topology_file as import;
use bedplate_nccl::topology_file::compare::compare;
use bedplate_nccl::topology_file::comparison_result::{Finding, HostValue};
use bedplate_testhosts::HostSpec;
use bedplate_tests::{expected, picture};
use libtest_mimic::{Arguments, Failed, Trial};
use serde::Deserialize;
use serde_json::Value;

/// A machine's topology, worked out by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByHand {
    #[serde(default)]
    vfs: bool,
    gpu: BTreeMap<String, Gpu>,
    /// All nets of NCCL, or an empty map if the machine is not special to NCCL.
    #[serde(default)]
    net: BTreeMap<String, Net>,
}

/// Place of a net in NCCL's topology.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Net {
    /// The net's PCI function.
    at: String,
    /// The switch above that function, or the number of the CPU's NUMA node.
    below: String,
    dev: usize,
    port: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "UPPERCASE")]
struct Gpu {
    #[serde(default)]
    pix: BTreeSet<String>,
    #[serde(default)]
    pxb: BTreeSet<String>,
    #[serde(default)]
    phb: BTreeSet<String>,
    #[serde(default)]
    node: BTreeSet<String>,
    /// Distance of all other devices.
    #[serde(rename = "rest")]
    rest: String,
    #[serde(rename = "nics")]
    nics: Vec<String>,
    #[serde(rename = "nvmes")]
    nvmes: Vec<String>,
}

fn main() {
    let arguments = Arguments::from_args();
    let directories = bedplate_tests::case::directories("topology");
    assert!(directories.len() >= 10, "tests/data/topology has {} machines", directories.len());
    let trials = directories
        .into_iter()
        .map(|(name, directory)| Trial::test(name, move || case(&directory).map_err(Failed::from)));
    let huge = Trial::test("ten thousand functions", || huge().map_err(Failed::from));
    libtest_mimic::run(&arguments, trials.chain([huge]).collect()).exit();
}

/// Every GPU of a machine with HGX boards has a separate NIC and disk in its switch.
fn huge() -> Result<(), String> {
    let spec = HostSpec { functions: 10_000, ..HostSpec::default() };
    let said = Said::read(&spec.build(), Options::default())?;
    let document: Value = serde_json::from_str(&said.json).map_err(|error| error.to_string())?;
    let pairs = document["pairing"].as_array().ok_or("no pairs")?;
    let own = |choices: &Value| {
        let first = &choices[0];
        first["distance"] == "PIX" && first["shared_with"].as_array().is_some_and(Vec::is_empty)
    };
    match pairs.iter().find(|pair| !own(&pair["nics"]) || !own(&pair["nvmes"])) {
        Some(pair) => Err(format!("{pair}")),
        None if pairs.len() < 250 => Err(format!("{} GPUs", pairs.len())),
        None => match said.svg.len() {
            ..2_000_000 if said.svg.contains("devices are not drawn") => Ok(()),
            length => Err(format!("a picture of {length} bytes")),
        },
    }
}

/// Checks that the picture shows every device once, and that no texts overlap.
fn drawn(svg: &str, document: &Value) -> Result<(), String> {
    let devices = ["gpus", "nics", "nvmes"].map(|kind| document[kind].as_array().cloned());
    let texts = picture::texts(svg)?;
    for device in devices.into_iter().flatten().flatten().filter(|device| device["class"] != "vf") {
        let address = device["address"].as_str().unwrap_or_default();
        let count = texts.iter().filter(|text| text.text == address).count();
        if count != 1 {
            return Err(format!("{address} is in the picture {count} times"));
        }
    }
    picture::apart(&texts)
}

fn case(directory: &Path) -> Result<(), String> {
    let host = bedplate_tests::case::host(directory)?;
    let text = std::fs::read_to_string(directory.join("by-hand.toml"))
        .map_err(|error| format!("by-hand.toml: {error}"))?;
    let by_hand: ByHand =
        toml::from_str(&text).map_err(|error| format!("by-hand.toml: {error}"))?;
    let options = Options { vfs: by_hand.vfs, all: false };
    let said = Said::read(&host, options)?;
    let document: Value = serde_json::from_str(&said.json).map_err(|error| error.to_string())?;
    if let Some(error) = validator().iter_errors(&document).next() {
        return Err(format!("the JSON breaks its schema at {}: {error}", error.instance_path()));
    }
    agrees(&by_hand, &document)?;
    expect(directory, "topology.txt", &said.text)?;
    expect(directory, "topology.json", &said.json)?;
    expect(directory, "nccl.xml", &said.nccl)?;
    well_formed(&said.nccl, &by_hand)?;
    drawn(&said.svg, &document)?;
    if let Some(found) = said.disagreements.first() {
        return Err(format!("what was written as NCCL's topology, read again: {found:?}"));
    }
    let recorded = Snapshot::from_text(&record(&host).to_text()).map_err(|e| e.to_string())?;
    match Said::read(&recorded, options)? == said {
        true => Ok(()),
        false => Err("a recording of it shows another topology".into()),
    }
}

/// Outputs for a host.
#[derive(PartialEq)]
struct Said {
    text: String,
    json: String,
    nccl: String,
    svg: String,
    /// Differences between `nccl` and the host.
    disagreements: Vec<Finding>,
}

impl Said {
    fn read(host: &dyn Reader, options: Options) -> Result<Self, String> {
        let facts = observe(host, Depth::Thorough);
        let tree = facts.pci.known().ok_or("the PCI tree is not known")?;
        let placement = placement::observe(host, tree);
        let names = Names::new(host, &facts);
        let shown = TopologyView::new(&facts, tree, &placement, &names, options);
        let text = style::terminal(&topology::text(&shown, options, 100));
        let json = topology::document(&shown, options, None, None);
        let json = json::document(&json).map_err(|error| error.to_string())?;
        let nccl = topology::nccl_xml(&shown);
        let imported = import::parse(&nccl).map_err(|error| error.to_string())?;
        let tree = Topology::new(tree);
        let devices = Devices::find(&tree, &placement, true);
        let library = Library::of_host(&facts);
        let here = HostValue { topology: &tree, devices: &devices, placement: &placement, library };
        let disagreements = compare(&imported, here).findings;
        let text = anstream::adapter::strip_str(&text).to_string();
        let svg = topology::svg(&shown);
        Ok(Said { text, json, nccl, svg, disagreements })
    }
}

fn agrees(by_hand: &ByHand, document: &Value) -> Result<(), String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let address = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let addresses = |value: &Value| list(value).iter().map(address).collect::<Vec<String>>();
    let gpus = list(&document["gpus"]);
    let found: BTreeSet<String> = gpus.iter().map(|gpu| address(&gpu["address"])).collect();
    let expected: BTreeSet<String> = by_hand.gpu.keys().cloned().collect();
    if found != expected {
        return Err(format!("GPUs: {found:?}, by hand {expected:?}"));
    }
    let all: BTreeSet<String> = ["gpus", "nics", "nvmes"]
        .iter()
        .flat_map(|kind| list(&document[*kind]))
        .map(|device| address(&device["address"]))
        .collect();
    for gpu in &gpus {
        let own = address(&gpu["address"]);
        let Gpu { pix, pxb, phb, node, rest, nics, nvmes } = &by_hand.gpu[&own];
        let named = [("PIX", pix), ("PXB", pxb), ("PHB", phb), ("NODE", node)];
        let mut others: BTreeMap<String, String> = all
            .iter()
            .filter(|other| **other != own)
            .map(|other| (other.clone(), rest.to_uppercase()))
            .collect();
        for (distance, members) in named {
            for member in members {
                let known = others.insert(member.clone(), distance.to_owned());
                if known.as_deref() != Some(&rest.to_uppercase()) {
                    return Err(format!("by hand, {own}: {member} is not there, or there twice"));
                }
            }
        }
        let mut shown: BTreeMap<String, String> = BTreeMap::new();
        for (distance, members) in gpu["distances"].as_object().into_iter().flatten() {
            let members = addresses(members);
            shown.extend(members.into_iter().map(|member| (member, distance.clone())));
        }
        if shown != others {
            return Err(format!("{own}: {shown:#?}, by hand {others:#?}"));
        }
        let pairing = list(&document["pairing"]);
        let pairing = pairing.iter().find(|pair| pair["gpu"] == own.as_str());
        let pairing = pairing.ok_or(format!("no pairing of {own}"))?;
        for (kind, expected) in [("nics", nics), ("nvmes", nvmes)] {
            let chosen = list(&pairing[kind]);
            let chosen: Vec<String> = chosen.iter().map(|peer| address(&peer["address"])).collect();
            if chosen != *expected {
                return Err(format!("{own}: {kind} {chosen:?}, by hand {expected:?}"));
            }
            // Each pair has the distance of the matrix, through the Data Direct function if there is one.
            for peer in list(&pairing[kind]) {
                let way = peer.get("via").unwrap_or(&peer["address"]);
                if peer["distance"].as_str() != others.get(&address(way)).map(String::as_str) {
                    return Err(format!("{own}: {peer}, by hand {:?}", others.get(&address(way))));
                }
            }
        }
    }
    Ok(())
}

/// Checks NCCL's limits and requirements: one `pci` per bus id, in order, with every GPU, below a `cpu`.
fn well_formed(xml: &str, by_hand: &ByHand) -> Result<(), String> {
    let document = roxmltree::Document::parse(xml).map_err(|error| error.to_string())?;
    let system = document.root_element();
    if system.tag_name().name() != "system" {
        return Err("no system".into());
    }
    // RCCL reads only version 2, NCCL version 1.
    let is_amds = |pci: &roxmltree::Node| pci.attribute("vendor") == Some("0x1002");
    let gpu_places =
        system.descendants().filter(|node| node.has_tag_name("gpu")).filter_map(|gpu| gpu.parent());
    let wanted = if gpu_places.clone().count() > 0 && gpu_places.clone().all(|pci| is_amds(&pci)) {
        "2"
    } else {
        "1"
    };
    if system.attribute("version") != Some(wanted) {
        return Err(format!("the system is not of version {wanted}"));
    }
    let mut gpus = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for element in system.descendants().filter(|node| node.is_element()) {
        let name = element.tag_name().name();
        let above = element.parent_element().map(|above| above.tag_name().name().to_owned());
        let fits = matches!(
            (above.as_deref(), name),
            (None, "system")
                | (Some("system"), "cpu")
                | (Some("cpu" | "pci"), "pci")
                | (Some("pci"), "gpu" | "nic")
                | (Some("nic"), "net")
        );
        if !fits || element.attributes().len() > 16 {
            return Err(format!("{name} below {above:?}"));
        }
        let busid = element.attribute("busid");
        if name == "pci" && !busid.is_some_and(|busid| seen.insert(busid.to_owned())) {
            return Err(format!("{busid:?} is there twice"));
        }
        let below = element.children().filter_map(|child| child.attribute("busid"));
        if !below.collect::<Vec<_>>().is_sorted() {
            return Err(format!("what is below {busid:?} is not sorted"));
        }
        if name == "gpu" {
            gpus.extend(element.parent_element().and_then(|pci| pci.attribute("busid")));
        }
    }
    let expected: BTreeSet<&str> = by_hand.gpu.keys().map(String::as_str).collect();
    if gpus != expected {
        return Err(format!("GPUs in XML: {gpus:?}"));
    }
    let nets = nets(system)?;
    match by_hand.net.is_empty() || nets == by_hand.net {
        true => Ok(()),
        false => Err(format!("nets in XML: {nets:#?}, by hand {:#?}", by_hand.net)),
    }
}

/// Returns the nets of NCCL's file by name.
fn nets(system: roxmltree::Node) -> Result<BTreeMap<String, Net>, String> {
    let mut nets = BTreeMap::new();
    for net in system.descendants().filter(|node| node.has_tag_name("net")) {
        let text = |node: Option<roxmltree::Node>, name| {
            let found = node.and_then(|node| node.attribute(name).map(str::to_owned));
            found.ok_or(format!("no {name} of {net:?}"))
        };
        let number = |name| {
            text(Some(net), name)
                .and_then(|text| text.parse().map_err(|_| format!("{name} {text}")))
        };
        let pci = net.ancestors().nth(2);
        let above = pci.and_then(|pci| pci.parent_element());
        let below = text(above, "busid").or_else(|_| text(above, "numaid"))?;
        let entry = Net {
            at: text(pci, "busid")?,
            below,
            dev: number("dev")? as usize,
            port: number("port")?,
        };
        if nets.insert(text(Some(net), "name")?, entry).is_some() {
            return Err(format!("{net:?} is there twice"));
        }
    }
    Ok(nets)
}

fn validator() -> &'static jsonschema::Validator {
    static VALIDATOR: std::sync::OnceLock<jsonschema::Validator> = std::sync::OnceLock::new();
    VALIDATOR.get_or_init(|| {
        let schema = serde_json::from_str(topology::SCHEMA).expect("a schema is JSON");
        jsonschema::validator_for(&schema).expect("it is a JSON Schema")
    })
}

fn expect(directory: &Path, name: &str, actual: &str) -> Result<(), String> {
    expected::file(&directory.join(name), actual, "topology")
}
