//! Size of /dev/shm. systemd mounts it before it reads any unit, and refuses units and drop-ins for it (src/core/mount.c,
//! mount_verify), so that bedplate sets the size of the mounted file system at every boot.

use super::section::{LEAST, MOST_PERCENT, ShmSize};
use super::{NAME, requested};
use crate::image_config::LiveOnly;
use crate::kind::{Context, WRITE_LIMIT_S, hugepages, still_set};
use crate::plan::{Action, Effect, Item, KindPlan};
use crate::setting::WriteAttribute;
use bedplate_base::memory_size;
use bedplate_facts::limits::{PAGE, SHM, share_of_memory, shm_size};
use bedplate_host::HostKind;

const GIB: u128 = 1 << 30;
/// Size of a file system without a limit.
const UNLIMITED: &str = "0k";

/// Compares the size with the profile.
pub(super) fn plan(context: &Context, section: &mut KindPlan) {
    let Some(wanted) = context.profile.limits.shm_size else {
        return section.notes.extend(still_set(context, NAME, |_| false));
    };
    let item = |before: Option<&str>, after: &str| {
        vec![Item::new("size", before, Some(after), &[requested("limits.shm_size")])]
    };
    if context.facts.host == HostKind::Image {
        let items = item(None, &wanted.to_string());
        return section.changes.push(NAME.deferred_change("shm", SHM, items));
    }
    // GPU memory and CXL memory are nodes without CPUs, which appear and disappear.
    let memory = match hugepages::memory_of_cpus(context.reader) {
        Ok(memory) => memory,
        Err(error) => return section.unknowns.push(NAME.unknown(SHM, error.to_string())),
    };
    let bytes = match wanted {
        ShmSize::Percent(share) => share_of_memory(memory, share),
        ShmSize::Bytes(bytes) => bytes / PAGE * PAGE,
    };
    let after = format!("{}k", bytes >> 10);
    let before = match shm_size(context.reader) {
        Ok(before) => before,
        Err(error) if error.is_absent() => {
            let fix =
                "mount a tmpfs there (systemd does so at boot), or remove `shm_size` from [limits]";
            return section.blockers.push(NAME.blocker(SHM, "nothing is mounted on it", fix));
        }
        Err(error) => return section.unknowns.push(NAME.unknown(SHM, error.to_string())),
    };
    if before == after {
        return section.unchanged.push(NAME.up_to_date(SHM, format_size(&after)));
    }
    if let Some((reason, fix)) = obstacle(&before, wanted, bytes, memory) {
        return section.blockers.push(NAME.blocker(SHM, reason, fix));
    }
    let write = WriteAttribute {
        path: SHM.to_owned(),
        before: before.clone(),
        after: after.clone(),
        limit_s: WRITE_LIMIT_S,
    };
    let actions = vec![Action::WriteAttribute(write)];
    let items = item(Some(&format_size(&before)), &format_size(&after));
    section.changes.push(NAME.change("shm", SHM, items, Effect::EveryBoot, actions));
}

/// Returns why the size cannot be set, and the fix.
fn obstacle(
    before: &str,
    size: ShmSize,
    bytes: u64,
    memory: u64,
) -> Option<(String, &'static str)> {
    if before == UNLIMITED {
        let reason =
            "it has no limit, and the kernel sets one only when it is mounted (mm/shmem.c)";
        return Some((reason.to_owned(), "reboot, or remove `shm_size` from [limits]"));
    }
    if bytes < LEAST {
        let reason =
            format!("{size} of memory are less than 1 GiB, too little for NCCL and data loaders");
        return Some((reason, "set a larger `shm_size` in [limits]"));
    }
    let is_too_large = bytes > share_of_memory(memory, MOST_PERCENT);
    is_too_large.then(|| {
        let reason = format!(
            "{size} are more than {MOST_PERCENT} % of the memory of {}: full, it would stop the host",
            memory_size::format((memory >> 30 << 30).into())
        );
        (reason, "set a smaller `shm_size` in [limits]")
    })
}

/// Formats a size as mount options have it, `67108864k`, in its largest unit.
fn format_size(text: &str) -> String {
    let kib = text.strip_suffix('k').and_then(|number| number.parse::<u128>().ok());
    let Some(bytes) = kib.map(|kib| kib << 10) else { return text.to_owned() };
    match bytes.is_multiple_of(GIB) {
        true => memory_size::format(bytes),
        false => format!("{}.{}G", bytes / GIB, bytes % GIB * 10 / GIB),
    }
}

/// Returns the part of an image's configuration that only a running host can apply.
pub(super) fn live_only(size: ShmSize) -> LiveOnly {
    LiveOnly {
        id: format!("{NAME}/shm"),
        what: format!("a size of {size} for {SHM}"),
        why: "systemd mounts it at every boot, with half of memory, and allows no unit for it (systemd \
              src/core/mount.c)"
            .to_owned(),
        with_agent: "run bedplate on the host at every boot; put limits.conf into the image, without which its units may not \
                     set the size (docs/daemon.md, Additional rights)"
            .to_owned(),
        without_agent: format!(
            "add the line `tmpfs {SHM} tmpfs nosuid,nodev,size={size} 0 0` to the image's /etc/fstab, which \
             systemd-remount-fs applies"
        ),
    }
}
