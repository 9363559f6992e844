//! The container of the Kubernetes manifests on a node: with exactly their mounts and rights, its verdict is the host's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use bedplate_tests::oci::{self, LIBRARIES};
use serde_json::Value;

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("container::verdict_of_the_host", verdict_of_the_host)];

const DAEMON_SET: &str = include_str!("../../../packaging/integrations/kubernetes/daemonset.yaml");
/// Checks of the kernel log: the device cgroup keeps /dev/kmsg from containers (docs/integrations.md).
const UNKNOWN_IN_CONTAINER: [&str; 4] =
    ["cmdline.rejected", "iommu.log", "modules.log", "pcie.log"];
/// Directory of the bundle.
const BUNDLE: &str = "/run/bundle";

/// The pod of the DaemonSet on this node.
struct Pod<'a> {
    node: &'a Node,
    pod: Value,
}

impl<'a> Pod<'a> {
    fn new(node: &'a Node) -> Result<Self> {
        let set: Value = serde_saphyr::from_str(DAEMON_SET)?;
        node.ok("dpkg -i /var/lib/vm/crun/*.deb")?;
        node.ok(&format!(
            "mkdir -p {BUNDLE}/rootfs/usr/bin {BUNDLE}/volumes/conditions {BUNDLE}/volumes/labels {BUNDLE}/volumes/profile && \
             cp /usr/bin/bedplate {BUNDLE}/rootfs/usr/bin/ && cp {PROFILE_PATH} {BUNDLE}/volumes/profile/profile.toml && \
             chmod 777 {BUNDLE}/volumes/conditions"
        ))?;
        Ok(Pod { node, pod: set["spec"]["template"]["spec"].clone() })
    }

    /// Runs `bedplate` with these arguments in the container `verify`, in the background if they do not end.
    fn run(&self, args: &[&str], then: &str) -> Result<String> {
        let verify = oci::container(&self.pod, "verify");
        let source = |volume: &str| match volume {
            "host" => PathBuf::from("/"),
            volume => PathBuf::from(format!("{BUNDLE}/volumes/{volume}")),
        };
        let own = args.iter().map(|one| (*one).to_owned());
        let args: Vec<String> = ["/usr/bin/bedplate".to_owned()].into_iter().chain(own).collect();
        let config = oci::config(&self.pod, verify, &args, &LIBRARIES, &source);
        self.node.put(&format!("{BUNDLE}/config.json"), config.to_string())?;
        let said = self.node.run(&format!(
            "cd {BUNDLE} && crun --cgroup-manager=cgroupfs run verify {then} 2>{BUNDLE}/errors"
        ))?;
        let errors = self.node.ok(&format!("cat {BUNDLE}/errors"))?;
        check!([0, 4, 5].contains(&said.status), "{args:?}: {said:?}: {errors}");
        Ok(said.stdout)
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.run(args, "")?)?)
    }
}

fn verdicts(report: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().into_iter().flatten();
    checks.map(|check| (text(&check["id"]), text(&check["verdict"]))).collect()
}

/// Compares the reports of host and container, on both stages.
fn same_verdict(pod: &Pod<'_>, expected: &str) -> Result<()> {
    for stage in ["host", "gpudirect"] {
        let host =
            guest::json(pod.node, &format!("bedplate verify --stage {stage} --json || true"))?;
        let inside = pod.json(&[
            "verify",
            "--host-root=/host",
            "--profile=/profile/profile.toml",
            "--json",
            "--stage",
            stage,
        ])?;
        same!(inside["answer"], host["answer"], "the answer on stage {stage}");
        same!(inside["decided_by"], host["decided_by"], "what decides on stage {stage}");
        same!(inside["answer"], expected, "stage {stage}: {}", inside["reason"]);
        for field in ["machine_id", "boot_id", "program_version"] {
            same!(inside[field], host[field], "{field}");
        }
        let (outside, inside) = (verdicts(&host), verdicts(&inside));
        let differs: BTreeSet<&str> = outside
            .iter()
            .filter(|(id, verdict)| inside.get(*id) != Some(*verdict))
            .map(|(id, _)| id.as_str())
            .collect();
        let allowed: BTreeSet<&str> = UNKNOWN_IN_CONTAINER.into();
        check!(differs.is_subset(&allowed), "{differs:?} differ: {inside:?}, {outside:?}");
        check!(differs.iter().all(|id| inside[*id] == "unknown"), "{differs:?}: {inside:?}");
    }
    Ok(())
}

fn verdict_of_the_host(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, guest::profile_with_vfs(1) + guest::STAND_INS)?;
    let pod = Pod::new(&node)?;

    node.step("as Debian boots it: not ready, inside and outside");
    same_verdict(&pod, "not-ready")?;

    node.step("in effect: ready, inside and outside");
    node.expect(3, "bedplate apply --yes")?;
    node.put("/etc/systemd/system/bedplate-boot.service", UNIT)?;
    node.ok("systemctl daemon-reload && systemctl enable bedplate-boot.service")?;
    node.reboot()?;
    let pod = Pod::new(&node)?;
    same_verdict(&pod, "ready")?;

    node.step("plan and snapshot");
    let plan =
        pod.json(&["plan", "--host-root=/host", "--profile=/profile/profile.toml", "--json"])?;
    same!(plan["changes"].as_array().map(Vec::len), Some(0), "changes in the container");
    let outside = node.ok("bedplate topology --json")?;
    let inside = pod.run(&["topology", "--host-root=/host", "--json"], "")?;
    same!(inside.trim_end(), outside, "the topology");
    check!(
        pod.run(&["snapshot", "--host-root=/host", "--out=-"], "")?.len() > 10_000,
        "the snapshot is short"
    );

    node.step("a port redirects again: the loop of the DaemonSet tells both files");
    let args = oci::args(oci::container(&pod.pod, "verify"));
    let args: Vec<&str> = args[1..].iter().map(String::as_str).collect();
    pod.run(&args, "</dev/null >/dev/null 2>&1 &")?;
    let conditions = format!("{BUNDLE}/volumes/conditions");
    let tells = |what: &str| {
        format!(
            "for n in $(seq 90); do grep -q '{what}' {conditions}/host {conditions}/gpudirect && exit; sleep 1; done; cat {conditions}/*; false"
        )
    };
    node.ok(&tells("^[0-9]* ready: "))?;
    node.ok("setpci -s 22:00.0 ECAP_ACS+6.w=001d")?;
    node.ok(&tells("^[0-9]* not ready: .*acs.path"))?;
    node.ok(&format!("grep -qx bedplate.ready=false {BUNDLE}/volumes/labels/bedplate"))?;
    node.ok("crun kill verify TERM; for n in $(seq 5); do crun list -q | grep -q verify || exit 0; sleep 1; done; false")?;
    Ok(())
}

const UNIT: &str = include_str!("../../../systemd/bedplate-boot.service");
