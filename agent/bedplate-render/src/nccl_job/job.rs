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

/// A program of nccl-tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collective {
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
}

impl Collective {
    /// Returns the name of the program, without `_perf`.
    pub(crate) fn stem(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::AllToAll => "alltoall",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::SendRecv => "sendrecv",
        }
    }
}

/// A benchmark job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Scheduler and object type.
    pub form: JobForm,
    /// The benchmark.
    pub test: Collective,
    /// Number of nodes.
    pub nodes: u16,
    /// GPUs of each node, one rank each.
    pub gpus: u16,
    /// Resource name of the pods' GPUs: `nvidia.com/gpu`.
    pub gpu_resource: String,
    /// Image with nccl-tests. Required for Kubernetes; optional for Slurm, which needs pyxis for it.
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
            test: Collective::default(),
            nodes: 1,
            gpus: 8,
            gpu_resource: "nvidia.com/gpu".to_owned(),
            image: None,
            directory: None,
            rdma: Vec::new(),
            prefix: "nvidia.com".to_owned(),
            networks: Vec::new(),
            host_network: false,
            env: None,
            notes: Vec::new(),
        }
    }
}
