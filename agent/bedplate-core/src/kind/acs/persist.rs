//! Persistence of ACS bits across resets and reboots: the kernel argument, or runtime writes at every boot. Pure.

use crate::desired::{AcsPersistence, AcsPolicy, ArgSource, KernelArg, WantedAcs};
use crate::kind::some_of;
use crate::plan::Rationale;
use bedplate_base::Reading;
use bedplate_facts::Os;

use super::NAME;
use super::fabric::Target;
use super::resolved::ResolvedAcs;
use super::section::{self, AcsPersist};
use super::shared_group;
use super::support::{Support, kernel_acs_support, of_next_boot};
use super::token;

/// Ports that need only bits off, which is all that `pci=disable_acs_redir=` can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectOnly {
    /// All ports.
    All,
    /// Those of some PCIe trees.
    Some,
    /// No port.
    None,
}

impl RedirectOnly {
    /// Evaluates targets. Policy `clear` needs more bits off than the argument clears.
    pub(super) fn from_targets<'a>(
        policy: AcsPolicy,
        targets: impl Iterator<Item = &'a Target>,
    ) -> Self {
        let (only, more): (Vec<_>, Vec<_>) = targets.partition(|t| t.bits.on().is_empty());
        match (only.is_empty(), more.is_empty()) {
            _ if policy != AcsPolicy::DirectP2p => RedirectOnly::None,
            (_, true) => RedirectOnly::All,
            (false, false) => RedirectOnly::Some,
            (true, false) => RedirectOnly::None,
        }
    }

    /// Whether the argument is used; with persistence `auto` it is used for every PCIe tree that can have it.
    fn is_used(self, profile: &section::Acs) -> bool {
        match self {
            RedirectOnly::All => true,
            RedirectOnly::Some => profile.persistence == AcsPersist::Auto,
            RedirectOnly::None => false,
        }
    }
}

/// Notes the ports that the argument does not cover.
fn remark_on_the_rest(wanted: &[WantedAcs], resolved: &mut ResolvedAcs) {
    let rest = wanted.iter().filter(|port| !AcsPersistence::DisableAcsRedir.carries(port));
    let rest: Vec<String> = rest.map(|port| port.port.to_string()).collect();
    if !rest.is_empty() {
        let text = "written at runtime after every boot: the next kernel supports only pci=disable_acs_redir=, which \
                    clears RR, CR and EC together and nothing else; the other ports use it";
        resolved.note(format!("port {}", some_of(rest.into_iter(), 4, "ports")), text);
    }
}

/// Reason why the kernel command line cannot make the bits persistent, and the kernels with which it can.
struct ArgumentObstacle {
    reason: String,
    kernels: &'static str,
}

impl From<String> for ArgumentObstacle {
    fn from(reason: String) -> Self {
        ArgumentObstacle { reason, kernels: "6.12.23, 6.13.11, 6.14.2, 6.15 or newer" }
    }
}

/// Chooses how the bits persist, and sets ports and argument accordingly. `shares_groups`: whether the bits, set at
/// boot, put GPUs into IOMMU groups with bridges.
pub(crate) fn persist(
    profile: &section::Acs,
    os: &Os,
    redirect_only: RedirectOnly,
    shares_groups: bool,
    ports: &dyn Fn(AcsPersistence) -> Vec<WantedAcs>,
    resolved: &mut ResolvedAcs,
) {
    let chosen = choose(profile, os, redirect_only, shares_groups).and_then(|persistence| {
        let wanted = ports(persistence);
        // An argument that would remove a VM's isolation at the next boot is refused like the runtime write.
        let allowed = wanted.iter().filter(|port| !port.exposes_guests());
        let allowed: Vec<WantedAcs> =
            allowed.filter(|port| persistence.carries(port)).cloned().collect();
        match token::render(persistence, &allowed) {
            None if persistence != AcsPersistence::Live && !allowed.is_empty() => Err(format!(
                "the argument for {} ports would exceed {} bytes of the kernel command line",
                allowed.len(),
                token::TOKEN_LIMIT
            )
            .into()),
            text => Ok((persistence, wanted, text)),
        }
    });
    keep_for_unknown_kernel(profile, os, resolved);
    match chosen {
        Ok((persistence, wanted, text)) => {
            remark_on_one_boot(persistence, os, resolved);
            if persistence == AcsPersistence::DisableAcsRedir {
                remark_on_the_rest(&wanted, resolved);
            }
            if persistence == AcsPersistence::ConfigAcs
                && shares_groups
                && let Ok((release, _)) = of_next_boot(os)
            {
                shared_group::remark_on_fix(release, os, resolved);
            }
            resolved.acs.persistence = persistence;
            resolved.acs.ports = wanted;
            resolved.arg = text.map_or(Reading::Absent, |token| {
                Reading::Known(KernelArg {
                    token,
                    why: argument_why(profile),
                    from: ArgSource::Acs,
                })
            });
        }
        Err(ArgumentObstacle { reason, kernels }) if profile.persistence == AcsPersist::Cmdline => {
            resolved.blockers.push(NAME.blocker(
                "acs.persistence",
                format!("the kernel command line cannot make ACS bits persistent: {reason}"),
                format!(
                    "boot Linux {kernels}, or set acs.persistence = \"auto\" to write the bits at runtime after every boot"
                ),
            ));
        }
        Err(ArgumentObstacle { reason, .. }) => {
            resolved.acs.ports = ports(AcsPersistence::Live);
            let text = format!("written at runtime after every boot: {reason}");
            resolved.note("acs.persistence", text);
        }
    }
}

