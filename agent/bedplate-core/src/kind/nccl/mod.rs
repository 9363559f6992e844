//! Configuration of NCCL on a host: bedplate's lines in /etc/nccl.conf, and a topology file. Sources: handbook §8.4 to
//! §8.7.

mod conf;
mod desired_variables;
mod file;
mod paths;
pub mod section;
pub mod topology;

pub(crate) use conf::is_only_ours;

use super::{Context, Kind, Privacy, no_labels, nothing_to_resolve};
use crate::desired::Desired;
use crate::image_config::{ConfigFile, ContributeError, ImageConfig, LiveOnly};
use crate::plan::{Blocker, KindId, KindPlan};
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use section::HcaList;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "NCCL or RCCL settings in /etc/nccl.conf or /etc/rccl.conf, and a topology file",
    resolve: nothing_to_resolve,
    plan,
    contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    files: paths::FILES,
    privacy: Privacy { bare_values: true, quotes_files: true },
    labels: no_labels,
};

const NAME: KindId = KindId::Nccl;

fn plan(context: &Context) -> KindPlan {
    let mut out = KindPlan::default();
    let mut wanted = desired_variables::variables(context, &mut out);
    if topology::plan(context, context.profile.nccl.topology_file, &mut out) {
        desired_variables::insert(&mut wanted, topology::variable());
    }
    let own = desired_variables::path(context);
    if own.is_none() && !wanted.is_empty() {
        out.blockers.push(no_file());
    }
    for path in [conf::NCCL, conf::RCCL] {
        // Lines in another library's file belong to an earlier profile or to removed GPUs.
        let wanted = if own == Some(path) { wanted.as_slice() } else { &[] };
        file::plan(context, path, wanted, &mut out);
    }
    out
}

fn no_file() -> Blocker {
    NAME.blocker(
        conf::NCCL,
        "oneCCL, the library for Intel GPUs, reads no file of variables",
        "set the variables in the job (`bedplate nccl env`), and remove [nccl] from the profile",
    )
}

/// Contributes everything except the port list and the topology, which depend on the machine.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let section = &profile.nccl;
    let variables = desired_variables::of_profile(section);
    if !variables.is_empty() {
        out.nccl = variables.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
        let text = conf::block(&variables, &profile.name);
        out.notes.push(format!(
            "{} is NCCL's file; on hosts with AMD GPUs `bedplate apply` moves the lines to {} for RCCL",
            conf::NCCL,
            conf::RCCL
        ));
        out.files.push(ConfigFile { path: conf::NCCL, text, settings: Vec::new() });
    }
    if section.hca == HcaList::NearGpus {
        out.live_only.push(LiveOnly {
            id: format!("{NAME}/hca"),
            what: format!("NCCL_IB_HCA, the RDMA ports near GPUs, in {}", conf::NCCL),
            why: "the port names differ per machine".to_owned(),
            with_agent: "`bedplate apply` writes it at the first boot".to_owned(),
            without_agent: "copy it from `bedplate nccl env` on one machine of the model, and set it in the job".to_owned(),
        });
    }
    if section.topology_file {
        out.live_only.push(LiveOnly {
            id: format!("{NAME}/topology_file"),
            what: format!("NCCL's topology file, {}, and {}", topology::PATH, topology::VARIABLE),
            why: "the topology differs per machine".to_owned(),
            with_agent: "`bedplate apply` writes it at the first boot".to_owned(),
            without_agent: "omit it: NCCL then reads sysfs itself".to_owned(),
        });
    }
    Ok(())
}
