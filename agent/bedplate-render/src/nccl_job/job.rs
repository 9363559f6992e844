//! Parameters of the requested job.

use serde::Serialize;

use bedplate_nccl::env::Setting;

/// Scheduler and object type of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobForm {
    /// A Kubernetes Job; for several nodes an Indexed Job with a headless Service, and ssh between its pods.
    #[default]
    Job,
    /// An MPIJob of the Kubeflow MPI Operator (v2beta1), which creates the ssh keys itself.
    MpiJob,
    /// A LeaderWorkerSet, with ssh between its pods.
    LeaderWorkerSet,
    /// A Slurm batch script.
    Slurm,
}

/// Program of the job: one of nccl-tests, or a training loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workload {
    /// `all_reduce_perf`.
    #[default]
    AllReduce,
    /// `all_gather_perf`.
    AllGather,
    /// `reduce_scatter_perf`.
    ReduceScatter,
    /// `alltoall_perf`.
    AllToAll,
    /// `broadcast_perf`.
    Broadcast,
    /// `reduce_perf`.
    Reduce,
    /// `sendrecv_perf`.
    SendRecv,
    /// A training loop of PyTorch, started by torchrun.
    Torchrun,
}

impl Workload {
    /// Returns the name of the program, for nccl-tests without `_perf`.
    pub(crate) fn stem(self) -> &'static str {
        match self {
            Workload::AllReduce => "all_reduce",
            Workload::AllGather => "all_gather",
            Workload::ReduceScatter => "reduce_scatter",
            Workload::AllToAll => "alltoall",
            Workload::Broadcast => "broadcast",
            Workload::Reduce => "reduce",
            Workload::SendRecv => "sendrecv",
            Workload::Torchrun => "torchrun",
        }
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Scheduler and object type.
    pub form: JobForm,
    /// Its program.
    pub workload: Workload,
    /// Number of nodes.
    pub nodes: u16,
    /// GPUs of each node, one rank each.
    pub gpus: u16,
    /// Resource name of the pods' GPUs: `nvidia.com/gpu`.
    pub gpu_resource: String,
    /// Image with the program. Required for Kubernetes; optional for Slurm, which needs pyxis for it.
    pub image: Option<String>,
    /// Directory of the programs in the image, if they are not on its PATH.
    pub directory: Option<String>,
    /// RDMA device resources, and their number per pod. If empty, the resources of the profile's VFs are used.
    pub rdma: Vec<(String, u16)>,
    /// Prefix of the VFs' resources.
    pub prefix: String,
    /// Networks (NetworkAttachmentDefinitions) of each pod.
    pub networks: Vec<String>,
    /// Whether pods use the network of their host.
    pub host_network: bool,
    /// Keys of taints that pods tolerate, in addition to that of the GPUs.
    pub tolerations: Vec<String>,
    /// Whether the nodes are trays of a rack whose NVLink spans nodes (GB200, GB300); `None` if unknown.
    pub is_rack: Option<bool>,
    /// Whether pods claim an IMEX channel; `None`: if the nodes are trays of a rack.
    pub compute_domain: Option<bool>,
    /// Whether the job is for OpenShift, with a SecurityContextConstraints of its own.
    pub openshift: bool,
    /// Recommended NCCL settings of the host that the job is rendered for; `None` if no host was given.
    pub env: Option<Vec<Setting>>,
    /// Notes on these settings.
    pub notes: Vec<String>,
}

impl Default for Job {
    /// All-reduce on one node with eight NVIDIA GPUs, without an image.
    fn default() -> Job {
        Job {
            form: JobForm::default(),
            workload: Workload::default(),
            nodes: 1,
            gpus: 8,
            gpu_resource: "nvidia.com/gpu".to_owned(),
            image: None,
            directory: None,
            rdma: Vec::new(),
            prefix: "nvidia.com".to_owned(),
            networks: Vec::new(),
            host_network: false,
            tolerations: Vec::new(),
            is_rack: None,
            compute_domain: None,
            openshift: false,
            env: None,
            notes: Vec::new(),
        }
    }
}
