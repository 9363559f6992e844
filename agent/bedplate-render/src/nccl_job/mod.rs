//! Target `nccl-job`: nccl-tests or a training loop as a job for Kubernetes or Slurm. Its hosts must already match the
//! profile: the job uses the profile's VF resource names, and the NCCL settings recommended for a host.

mod compute_domain;
pub(crate) mod job;
mod kubernetes;
mod openshift;
mod pod;
mod slurm;
mod torchrun;

use bedplate_base::terminal::one_line;
use bedplate_core::image_config::ImageConfig;
use bedplate_facts::cufile;

use super::{Inexpressible, Options, RenderError, RenderResult, Target};
pub use job::{Job, JobForm, Workload};

impl Job {
    /// Returns the name of the objects, and of the Slurm job.
    fn name(&self) -> String {
        format!("nccl-{}", self.workload.stem().replace('_', "-"))
    }

    fn is_training(&self) -> bool {
        self.workload == Workload::Torchrun
    }

    fn ranks(&self) -> u32 {
        u32::from(self.nodes) * u32::from(self.gpus)
    }

    /// Returns the program of nccl-tests with its arguments: message sizes from 8 bytes to 8 GiB, doubling; `gpus` per process.
    fn command(&self, gpus: u16) -> Vec<String> {
        let program = format!("{}_perf", self.workload.stem());
        let program = match &self.directory {
            Some(directory) => format!("{}/{program}", directory.trim_end_matches('/')),
            None => program,
        };
        let gpus = gpus.to_string();
        std::iter::once(program)
            .chain(["-b", "8", "-e", "8G", "-f", "2", "-g", &gpus].map(str::to_owned))
            .collect()
    }

    /// Returns the warnings about the host's ports as comment lines.
    fn warnings(&self) -> String {
        self.notes.iter().map(|note| format!("# warning: {}\n", one_line(note))).collect()
    }

    /// Returns the environment, in order. The log shows which devices and transports were used, which is needed to
    /// explain a result (handbook §8.8). Variables of the profile override those recommended for the host.
    fn environment<'a>(&'a self, build: &'a ImageConfig, place: Place) -> Vec<(&'a str, &'a str)> {
        let profile = build.nccl.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let profile: Vec<(&str, &str)> =
            profile.filter(|(name, _)| !is_of_log(name) && place.has(name)).collect();
        let is_set = |name: &str| profile.iter().any(|(own, _)| *own == name);
        let host = self.env.iter().flatten().filter(|one| place.has(one.name) && !is_set(one.name));
        let host = host.map(|setting| (setting.name, setting.value.as_str()));
        LOG.into_iter().chain(host).chain(profile.iter().copied()).collect()
    }
}

/// Variable of cuFile with the path of its configuration (GPUDirect Storage documentation; handbook §6.4).
const CUFILE: &str = "CUFILE_ENV_PATH_JSON";

/// Returns the text of cufile.json with the profile's keys, if the profile has some.
fn cufile_text(build: &ImageConfig) -> Option<&str> {
    let file = build.files.iter().find(|file| file.path == cufile::PATH)?;
    Some(file.text.as_str())
}

/// Settings of NCCL's log.
const LOG: [(&str, &str); 2] =
    [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,DESTROY")];

fn is_of_log(name: &str) -> bool {
    LOG.iter().any(|(own, _)| *own == name)
}

/// Parts of the host that a rank can see.
#[derive(Clone, Copy)]
struct Place {
    /// Whether it has its own RDMA devices instead of those of the host.
    own_ports: bool,
    /// Whether it has its own network without the host's interfaces.
    own_network: bool,
}

impl Place {
    /// A process of the host.
    const HOST: Place = Place { own_ports: false, own_network: false };

    /// Whether the object that a variable names is visible there.
    fn has(self, variable: &str) -> bool {
        match variable {
            "NCCL_IB_HCA" | "NCCL_IB_GID_INDEX" => !self.own_ports,
            "NCCL_SOCKET_IFNAME" => !self.own_network,
            _ => true,
        }
    }

    /// Adds a note about variables of the profile that do not apply there.
    fn leave_out(self, build: &ImageConfig, rendered: &mut RenderResult) {
        let names = build.nccl.iter().map(|(name, _)| name.as_str());
        let left: Vec<&str> = names.filter(|name| !self.has(name)).collect();
        if !left.is_empty() {
            rendered.notes.push(format!(
                "variables of the profile left out: {}; a pod lacks the host's devices or interfaces that they name",
                left.join(", ")
            ));
        }
    }
}

pub(crate) const TARGET: Target = Target::new(
    "nccl-job",
    "nccl-tests or a training loop as a job: Kubernetes Job, MPIJob, LeaderWorkerSet, or Slurm",
    &[kubernetes::PATH, openshift::PATH, slurm::PATH],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let job = &options.job;
    let mut rendered = match job.form {
        JobForm::Slurm => slurm::render(build, job)?,
        form => kubernetes::render(build, options, form)?,
    };
    if build.nccl.iter().any(|(name, _)| is_of_log(name)) {
        let note = "the job sets NCCL_DEBUG and NCCL_DEBUG_SUBSYS itself, not from the profile: `bedplate nccl log` \
        needs that output";
        rendered.notes.push(note.to_owned());
    }
    rendered.notes.push(
        "the job changes no host: its nodes must already match the profile (`bedplate verify` on each)"
            .to_owned(),
    );
    Ok(rendered)
}

/// Adds notes on the settings, which are those of one host.
fn of_one_host(job: &Job, rendered: &mut RenderResult) {
    rendered.notes.extend(job.notes.iter().cloned());
    match &job.env {
        None => rendered.notes.push(
            "no host was given, so NCCL chooses the RDMA devices itself; with --snapshot of a node the job sets them \
            like `bedplate nccl env`"
                .to_owned(),
        ),
        Some(_) if job.nodes > 1 => rendered.notes.push(
            "NCCL_IB_HCA is for the rendered host: the other nodes must be the same model"
                .to_owned(),
        ),
        Some(_) => {}
    }
}

fn missing(what: &str, why: &str, instead: &str) -> Inexpressible {
    Inexpressible {
        id: "nccl-job".to_owned(),
        what: what.to_owned(),
        why: why.to_owned(),
        instead: instead.to_owned(),
    }
}

#[cfg(test)]
mod tests;
