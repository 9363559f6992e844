//! A training loop of PyTorch, started by torchrun. Its text is an argument: images and nodes need no file.

use super::Job;

/// The training loop. Contains no `$`, which Kubernetes and torchrun would expand in arguments.
const PROGRAM: &str = include_str!("train.py");

/// Position of a node in the job, as texts that kubelet expands.
pub(super) struct Place<'a> {
    /// Number of the node, from 0.
    pub rank: &'a str,
    /// Address of node 0.
    pub first: &'a str,
}

/// Returns torchrun with the arguments of a node; `None`: of the only node.
pub(super) fn command(job: &Job, place: Option<Place<'_>>) -> Vec<String> {
    let own = match place {
        None => vec!["--standalone".to_owned(), processes(job)],
        Some(place) => {
            let rank = format!("--node_rank={}", place.rank);
            let first = format!("--master_addr={}", place.first);
            [rank, first].into_iter().chain(of_all_nodes(job)).collect()
        }
    };
    std::iter::once("torchrun".to_owned()).chain(own).chain(program()).collect()
}

/// Returns the arguments that are equal on all nodes. The port is torchrun's default.
pub(super) fn of_all_nodes(job: &Job) -> [String; 3] {
    [format!("--nnodes={}", job.nodes), processes(job), "--master_port=29500".to_owned()]
}

// PyTorch before 2.0 knows only names with underscores (torch/distributed/run.py).
fn processes(job: &Job) -> String {
    format!("--nproc_per_node={}", job.gpus)
}

/// Returns the words of the training loop.
pub(super) fn program() -> impl Iterator<Item = String> {
    ["--no_python", "python3", "-c", PROGRAM].into_iter().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_has_nothing_to_expand() {
        assert!(!PROGRAM.contains('$') && PROGRAM.ends_with("\nmain()\n"));
    }
}
