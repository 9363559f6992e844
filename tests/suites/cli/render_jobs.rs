//! `bedplate render` of jobs and their networks: options.

use crate::session::{Session, text};

#[test]
fn malformed_options_of_jobs_and_networks_are_rejected() {
    let session = Session::new();
    let status = |target: &str, more: &[&str]| {
        let args = ["render", target, "--profile", "gb200", "--cpu", "arm", "--image", "x"];
        session.run(&[&args[..], more].concat()).status.code()
    };
    let range = |range: &str| status("sriov-operator", &["--ipam-range", range]);
    assert_eq!(range("192.0.2.0/24"), Some(0));
    assert_eq!(range("rule-without-vfs=192.0.2.0/24"), Some(1));
    for malformed in ["192.0.2.0", "192.0.2.0/33", "2001:db8::/129", "compute=", "=x/24"] {
        assert_eq!(range(malformed), Some(64), "{malformed}");
    }
    assert_eq!(status("nccl-job", &["--toleration", "example.com/pool"]), Some(0));
    assert_eq!(status("nccl-job", &["--toleration", "a b"]), Some(64));
    assert_eq!(status("nccl-job", &["--openshift", "--host-network"]), Some(64));
}

/// A profile for rack trays is enough for a claim of an IMEX channel.
#[test]
fn profile_of_rack_trays_claims_imex_channel() {
    let session = Session::new();
    let domains = |profile: &str, more: &[&str]| {
        let args = ["render", "nccl-job", "--profile", profile, "--cpu", "arm", "--image", "x"];
        let output = session.run(&[&args[..], &["--nodes", "2"], more].concat());
        text(&output.stdout).matches("kind: ComputeDomain\n").count()
    };
    assert_eq!(domains("gb200", &[]), 1);
    assert_eq!(domains("gb200", &["--compute-domain", "never"]), 0);
    assert_eq!(domains("grace", &[]), 0);
    assert_eq!(domains("grace", &["--compute-domain", "always"]), 1);
}
