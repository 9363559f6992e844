//! Services and sessions that start jobs, and the file of each that holds its limits.

use serde::{Deserialize, Serialize};

bedplate_base::named! {
    /// A service that starts jobs, or the sessions of users.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum LimitTarget {
        /// Slurm's node daemon.
        Slurmd = "slurmd",
        /// The container runtime of most Kubernetes distributions.
        Containerd = "containerd",
        /// The container runtime of OpenShift.
        Crio = "crio",
        /// Docker Engine.
        Docker = "docker",
        /// The node agent of Kubernetes.
        Kubelet = "kubelet",
        /// K3s with a control plane; it starts a containerd of its own.
        K3s = "k3s",
        /// K3s without a control plane.
        K3sAgent = "k3s-agent",
        /// RKE2 without a control plane; it starts a containerd of its own.
        Rke2Agent = "rke2-agent",
        /// RKE2 with a control plane.
        Rke2Server = "rke2-server",
        /// Logins, by pam_limits.
        Sessions = "sessions",
    }
}

/// File of pam_limits with the limits of sessions. Sorts last, so that its values override earlier files.
pub(super) const SESSIONS: &str = "/etc/security/limits.d/zz-bedplate.conf";
/// Directory of pam_limits.
pub(super) const PAM_LIMITS: &str = "/etc/security";

/// Returns the path of a service's drop-in. It sorts last, so that its values override earlier ones.
macro_rules! drop_in {
    ($name:literal) => {
        concat!("/etc/systemd/system/", $name, ".service.d/zz-bedplate.conf")
    };
}

/// Files that this resource type writes.
pub(super) const FILES: &[&str] = &[
    LimitTarget::Slurmd.path(),
    LimitTarget::Containerd.path(),
    LimitTarget::Crio.path(),
    LimitTarget::Docker.path(),
    LimitTarget::Kubelet.path(),
    LimitTarget::K3s.path(),
    LimitTarget::K3sAgent.path(),
    LimitTarget::Rke2Agent.path(),
    LimitTarget::Rke2Server.path(),
    SESSIONS,
];

impl LimitTarget {
    /// Returns the path of the file with its limits.
    pub(super) const fn path(self) -> &'static str {
        match self {
            LimitTarget::Slurmd => drop_in!("slurmd"),
            LimitTarget::Containerd => drop_in!("containerd"),
            LimitTarget::Crio => drop_in!("crio"),
            LimitTarget::Docker => drop_in!("docker"),
            LimitTarget::Kubelet => drop_in!("kubelet"),
            LimitTarget::K3s => drop_in!("k3s"),
            LimitTarget::K3sAgent => drop_in!("k3s-agent"),
            LimitTarget::Rke2Agent => drop_in!("rke2-agent"),
            LimitTarget::Rke2Server => drop_in!("rke2-server"),
            LimitTarget::Sessions => SESSIONS,
        }
    }

    /// Returns its directory, where other files with limits may be.
    pub(super) fn directory(self) -> &'static str {
        self.path().rsplit_once('/').map_or("/", |(directory, _)| directory)
    }

    /// Returns the names of all services, without `.service`.
    pub fn services() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter_map(Self::service)
    }

    /// Returns the name of its unit without `.service`; `None`: sessions.
    pub(super) fn service(self) -> Option<&'static str> {
        (self != LimitTarget::Sessions).then(|| self.name())
    }
}
