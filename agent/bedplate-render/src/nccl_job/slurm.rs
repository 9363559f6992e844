//! The Slurm batch script. Every value is one quoted word of the shell. `#SBATCH` lines hold only numbers and
//! bedplate's own text, because Slurm parses them by its own rules.

use std::fmt::Write as _;

use bedplate_core::image_config::ImageConfig;
use bedplate_facts::cufile;

use super::super::common::{heading, in_shell_single_quotes as quoted};
use super::super::{OutFile, RenderError, RenderResult, SCRIPT_MODE};
use super::{CUFILE, Job, Place, cufile_text, missing, of_one_host, torchrun};

pub(super) const PATH: &str = "nccl-job.sbatch";

/// Comment of the script. With another type than that of its MPI library, each rank starts a job of its own (Slurm's MPI
/// guide).
const MPI: &str = "# pmix is for Open MPI. MPICH and Intel MPI need --mpi=pmi2; `srun --mpi=list` lists the types.\n\
                   # With the wrong type, or a program without MPI, each rank measures itself alone.\n";

/// Each task raises its limit of locked memory as far as allowed, and prints a message if that is not unlimited: with
/// too low a limit, creating queue pairs fails in the middle of a job.
const TASK: &str = "ulimit -S -l \"$(ulimit -H -l)\"; [ \"$(ulimit -l)\" = unlimited ] || \
                    echo \"$(hostname): memlock is $(ulimit -l) KiB: set LimitMEMLOCK=infinity for slurmd\" >&2; exec \"$@\"";

/// Starts torchrun in a task of its node. Node 0 of the job is the meeting point.
const TORCHRUN: &str =
    "exec torchrun --node_rank=\"$SLURM_NODEID\" --master_addr=\"$MASTER_ADDR\" \"$@\"";

/// Returns the lines before the step.
fn head(build: &ImageConfig, job: &Job) -> String {
    let (name, nodes, gpus) = (job.name(), job.nodes, job.gpus);
    let tasks = if job.is_training() { 1 } else { gpus };
    let mut text = format!(
        "#!/bin/bash\n{}#SBATCH --job-name={name}\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node={tasks}\n\
         #SBATCH --gpus-per-node={gpus}\n#SBATCH --exclusive\n\
         # Use the limits of slurmd: the submitting shell has a small memlock limit.\n\
         #SBATCH --propagate=NONE\n#SBATCH --output={name}-%j.log\nset -eu\n",
        heading(build, "# "),
    );
    text += &job.warnings();
    if job.is_rack == Some(true) && nodes > 1 {
        text += "# MNNVL is measured only if each node has nvidia-imex and an IMEX channel (bedplate verify: modules.imex).\n";
    }
    let cufile = cufile_text(build).map(|_| (CUFILE, cufile::PATH));
    for (name, value) in job.environment(build, Place::HOST).into_iter().chain(cufile) {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    match job.is_training() {
        true => {
            text += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\nexport MASTER_ADDR\n";
        }
        false => text += MPI,
    }
    text
}

/// Returns the words of the step.
fn step(build: &ImageConfig, job: &Job) -> Vec<String> {
    let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let mut words = match job.is_training() {
        // By default a task runs on one core, and so would the processes of all GPUs.
        true => own(&["srun", "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=1"]),
        false => own(&["srun", "--mpi=pmix", "--kill-on-bad-exit=1"]),
    };
    if let Some(image) = &job.image {
        words.push(format!("--container-image={image}"));
        let mount =
            cufile_text(build).map(|_| format!("--container-mounts={0}:{0}:ro", cufile::PATH));
        words.extend(mount);
    }
    words.extend(own(&["bash", "-c", TASK, "task"]));
    if job.is_training() {
        words.extend(own(&["bash", "-c", TORCHRUN, "torchrun"]));
        words.extend(torchrun::of_all_nodes(job).into_iter().chain(torchrun::program()));
    } else {
        words.extend(job.command(1));
    }
    words
}

pub(super) fn render(build: &ImageConfig, job: &Job) -> Result<RenderResult, RenderError> {
    let words = step(build, job).into_iter().map(|word| match is_plain(&word) {
        true => word,
        false => quoted(&word),
    });
    let text = format!("{}{}\n", head(build, job), words.collect::<Vec<_>>().join(" "));
    let mut rendered = RenderResult {
        files: vec![OutFile { path: PATH.to_owned(), mode: SCRIPT_MODE, text }],
        ..RenderResult::default()
    };
    of_one_host(job, &mut rendered);
    rendered.notes.push(match job.is_training() {
        true => "tasks need PyTorch with torchrun and python3, in the image or on the nodes".to_owned(),
        false => "nccl-tests must be built with MPI (`make MPI=1`); the script uses PMIx, as for Open MPI: with MPICH or \
            Intel MPI, change --mpi=pmix to --mpi=pmi2"
            .to_owned(),
    });
    if job.image.is_some() {
        rendered.notes.push("--container-image needs Slurm's pyxis plugin".to_owned());
    }
    let devices = "omit the option: tasks see the RDMA devices of their host";
    let pods = "omit the option: it is for pods";
    let elsewhere = [
        ("networks of pods", !job.networks.is_empty(), devices),
        ("resources of RDMA devices", !job.rdma.is_empty(), devices),
        ("tolerations of taints", !job.tolerations.is_empty(), pods),
        ("a ComputeDomain", job.compute_domain == Some(true), pods),
        ("constraints of OpenShift", job.openshift, pods),
    ];
    for (what, _, instead) in elsewhere.iter().filter(|(_, asked, _)| *asked) {
        rendered.inexpressible.push(missing(what, "Slurm has no equivalent", instead));
    }
    Ok(rendered)
}

/// Whether a shell reads the word unchanged.
fn is_plain(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@".contains(&byte);
    !word.is_empty() && word.bytes().all(plain)
}
