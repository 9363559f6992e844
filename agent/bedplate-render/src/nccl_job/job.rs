//! The job, as it is asked for.

use serde::Serialize;

use bedplate_nccl::env::Setting;

/// What the job is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobForm {
    /// A Job of Kubernetes; of several nodes an Indexed Job with a headless Service, and ssh between its pods.
    #[default]
    Job,
    /// An MPIJob of the Kubeflow MPI Operator (v2beta1), which makes the ssh keys itself.
    MpiJob,
    /// A LeaderWorkerSet, with ssh between its pods.
    LeaderWorkerSet,
    /// A batch script of Slurm.
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
    /// What the program is called, without `_perf`.
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

/// What the job is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What it is written for.
    pub form: JobForm,
    /// Which benchmark.
    pub test: Collective,
    /// Nodes.
    pub nodes: u16,
    /// GPUs of each node, one rank each.
    pub gpus: u16,
    /// What pods ask for their GPUs by: `nvidia.com/gpu`.
    pub gpu_resource: String,
    /// Image with nccl-tests. Kubernetes needs one; Slurm takes one with pyxis.
    pub image: Option<String>,
    /// Directory of the programs in it, where they are not on its PATH.
    pub directory: Option<String>,
    /// Resources of RDMA devices and how many of each a pod gets; empty: those of the profile's VFs.
    pub rdma: Vec<(String, u16)>,
    /// Prefix of the VFs' resources.
    pub prefix: String,
    /// Networks (NetworkAttachmentDefinitions) of each pod.
    pub networks: Vec<String>,
    /// Whether pods are in the network of their host.
    pub host_network: bool,
    /// What NCCL should be told on the host that the job is rendered for; `None`: no host was given.
    pub env: Option<Vec<Setting>>,
    /// What to know beside it.
    pub notes: Vec<String>,
}

impl Default for Job {
    /// All-reduce on one node of eight GPUs of NVIDIA's, without an image.
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