/// Notes a kernel chosen for one boot only that cannot read the argument.
fn remark_on_one_boot(persistence: AcsPersistence, os: &Os, resolved: &mut ResolvedAcs) {
    let (Some(Reading::Known(lasting)), Some(next)) = (&os.lasting_kernel, os.next_kernel.known())
    else {
        return;
    };
    let reads = match (persistence, kernel_acs_support(next)) {
        (AcsPersistence::Live, _) | (_, Support::ConfigAcs) => true,
        (AcsPersistence::DisableAcsRedir, support) => support == Support::DisableAcsRedir,
        (AcsPersistence::ConfigAcs, _) => false,
    };
    if !reads {
        let text = format!(
            "Linux {next}, chosen for one boot only, may not read the kernel argument, which is for Linux {lasting} of \
             the default entry; on that boot the bits are written at runtime"
        );
        resolved.note("acs.persistence", text);
    }
}

/// Keeps an earlier argument if the next kernel is unknown, and with it its support: removing and restoring the argument
/// costs a cold reboot each.
fn keep_for_unknown_kernel(profile: &section::Acs, os: &Os, resolved: &mut ResolvedAcs) {
    if profile.persistence == AcsPersist::Live {
        return;
    }
    if let Err(error) = of_next_boot(os) {
        let reason = error.to_string();
        resolved.arg = Reading::unknown(reason.clone());
        let subject = "kernel argument of an earlier run, which stays".to_owned();
        resolved.kept_unsure = Some(NAME.unknown(subject, reason));
    }
}

fn argument_why(profile: &section::Acs) -> Vec<Rationale> {
    let lasting = Rationale::new(
        "survives resets and reboots, unlike a register write",
        "Linux drivers/pci/pci.c; handbook §3.4",
    );
    std::iter::once(lasting).chain(profile.why.iter().cloned()).collect()
}

/// Returns how the bits can persist on the next kernel, or why the command line cannot be used.
fn choose(
    profile: &section::Acs,
    os: &Os,
    redirect_only: RedirectOnly,
    shares_groups: bool,
) -> Result<AcsPersistence, ArgumentObstacle> {
    if profile.persistence == AcsPersist::Live {
        return Ok(AcsPersistence::Live);
    }
    let (release, support) = of_next_boot(os).map_err(|error| error.to_string())?;
    match support {
        Support::ConfigAcs => {
            // Runtime writes change no IOMMU group, so the GPUs keep their PASIDs.
            let is_insisted_on = profile.persistence == AcsPersist::Cmdline;
            let refusal = shared_group::refusal(release, os, is_insisted_on);
            match refusal.filter(|_| shares_groups) {
                Some(reason) => {
                    Err(ArgumentObstacle { reason, kernels: shared_group::ACCEPTING })
                }
                None => Ok(AcsPersistence::ConfigAcs),
            }
        }
        Support::DisableAcsRedir if redirect_only.is_used(profile) => {
            Ok(AcsPersistence::DisableAcsRedir)
        }
        Support::DisableAcsRedir => Err(format!(
            "Linux {release} supports only pci=disable_acs_redir=, which clears RR, CR and EC together and nothing else"
        )
        .into()),
        Support::Neither => Err(format!("Linux {release} supports no pci= argument for ACS").into()),
        Support::Unsure(reason) => Err(reason.into()),
    }
}
