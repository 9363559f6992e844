//! `bedplate topology`: its output, and its verdict on topology files from elsewhere.

use std::path::Path;

use bedplate_host::snapshot::{Config, Node};
use bedplate_testhosts::HostSpec;
use bedplate_tests::{expected, program};

use crate::session::Session;
use crate::transcripts::CHANGES;

/// Two GPUs, one of them unreadable.
const GPU_UNREAD: &str = "machine = \"bare\"\n\
    denied = [\"/sys/devices/pci0000:10/0000:10:00.0/0000:11:00.0\"]\n\
    pci = [\n{ at = \"0000:10:00.0\", is = \"root-port\" },\n\
    { at = \"0000:11:00.0\", is = \"gpu\", under = \"0000:10:00.0\" },\n\
    { at = \"0000:20:00.0\", is = \"root-port\" },\n\
    { at = \"0000:21:00.0\", is = \"gpu\", under = \"0000:20:00.0\" },\n]\n";

/// One GPU and a CPU of unknown model.
const CPU_UNREAD: &str = "machine = \"bare\"\n\
    pci = [\n{ at = \"0000:20:00.0\", is = \"root-port\" },\n\
    { at = \"0000:21:00.0\", is = \"gpu\", under = \"0000:20:00.0\" },\n]\n\
    [files]\n\"/proc/cpuinfo\" = \"flags\\t: lm\\nvendor_id\\t: GenuineIntel\\n\"\n";

#[test]
fn topologies() {
    let session = Session::new();
    session
        .host("plain.bp", CHANGES)
        .host("gpu-unread.bp", GPU_UNREAD)
        .host("cpu-unread.bp", CPU_UNREAD)
        .host("unread.bp", "machine = \"plain\"\ndenied = [\"/sys/bus/pci/devices\"]\n")
        .image("image");
    session.expect(
        "topology",
        &[
            &["topology", "--demo", "gb200"],
            &["topology", "--demo", "grace", "--all"],
            &["topology", "--demo", "gb200", "--nccl-xml"],
            &["topology", "--demo", "gb200", "--nccl-xml", "--json"],
            &["topology", "--snapshot", "plain.bp"],
            &["topology", "--snapshot", "unread.bp"],
            &["topology", "--snapshot", "gpu-unread.bp"],
            &["topology", "--snapshot", "gpu-unread.bp", "--nccl-xml"],
            &["topology", "--snapshot", "cpu-unread.bp", "--nccl-xml"],
            &["topology", "--root", "image"],
            &["topology", "--demo", "hgx", "--svg", "--json"],
            &["topology", "--demo", "hgx", "-o", "x.svg"],
            &["topology", "--demo", "hgx", "--svg", "-o", "new.svg"],
            &["topology", "--demo", "hgx", "--html", "-o", "new.html"],
            &["topology", "--demo", "hgx", "--html", "--svg"],
            &["topology", "--demo", "hgx", "--svg", "-o", "plain.bp"],
            &["topology", "--snapshot", "unread.bp", "--svg", "-o", "unread.svg"],
        ],
    );
}

/// Port 1 of mlx5_2 is down, the state of mlx5_3 unreadable, and mlx5_4 on Ethernet.
const PORTS: &str = "machine = \"hgx\"\n\
    denied = [\"/sys/class/infiniband/mlx5_3/ports/1/state\"]\n\
    [files]\n\"/sys/class/infiniband/mlx5_2/ports/1/state\" = \"1: DOWN\\n\"\n\
    \"/sys/class/infiniband/mlx5_4/ports/1/link_layer\" = \"Ethernet\\n\"\n";

#[test]
fn variables_of_libraries() {
    let session = Session::new();
    session
        .host("plain.bp", CHANGES)
        .host("ports.bp", PORTS)
        .host("gpu-unread.bp", GPU_UNREAD)
        .host("unread.bp", "machine = \"plain\"\ndenied = [\"/sys/bus/pci/devices\"]\n")
        .image("image");
    session.expect(
        "topology-for",
        &[
            &["topology", "--demo", "hgx", "--for", "nccl"],
            &["topology", "--demo", "hgx", "--for", "ucx"],
            &["topology", "--demo", "hgx", "--for", "nvshmem"],
            &["topology", "--demo", "gb200", "--for", "ucx"],
            &["topology", "--demo", "gb300", "--for", "nixl"],
            &["topology", "--demo", "mi300x", "--for", "nccl"],
            &["topology", "--demo", "mi300x", "--for", "ucx"],
            &["topology", "--demo", "mi300x", "--for", "nvshmem"],
            &["topology", "--snapshot", "ports.bp", "--for", "nvshmem"],
            &["topology", "--snapshot", "plain.bp", "--for", "nccl"],
            &["topology", "--snapshot", "plain.bp", "--for", "ucx"],
            &["topology", "--snapshot", "gpu-unread.bp", "--for", "ucx"],
            &["topology", "--snapshot", "unread.bp", "--for", "ucx"],
            &["topology", "--root", "image", "--for", "ucx"],
            &["topology", "--demo", "hgx", "--for", "ucx", "--all"],
            &["topology", "--demo", "hgx", "--for", "mpi"],
        ],
    );
}

