//! Wrong registers under kernel lockdown, which refuses register writes: only the kernel's own argument can set them, at
//! boot. Pure.

use super::{NAME, Port, format_bits};
use crate::kind::register_lockdown;
use crate::plan::{Effect, KindPlan, Pending};

impl Port<'_> {
    /// Returns the reason why the register cannot be written at runtime, if any.
    pub(super) fn lockdown(&self) -> Option<String> {
        register_lockdown(self.context.facts)
    }

    /// Plans a port that cannot be written.
    pub(super) fn plan_locked(&self, lockdown: String, section: &mut KindPlan) {
        let blocker =
            |reason: String, fix: &str| NAME.blocker(self.subject(), reason, fix.to_owned());
        // Exposed until the boot that enables redirect on the port again.
        section.blockers.extend(self.exposed());
        if self.is_disobeyed() {
            let reason = format!(
                "reads {} although this kernel was booted with the argument for {}, and {lockdown}",
                format_bits(self.acs.control),
                format_bits(self.after())
            );
            let fix = "disable lockdown (Secure Boot), so that bedplate can write the register, or boot another \
                          kernel: some misread the argument (handbook §1.4)";
            section.blockers.push(blocker(reason, fix));
        } else if self.is_persistent() {
            section.pending.push(Pending {
                kind: NAME,
                subject: self.subject().to_string(),
                running: Some(format_bits(self.acs.control)),
                next: Some(format_bits(self.after())),
                effect: Effect::ColdBoot,
            });
        } else {
            let fix = match self.by_argument() {
                true => {
                    "fix what keeps the kernel argument off the command line (blockers and unknowns of this plan), or \
                     disable lockdown (Secure Boot)"
                }
                false => {
                    "set acs.persistence = \"cmdline\" with a kernel that has a working pci=config_acs, or disable \
                     lockdown (Secure Boot)"
                }
            };
            section.blockers.push(blocker(lockdown, fix));
        }
    }

    /// Whether the same kernel was booted with the argument of the next boot, and the register still differs: another boot
    /// would not help.
    pub(super) fn is_disobeyed(&self) -> bool {
        let os = &self.context.facts.os;
        let another_kernel = matches!((os.kernel.known(), os.next_kernel.known()), (Some(now), Some(next)) if now != next);
        let port = self.wanted.port;
        self.is_persistent()
            && self.running.of_port(port) == self.next.of_port(port)
            && !another_kernel
    }
}
