//! What NCCL is told on a host: bedplate's lines of /etc/nccl.conf, and a topology file. Facts: handbook §8.4 to §8.7.

mod conf;
mod file;
mod paths;
pub(crate) mod section;
pub(crate) mod topology;
mod wanted;

use super::contribution::{ConfigFile, Contributions, LiveOnly, Unwritable};
use super::{Context, Kind, no_labels, nothing_to_resolve};
use crate::desired::Desired;
use crate::plan::KindPlan;
use crate::section::Declared;
use section::{HcaList, Nccl};

/// The row of the table of kinds.
pub const KIND: Kind = Kind {
    name: NAME,
    about: "what NCCL is told, in /etc/nccl.conf, and its topology file",
    resolve: nothing_to_resolve,
    plan,
    contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    labels: no_labels,
};

const NAME: &str = "nccl";

fn plan(context: &Context) -> KindPlan {
    let mut out = KindPlan::default();
    let profile = context.profile.get::<Nccl>();
    let mut wanted = wanted::variables(context, profile, &mut out);
    let asked = profile.is_some_and(|section| section.topology_file);
    if topology::plan(context, asked, &mut out) {
        wanted::insert(&mut wanted, topology::variable());
    }
    file::plan(context, &wanted, &mut out);
    out
}

/// All but the list of ports and the topology, which only the machine knows.
fn contribute(
    profile: &dyn Declared,
    _: &Desired,
    out: &mut Contributions,
) -> Result<(), Unwritable> {
    let Some(section) = profile.get::<Nccl>() else { return Ok(()) };
    let variables = wanted::of_profile(section);
    if !variables.is_empty() {
        let text = conf::block(&variables, profile.name());
        out.files.push(ConfigFile { path: conf::PATH, text, settings: Vec::new() });
    }
    if section.hca == HcaList::NearGpus {
        out.live_only.push(LiveOnly {
            what: format!("NCCL_IB_HCA, the RDMA ports near GPUs, in {}", conf::PATH),
            why: "their names are the machine's own".to_owned(),
            with_agent: "`bedplate apply` writes it at the first boot".to_owned(),
            without_agent: "take it from `bedplate nccl env` on one machine of the model, and set it in the job".to_owned(),
        });
    }
    if section.topology_file {
        out.live_only.push(LiveOnly {
            what: format!("NCCL's topology file, {}, and {}", topology::PATH, topology::VARIABLE),
            why: "it is the machine's own topology".to_owned(),
            with_agent: "`bedplate apply` writes it at the first boot".to_owned(),
            without_agent: "leave it out: NCCL looks at sysfs itself".to_owned(),
        });
    }
    Ok(())
}