/// `--for nccl` sets the same as `nccl env`, and processes get the NICs of the pairing.
#[test]
fn variables_follow_nccl_env_and_the_pairing() {
    let session = Session::new();
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&session.run(args).stdout).expect("it is JSON")
    };
    for demo in bedplate_testhosts::names() {
        let env = json(&["nccl", "env", "--demo", demo, "--json"]);
        let topology = |library| json(&["topology", "--demo", demo, "--json", "--for", library]);
        assert_eq!(topology("nccl")["variables"]["host"], env["set"], "{demo}");
        let shown = topology("ucx");
        let pairs = shown["pairing"].as_array().expect("a list");
        let gpus = shown["variables"]["gpus"].as_array().expect("a list");
        assert_eq!((pairs.len(), pairs.is_empty()), (gpus.len(), false), "{demo}");
        for (pair, gpu) in pairs.iter().zip(gpus) {
            let address = &pair["nics"][0]["address"];
            let nics = shown["nics"].as_array().expect("a list");
            let nic = nics.iter().find(|nic| nic["address"] == *address).expect("the NIC");
            let port = format!("{}:1", nic["rdma"][0].as_str().expect("a name"));
            let value = gpu["set"][0]["value"].as_str().expect("a list of ports");
            assert_eq!((&gpu["gpu"], value.split(',').next()), (&pair["gpu"], Some(&*port)));
        }
    }
}

/// A GPU that does not respond is paired with nothing and takes no NIC: the rest keep theirs.
#[test]
fn dead_gpu_is_paired_with_nothing() {
    let session = Session::new();
    let mut host = HostSpec::from_toml("machine = \"hgx\"").expect("a description").build();
    let config = host.canonical("/sys/bus/pci/devices/0000:18:00.0/config");
    let blocks = [(0, vec![0xff; 4096])].into();
    host.insert(&config, Node::Config(Config { length: 4096, blocks, ..Config::default() }));
    session.file("dead.bp", host.to_text());
    let document = |args: &[&str]| {
        let output = session.run(&[&["topology", "--json"], args].concat());
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("it is JSON");
        document["pairing"].as_array().expect("a list").clone()
    };
    let nics = |pairing: &[serde_json::Value], gpu: &str| {
        let found = pairing.iter().find(|pair| pair["gpu"] == gpu).expect("the GPU");
        found["nics"][0]["why"].clone()
    };
    let whole = document(&["--demo", "hgx"]);
    let rest = document(&["--snapshot", "dead.bp"]);
    assert_eq!((whole.len(), rest.len()), (8, 7));
    for pair in &rest {
        let gpu = pair["gpu"].as_str().expect("an address");
        assert_eq!(nics(&rest, gpu), nics(&whole, gpu), "{gpu}");
    }
}

