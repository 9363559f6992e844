//! The Slurm batch script. Every value is one quoted word of the shell. `#SBATCH` lines hold only numbers and
//! bedplate's own text, because Slurm parses them by its own rules.

use std::fmt::Write as _;

use bedplate_core::image_config::ImageConfig;

use super::super::common::{heading, in_shell_single_quotes as quoted};
use super::super::{OutFile, RenderError, RenderResult, SCRIPT_MODE};
use super::{Job, Place, missing, of_one_host};

const PATH: &str = "nccl-job.sbatch";

/// Comment of the script. With another type than that of its MPI library, each rank starts a job of its own (Slurm's MPI
/// guide).
const MPI: &str = "# pmix is for Open MPI. MPICH and Intel MPI need --mpi=pmi2; `srun --mpi=list` lists the types.\n\
                   # With the wrong type, or a program without MPI, each rank measures itself alone.\n";

/// Each task raises its limit of locked memory as far as allowed, and prints a message if that is not unlimited: with
/// too low a limit, creating queue pairs fails in the middle of a job.
const TASK: &str = "ulimit -S -l \"$(ulimit -H -l)\"; [ \"$(ulimit -l)\" = unlimited ] || \
                    echo \"$(hostname): memlock is $(ulimit -l) KiB: set LimitMEMLOCK=infinity for slurmd\" >&2; exec \"$@\"";

pub(super) fn render(build: &ImageConfig, job: &Job) -> Result<RenderResult, RenderError> {
    let (name, nodes, gpus) = (job.name(), job.nodes, job.gpus);
    let mut text = format!(
        "#!/bin/bash\n{}#SBATCH --job-name={name}\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node={gpus}\n\
         #SBATCH --gpus-per-node={gpus}\n#SBATCH --exclusive\n\
         # Use the limits of slurmd: the submitting shell has a small memlock limit.\n\
         #SBATCH --propagate=NONE\n#SBATCH --output={name}-%j.log\nset -eu\n",
        heading(build, "# "),
    );
    for (name, value) in job.environment(build, Place::HOST) {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    let image = job.image.iter().map(|image| format!("--container-image={image}"));
    text += MPI;
    let words = ["srun", "--mpi=pmix", "--kill-on-bad-exit=1"].map(str::to_owned).into_iter().chain(image);
    let task = ["bash", "-c", TASK, "task"].map(str::to_owned);
    let words = words.chain(task).chain(job.command(1)).map(|word| match is_plain(&word) {
        true => word,
        false => quoted(&word),
    });
    text += &words.collect::<Vec<_>>().join(" ");
    text.push('\n');
    let mut rendered = RenderResult {
        files: vec![OutFile { path: PATH.to_owned(), mode: SCRIPT_MODE, text }],
        ..RenderResult::default()
    };
    of_one_host(job, &mut rendered);
    rendered.notes.push(
        "nccl-tests must be built with MPI (`make MPI=1`); the script uses PMIx, as for Open MPI: with MPICH or Intel \
        MPI, change --mpi=pmix to --mpi=pmi2"
            .to_owned(),
    );
    if job.image.is_some() {
        rendered.notes.push("--container-image needs Slurm's pyxis plugin".to_owned());
    }
    let elsewhere = [
        ("networks of pods", !job.networks.is_empty()),
        ("resources of RDMA devices", !job.rdma.is_empty()),
    ];
    for (what, _) in elsewhere.iter().filter(|(_, asked)| *asked) {
        let instead = "omit the option: tasks see the RDMA devices of their host";
        rendered.inexpressible.push(missing(what, "Slurm has no equivalent", instead));
    }
    Ok(rendered)
}

/// Whether a shell reads the word unchanged.
fn is_plain(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@".contains(&byte);
    !word.is_empty() && word.bytes().all(plain)
}
