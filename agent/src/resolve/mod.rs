//! Profile + facts → [`Desired`]. Pure: the one place where a profile's intent meets a machine's nature.
//! What a kind knows about its own subject (ports, PFs) lives with the kind; this module only puts the parts together.

mod gpudirect;
mod iommu;

use crate::desired::{
    Desired, DesiredCmdline, DesiredModules, UnwantedArg, WantedArg, WantedModule, WantedOption,
};
use crate::facts::Facts;
use crate::host::Reading;
use crate::kind::{acs, sriov};
use crate::plan::{Blocker, Note, Unknown};
use crate::profile::model::{CmdlineArg, Module, Profile};

/// What resolving found besides desired state.
#[derive(Debug, Default)]
pub struct Findings {
    /// What stands in the way.
    pub blockers: Vec<Blocker>,
    /// What could not be resolved.
    pub unknowns: Vec<Unknown>,
    /// Remarks.
    pub notes: Vec<Note>,
}

/// The profile's meaning on a machine with these facts.
pub fn resolve(profile: &Profile, facts: &Facts) -> Desired {
    let mut findings = Findings::default();
    let mut cmdline = DesiredCmdline::default();
    iommu::resolve(&profile.iommu, facts, &mut cmdline, &mut findings);
    cmdline.set.extend(profile.cmdline.args.iter().map(|arg| wanted(arg, "cmdline")));
    cmdline.absent.extend(profile.cmdline.absent.iter().map(unwanted));

    findings.blockers.extend(acs::refuse_arguments(&mut cmdline.set, facts));

    let acs = acs::resolve(&profile.acs, facts);
    match acs.arg {
        Reading::Known(arg) => cmdline.set.push(arg),
        Reading::Absent => {}
        // The ports cannot be seen from here: what an earlier run put on the command line for them stays.
        Reading::Unknown(_) => {
            cmdline.keep.extend(["pci=config_acs", "pci=disable_acs_redir"].map(str::to_owned))
        }
    }
    findings.blockers.extend(acs.blockers);
    findings.unknowns.extend(acs.unknowns);
    findings.notes.extend(acs.notes);

    let sriov = sriov::resolve(&profile.sriov, facts);
    findings.blockers.extend(sriov.blockers);
    findings.unknowns.extend(sriov.unknowns);
    findings.notes.extend(sriov.notes);

    let modules = modules(profile, facts, &mut findings);
    Desired {
        cmdline,
        modules,
        acs: acs.acs,
        sriov: sriov.vfs,
        blockers: findings.blockers,
        unknowns: findings.unknowns,
        notes: findings.notes,
    }
}

fn wanted(arg: &CmdlineArg, from: &'static str) -> WantedArg {
    WantedArg { token: arg.arg.clone(), why: arg.why.clone(), from }
}

fn unwanted(arg: &CmdlineArg) -> UnwantedArg {
    UnwantedArg { token: arg.arg.clone(), why: arg.why.clone() }
}

fn modules(profile: &Profile, facts: &Facts, findings: &mut Findings) -> DesiredModules {
    let named = |module: &Module| (module.name.clone(), module.why.clone());
    let mut load: Vec<WantedModule> = profile
        .modules
        .load
        .iter()
        .map(|module| WantedModule {
            name: module.name.clone(),
            load: module.load,
            why: module.why.clone(),
        })
        .collect();
    if let Some(peermem) = gpudirect::resolve(profile.modules.gpudirect, facts, findings)
        && !load.iter().any(|module| module.name == peermem.name)
    {
        load.push(peermem);
    }
    let options = profile.modules.options.iter().map(|option| WantedOption {
        module: option.module.clone(),
        parameter: option.parameter.clone(),
        value: option.value.clone(),
        why: option.why.clone(),
    });
    DesiredModules {
        load,
        options: options.collect(),
        blacklist: profile.modules.blacklist.iter().map(named).collect(),
        unload: profile.modules.unload.iter().map(named).collect(),
    }
}