#[test]
fn documented_picture_matches_the_output() {
    let drawn = program::stdout(&["topology", "--demo", "hgx", "--svg"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/topology.svg");
    expected::file(&path, &drawn, "cli").expect("the picture in the README");
}

/// Topology files from elsewhere: a correct one, and each fault that occurs in them.
#[test]
fn imported_topologies() {
    let session = Session::new();
    let xml = program::stdout(&["topology", "--demo", "hgx", "--nccl-xml"]);
    let smi = include_str!("../../data/corpus/smi-topology/hgx");
    let nodes = ["00000000,000000ff,ffffffff,ffff0000,00000000,00ffffff,ffffffff", "SWAPPED"];
    let other = "ffffffff,ffffff00,00000000,0000ffff,ffffffff,ff000000,00000000";
    let swapped = xml.replace(nodes[0], nodes[1]).replace(other, nodes[0]).replace(nodes[1], other);
    assert_ne!(swapped, xml);
    session
        .file("right.xml", &xml)
        .file("version.xml", xml.replace("<system version=\"1\">", "<system version=\"2\">"))
        .file("swapped.xml", swapped)
        .file("other-host.xml", xml.replace("0000:18:00.0", "0000:1e:00.0"))
        .file("moved.xml", xml.replace("\"mlx5_0\"", "\"mlx5_9\"").replace("mlx5_2", "mlx5_3"))
        .file("graph.xml", include_str!("../../data/corpus/nccl-topology/graph"))
        .file("cut.xml", &xml[..xml.len() / 2])
        .file("right.txt", smi)
        .file(
            "wrong.txt",
            smi.replace("\nGPU0\t X \tNV18", "\nGPU0\t X \tSYS").replacen(
                "0-55,112-167",
                "56-111,168-223",
                1,
            ),
        )
        .file("no-legend.txt", smi.split("NIC Legend").next().unwrap())
        .file("half-a-legend.txt", smi.replace("  NIC3: mlx5_3\n", ""))
        .file("other.txt", "GPU 0: NVIDIA H100\n")
        .file("large.txt", " ".repeat((1 << 20) + 1));
    let import = |file: &'static str| ["topology", "--demo", "hgx", "--import", file];
    let files = [
        "right.xml",
        "version.xml",
        "swapped.xml",
        "other-host.xml",
        "moved.xml",
        "graph.xml",
        "cut.xml",
        "right.txt",
        "wrong.txt",
        "no-legend.txt",
        "half-a-legend.txt",
        "other.txt",
        "large.txt",
        "missing.xml",
    ];
    let commands: Vec<[&str; 5]> = files.into_iter().map(import).collect();
    let commands: Vec<&[&str]> = commands.iter().map(<[&str; 5]>::as_slice).collect();
    session.expect("topology-import", &commands);
}

/// A file of the form that clouds give their virtual machines: bridges missing from sysfs, nodes, neither `gpu` nor `net`.
fn of_cloud(nodes: [(&str, &[&str]); 2]) -> String {
    let mut bridge = 0;
    let cpus = nodes.map(|(node, groups)| {
        let mut cpu = format!("  <cpu numaid=\"{node}\" arch=\"x86_64\">\n");
        for group in groups {
            bridge += 1;
            cpu += &format!(
                "    <pci busid=\"ffff:ff:{bridge:02x}.0\" class=\"0x060400\" link_width=\"16\">\n"
            );
            for function in group.split(' ') {
                let (address, class) = function.split_once('=').unwrap_or((function, "0x030200"));
                cpu += &format!("      <pci busid=\"{address}\" class=\"{class}\"/>\n");
            }
            cpu += "    </pci>\n";
        }
        cpu + "  </cpu>\n"
    });
    format!("<system version=\"1\">\n{}</system>\n", cpus.concat())
}

/// NCCL uses the bridges of the file, whether or not sysfs has them, and adds missing data.
#[test]
fn imported_cloud_topologies() {
    let session = Session::new();
    let zero: &[&str] = &["0000:21:00.0 0000:22:00.0=0x020700", "0000:01:00.0"];
    let one: &[&str] = &["0000:a1:00.0 0000:a2:00.0=0x020000"];
    let others: &[&str] = &["0001:00:00.0 0101:00:00.0=0x020700", "0000:01:00.0"];
    session
        .file("right.xml", of_cloud([("0", zero), ("1", one)]))
        .file("swapped.xml", of_cloud([("1", zero), ("0", one)]))
        .file("one-node-wrong.xml", of_cloud([("1", zero), ("-1", &[])]))
        .file("another-vms.xml", of_cloud([("0", others), ("1", &["0000:01:00.0"])]))
        .file("no-bridges.xml", of_cloud([("0", &["0000:18:00.0"]), ("1", &[])]));
    let import =
        |(demo, file): (&'static str, &'static str)| ["topology", "--demo", demo, "--import", file];
    let commands = [
        ("epyc-l40s", "right.xml"),
        ("epyc-l40s", "swapped.xml"),
        ("epyc-l40s", "one-node-wrong.xml"),
        ("epyc-l40s", "another-vms.xml"),
        // sysfs has the switches of this machine.
        ("hgx", "no-bridges.xml"),
    ];
    let commands = commands.map(import);
    let commands: Vec<&[&str]> = commands.iter().map(<[&str; 5]>::as_slice).collect();
    session.expect("topology-import-cloud", &commands);
}

/// RCCL and NCCL read different versions of the file, and each accepts only its own.
#[test]
fn imported_topology_needs_the_version_of_the_library() {
    let session = Session::new();
    let own = program::stdout(&["topology", "--demo", "mi300x", "--nccl-xml"]);
    assert!(own.starts_with("<system version=\"2\">"), "{own}");
    let of_nccl = own.replace("<system version=\"2\">", "<system version=\"1\">");
    session.file("rccl.xml", &own).file("nccl.xml", of_nccl);
    let import = |file: &'static str| ["topology", "--demo", "mi300x", "--import", file];
    let commands = ["rccl.xml", "nccl.xml"].map(import);
    let commands: Vec<&[&str]> = commands.iter().map(<[&str; 5]>::as_slice).collect();
    session.expect("topology-import-amd", &commands);
}
