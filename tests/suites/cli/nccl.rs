//! `bedplate nccl env`: recommended settings of NCCL, RCCL or oneCCL for a host.

use std::path::Path;

use bedplate::report::nccl;
use bedplate_tests::expected;

use crate::session::Session;
use crate::transcripts::CHANGES;

#[test]
fn recommended_nccl_settings() {
    let session = Session::new();
    session
        .host("plain.bp", CHANGES)
        .host("unread.bp", "machine = \"plain\"\ndenied = [\"/sys/bus/pci/devices\"]\n")
        .image("image");
    session.expect(
        "nccl",
        &[
            &["nccl", "env", "--demo", "hgx"],
            &["nccl", "env", "--demo", "hgx", "--nccl-version", "2.12", "-v"],
            &["nccl", "env", "--demo", "hgx", "--format", "sh"],
            &["nccl", "env", "--demo", "gb300", "--format", "k8s"],
            &["nccl", "env", "--demo", "b300", "--format", "slurm"],
            &["nccl", "env", "--demo", "grace", "--nccl-version", "2.28"],
            &["nccl", "env", "--demo", "mi300x", "--json"],
            &["nccl", "env", "--demo", "mi300x", "--nccl-version", "2.21", "-v"],
            &["nccl", "env", "--demo", "mi300x", "--nccl-version", "2.27", "-v"],
            &["nccl", "env", "--demo", "mi300x", "--library", "nccl"],
            &["nccl", "env", "--demo", "hgx", "--library", "oneccl", "-v"],
            &["nccl", "env", "--demo", "hgx", "--library", "oneccl", "--format", "conf"],
            &["nccl", "env", "--demo", "hgx", "--nccl-version", "2.4"],
            &["nccl", "env", "--snapshot", "plain.bp"],
            &["nccl", "env", "--snapshot", "unread.bp"],
            &["nccl", "env", "--root", "image"],
            &["nccl", "env", "--nccl-version", "2.x"],
            &["nccl", "env", "--demo", "hgx", "--nccl-version", "3.1"],
            &["nccl", "env", "--demo", "mi300x", "--nccl-version", "2.7"],
        ],
    );
}

/// InfiniBand and Ethernet ports in one list make jobs fail.
#[test]
fn list_has_one_link_layer() {
    let session = Session::new();
    let layer = |port: u8| {
        format!("\"/sys/class/infiniband/mlx5_{port}/ports/1/link_layer\" = \"Ethernet\\n\"\n")
    };
    let layers = |ports| (0..ports).map(layer).collect::<String>();
    session
        .host("tie.bp", &format!("machine = \"hgx\"\n[files]\n{}", layers(4)))
        .host("three.bp", &format!("machine = \"hgx\"\n[files]\n{}", layers(3)))
        .host(
            "unread.bp",
            "machine = \"hgx\"\ndenied = [\"/sys/class/infiniband/mlx5_2/ports/1/state\"]\n",
        )
        .host(
            "unread-layer.bp",
            "machine = \"hgx\"\ndenied = [\"/sys/class/infiniband/mlx5_2/ports/1/link_layer\"]\n",
        );
    session.expect(
        "nccl-link-layer",
        &[
            &["nccl", "env", "--demo", "gb200"],
            &["nccl", "env", "--demo", "gb200", "--nccl-version", "2.28"],
            &["nccl", "env", "--demo", "vera-rubin"],
            &["nccl", "env", "--demo", "gb300"],
            &["nccl", "env", "--demo", "epyc-l40s"],
            &["nccl", "env", "--snapshot", "three.bp", "--format", "k8s"],
            &["nccl", "env", "--snapshot", "tie.bp"],
            &["nccl", "env", "--snapshot", "unread.bp", "--format", "sh"],
            &["nccl", "env", "--snapshot", "unread-layer.bp"],
        ],
    );
}

/// A virtual machine: GPU and NIC on its one root bus.
const VM: &str = r#"machine = "bare"
nvidia = "open"
pci = [
  { at = "0000:00:06.0", is = "gpu" },
  { at = "0000:00:07.0", is = "nic" },
]
[files]
"/proc/cpuinfo" = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor lahf_lm\n"
"#;

#[test]
fn virtual_machine_is_offered_a_topology_file() {
    let session = Session::new();
    let image = |name: &str, gpu: &str| {
        let text = format!(
            "<system version='1'><cpu numaid='0'><pci busid='{gpu}' class='0x030200'/></cpu></system>"
        );
        format!("\"/opt/microsoft/{name}-topo.xml\" = \"{text}\"\n")
    };
    let others = image("ndv4", "0001:00:00.0");
    let of_size = format!("{VM}{others}{}", image("ndv5", "0000:00:06.0"));
    let conf = "\"/etc/nccl.conf\" = \"NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml\\n\"\n";
    session
        .host("vm.bp", VM)
        .host("other-size.bp", &format!("{VM}{others}"))
        .host("image.bp", &of_size)
        .host("set.bp", &format!("{of_size}{conf}"));
    session.expect(
        "nccl-vm",
        &[
            &["nccl", "env", "--snapshot", "vm.bp"],
            &["nccl", "env", "--snapshot", "other-size.bp"],
            &["nccl", "env", "--snapshot", "image.bp", "--format", "slurm"],
            &["nccl", "env", "--snapshot", "set.bp"],
        ],
    );
}

/// The documentation's table matches the program's.
#[test]
fn documented_variables_match_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nccl.md");
    expected::file(&path, &nccl::markdown(), "cli").expect("docs/nccl.md");
}
