//! A host recorded in the guest gives the same output outside, byte for byte.

use std::process::Command;

use bedplate_tests::lab::machine::{Arch, BOOKWORM, TRIXIE};
use bedplate_tests::lab::{Case, Machine, Result, Scenario};

use super::guest::{PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("snapshot::replayed_outside", replayed_outside)];

fn replayed_outside(case: &mut Case) -> Result<()> {
    // Fresh and provisioned, on two kernels. With BLESS=1 the recordings update the hosts of two cases.
    fidelity(case, BOOKWORM, true, "node-bookworm-provisioned")?;
    fidelity(case, TRIXIE, false, "node-trixie")
}

/// `why` in the profile.
const WHY: &str = "GPUDirect RDMA needs bus addresses that equal physical addresses";

/// Replaces every word `masked_N` by `REASON`.
fn without_masks(text: &str) -> String {
    let mut parts = text.split("masked_");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.fold(first, |text, part| text + "REASON" + part)
}

fn fidelity(case: &mut Case, machine: Machine, provisioned: bool, name: &str) -> Result<()> {
    let node = case.node(machine)?;
    node.put(PROFILE_PATH, PROFILE)?;
    if provisioned {
        node.expect(3, "bedplate apply --yes")?;
    }
    node.ok("bedplate snapshot -o /tmp/node.bp")?;
    let recorded = node.get("/tmp/node.bp")?;
    let file = node.dir().join("node.bp");
    std::fs::write(&file, &recorded)?;
    for words in [
        "plan",
        "plan -v",
        "plan --diff",
        "plan --json",
        "inspect",
        "inspect --tree",
        "inspect --json",
    ] {
        let inside = node.run(&format!("bedplate {words}"))?;
        let outside = Command::new(case.program(Arch::X86)?)
            // Same width as in the guest, set by the lab's agent.
            .env("COLUMNS", "1000")
            .args(words.split(' '))
            .arg("--snapshot")
            .arg(&file)
            .output()?;
        // A host without changes has no diff.
        check!(
            !inside.stdout.is_empty() || words == "plan --diff",
            "bedplate {words} prints nothing: {}",
            inside.stderr
        );
        same!(
            outside.status.code().map(i64::from),
            Some(inside.status),
            "exit status of bedplate {words}"
        );
        let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
        // Only the source of the host differs.
        let from = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| !line.contains("read from") && !line.contains("\"host\":"))
                .map(str::to_owned)
                .collect()
        };
        // File contents and unmanaged values are masked in a snapshot, and the other commands show them. The reason in
        // the profile is the operator's text, and masked too.
        let inside = inside.stdout.replace(WHY, "REASON");
        if ["plan", "plan -v", "inspect --tree"].contains(&words) {
            same!(
                from(&without_masks(&outside)),
                from(&inside),
                "bedplate {words}, outside and inside"
            );
        }
    }
    if std::env::var_os("BLESS").is_some() {
        let case = bedplate_tests::data("cases").join(name);
        std::fs::create_dir_all(&case)?;
        std::fs::write(case.join("host.bp"), recorded)?;
        std::fs::write(case.join("profile.toml"), PROFILE)?;
    }
    Ok(())
}
