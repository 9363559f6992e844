//! Examples of the man pages.

use clap::Command;

/// A command line, and what it does.
type Example = (&'static str, &'static str);

/// Command, without the program's name → examples.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "bedplate",
        &[
            ("bedplate verify", "Check whether this host is ready for GPUDirect RDMA."),
            ("bedplate plan", "Show the pending changes; write nothing."),
            ("bedplate plan --demo hgx", "Show the plan of a demo host, without hardware or root."),
        ],
    ),
    (
        "plan",
        &[
            ("bedplate plan", "Show the pending changes of this host."),
            ("bedplate plan --diff", "Show the exact changes of files, registers and attributes."),
            (
                "bedplate plan --root /mnt/image --cpu intel --exit-code",
                "Check in CI that an image matches its profile.",
            ),
        ],
    ),
    (
        "apply",
        &[
            ("bedplate apply", "Show the plan, and apply it after a confirmation."),
            ("bedplate apply --yes", "Apply without asking. Exit status 3: a reboot is pending."),
            (
                "bedplate apply --root /mnt/image --cpu intel --chroot-tools --yes",
                "Apply the profile to an image, and run the image's own tools in it.",
            ),
        ],
    ),
    (
        "revert",
        &[
            ("bedplate revert --dry-run", "Show what would be reverted."),
            ("bedplate revert --hold", "Revert, and pause the daemon until `bedplate release`."),
            (
                "bedplate revert --root /mnt --chroot-tools",
                "Revert a mounted disk from a rescue system, and run its own tools in it.",
            ),
        ],
    ),
    ("release", &[("bedplate release", "Let the daemon enforce the profile again.")]),
    (
        "seal",
        &[
            ("bedplate seal --dry-run", "Show what would be removed and kept, with reasons."),
            ("bedplate seal --root /mnt/image --yes", "Seal an image before it is cloned."),
        ],
    ),
    (
        "history",
        &[
            ("bedplate history", "Show the changes that bedplate made on this host."),
            ("bedplate history --root /mnt", "Show those of a mounted disk."),
        ],
    ),
    (
        "inspect",
        &[
            ("bedplate inspect --tree", "Show the PCI tree with links, ACS bits and IOMMU groups."),
            ("bedplate inspect --snapshot node17.bp --json", "Print a recorded host as JSON."),
        ],
    ),
    (
        "topology",
        &[
            ("bedplate topology", "Show the distances, and the recommended NIC for each GPU."),
            ("bedplate topology --html --out node17.html", "Write a page with picture and matrix."),
            ("bedplate topology --for ucx", "Print the variables that give UCX these NICs."),
            (
                "bedplate topology --import nccl-topo.xml",
                "Compare NCCL's topology file with sysfs.",
            ),
        ],
    ),
    (
        "verify",
        &[
            ("bedplate verify", "Check this host, with evidence and fixes."),
            (
                "bedplate verify --snapshot 'nodes/*.bp'",
                "Check recorded hosts, and count those ready.",
            ),
            ("bedplate verify --explain iommu.mode", "Explain a check."),
        ],
    ),
    (
        "doctor",
        &[
            ("bedplate doctor", "Check this host for every symptom."),
            ("bedplate doctor socket-fallback", "Find out why NCCL uses TCP instead of RDMA."),
            ("bedplate doctor job.log", "Scan the log of a job for symptoms."),
        ],
    ),
    (
        "nccl",
        &[
            ("bedplate nccl env", "Print the variables that NCCL needs on this host."),
            ("bedplate nccl job job.log", "Judge a job, and name the node at fault."),
            ("bedplate nccl log job.log", "Show how the ranks of a job were connected."),
            (
                "bedplate nccl perf result.txt",
                "Check whether the links explain a benchmark result.",
            ),
        ],
    ),
    (
        "nccl env",
        &[
            ("bedplate nccl env > /etc/nccl.conf", "Configure NCCL on this host."),
            (
                "bedplate nccl env --format k8s --snapshot node17.bp",
                "Print the env list of a container for a recorded host.",
            ),
            (
                "bedplate nccl env --nccl-version 2.18 -v",
                "Also list variables that are not needed.",
            ),
        ],
    ),
    (
        "nccl job",
        &[
            ("bedplate nccl job job.log", "Judge a job from its output."),
            (
                "bedplate nccl job rank*.log --snapshot 'nodes/*.bp'",
                "Judge it with the recordings of its nodes.",
            ),
        ],
    ),
    (
        "nccl log",
        &[
            ("bedplate nccl log job.log.1.gz job.log", "Analyze a rotated log."),
            (
                "bedplate nccl log job.log --snapshot 'nodes/*.bp'",
                "Also find causes in the recordings of the nodes.",
            ),
        ],
    ),
    (
        "nccl perf",
        &[
            ("bedplate nccl perf result.txt", "Compare a result with the links of this host."),
            (
                "bedplate nccl perf result.txt --snapshot node17.bp",
                "Compare it with the links of a recorded host.",
            ),
            ("bedplate nccl perf result.txt --svg --out result.svg", "Write it as a picture."),
        ],
    ),
    (
        "report",
        &[
            ("bedplate report --out node17.html --title node17", "Write the page of this host."),
            ("bedplate report --snapshot node17.bp --out -", "Print the page of a recorded host."),
        ],
    ),
    (
        "snapshot",
        &[
            ("bedplate snapshot --out node17.bp", "Record this host."),
            ("bedplate snapshot --show-redactions", "Record it in host.bp, and list masked parts."),
        ],
    ),
    (
        "render",
        &[
            (
                "bedplate render grub --profile site.toml --cpu intel --out image-root",
                "Write GRUB settings, module and sysctl files into an image.",
            ),
            (
                "bedplate render ansible --profile site.toml --check roles/bedplate",
                "Check in CI that rendered files are up to date.",
            ),
            (
                "bedplate render nccl-job --as slurm --snapshot node17.bp --out job",
                "Write a benchmark of one node as a batch script.",
            ),
            (
                "bedplate render nccl-job --test torchrun --nodes 2 --image IMAGE --snapshot node17.bp --out job",
                "Write a training loop on two nodes as a Kubernetes Job.",
            ),
        ],
    ),
    (
        "profile",
        &[
            ("bedplate profile init", "Write a profile for this host, to start from."),
            ("bedplate profile check", "Check the installed profile."),
            ("bedplate profile explain acs.policy", "Explain a key."),
        ],
    ),
    (
        "profile init",
        &[
            ("bedplate profile init", "Write /etc/bedplate/profile.toml."),
            (
                "bedplate profile init --root /mnt/image --extends hgx-h100",
                "Write the profile of an image, which has no hardware to match.",
            ),
            ("bedplate profile init --snapshot node17.bp", "Print a profile for a recorded host."),
        ],
    ),
    (
        "profile edit",
        &[("bedplate profile edit", "Edit, check and install the profile of this host.")],
    ),
    (
        "profile list",
        &[
            ("bedplate profile list", "List the shipped profiles, best match first."),
            ("bedplate profile list --demo gb200", "Do the same for a demo host."),
        ],
    ),
    (
        "profile show",
        &[
            ("bedplate profile show --origin", "Show the file and line of every effective value."),
            ("bedplate profile show --profile hgx-h100", "Print a shipped profile."),
        ],
    ),
    (
        "profile check",
        &[
            ("bedplate profile check", "Check the installed profiles."),
            (
                "bedplate profile check --strict base.toml site.toml",
                "Check a file and its overlay.",
            ),
        ],
    ),
    (
        "profile schema",
        &[("bedplate profile schema > bedplate.schema.json", "Write the schema for an editor.")],
    ),
    (
        "profile explain",
        &[
            ("bedplate profile explain", "List all keys."),
            ("bedplate profile explain acs.policy", "Explain a key."),
        ],
    ),
    (
        "status",
        &[
            ("bedplate status", "Show whether this host is ready, and why not."),
            ("bedplate status --wait 10m", "Wait until it is ready, at most 10 minutes."),
        ],
    ),
    (
        "reconcile",
        &[
            ("bedplate reconcile", "Retry failed changes now."),
            ("bedplate reconcile --forget-missing", "Accept that GPUs or NICs were removed."),
        ],
    ),
    (
        "reboot",
        &[
            ("bedplate reboot status", "Show whether a reboot is pending, and what blocks it."),
            (
                "bedplate reboot hold --for 4h --why 'training run 7'",
                "Prevent reboots for 4 hours.",
            ),
        ],
    ),
    (
        "reboot status",
        &[
            ("bedplate reboot status", "Show the pending reboot, and the cause of the last one."),
            ("bedplate reboot status --json", "Print it as JSON."),
        ],
    ),
    (
        "reboot schedule",
        &[
            ("bedplate reboot schedule --in now --why 'the run is over'", "Reboot now."),
            (
                "bedplate reboot schedule --at 2026-03-03T03:00:00Z",
                "Reboot at this time, or later if something blocks it.",
            ),
        ],
    ),
    ("reboot cancel", &[("bedplate reboot cancel", "Cancel the scheduled reboot.")]),
    (
        "reboot hold",
        &[
            (
                "bedplate reboot hold --for 4h --why 'training run 7'",
                "Prevent reboots for 4 hours.",
            ),
            ("bedplate reboot hold --why INC-1234", "Prevent reboots until the hold is released."),
        ],
    ),
    ("reboot release", &[("bedplate reboot release", "Allow reboots again.")]),
    (
        "daemon",
        &[("bedplate daemon", "Enforce the profile in the foreground, as bedplate.service does.")],
    ),
    (
        "completions",
        &[
            (
                "bedplate completions bash > /etc/bash_completion.d/bedplate",
                "Install completions for bash.",
            ),
            (
                "bedplate completions zsh > /usr/share/zsh/vendor-completions/_bedplate",
                "Install completions for zsh on Debian.",
            ),
        ],
    ),
];

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

/// Returns the examples of a command. Its definition must be built.
pub(crate) fn of(command: &Command) -> &'static [Example] {
    let name = name(command);
    let path = name.strip_prefix("bedplate ").unwrap_or(name);
    let found = EXAMPLES.iter().find(|(key, _)| *key == path);
    found.map(|(_, examples)| *examples).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    /// Splits a command line into words, up to a redirection. Single quotes enclose whole words.
    fn words(line: &str) -> Vec<&str> {
        let command = line.split(" > ").next().unwrap_or(line);
        let parts = command.split('\'').enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                1 => vec![part],
                _ => part.split_whitespace().collect(),
            })
            .collect()
    }

    fn check(command: &Command) {
        let name = name(command);
        assert!(!of(command).is_empty(), "{name} has no example");
        for (line, _) in of(command) {
            assert!(line.starts_with(name), "{name}: {line}");
            if let Err(error) = Cli::try_parse_from(words(line)) {
                panic!("{line}: {error}");
            }
        }
        command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(check);
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        check(&command);
    }
}
