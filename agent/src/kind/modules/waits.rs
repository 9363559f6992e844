//! What of modprobe.d waits for a boot. An option counts when its module is loaded next, and a blacklist of a loaded
//! module when the kernel starts next. Where sysfs shows the option, the running module says what waits; where it does
//! not, the ledger remembers what was written in this boot.

use super::NAME;
use super::conf::Modprobe;
use super::files::same_value;
use super::running::is_live;
use crate::host::{HostKind, Reading};
use crate::kind::Context;
use crate::plan::{Effect, Item, Pending, Section, Unseen};

/// One thing of a change that waits for a boot.
pub struct Wait {
    module: String,
    subject: String,
    next: Option<String>,
    shown: bool,
}

impl Wait {
    /// What the ledger has to remember of it; `None`: the running module shows it.
    pub fn unseen(self, change: &str) -> Option<Unseen> {
        let Wait { module, subject, next, shown } = self;
        (!shown).then(|| Unseen { change: change.to_owned(), module, subject, next })
    }
}

/// What waits for a boot once the file says `target` in place of `ours`. A module that already runs with the value
/// waits for nothing: then the file is only put back.
pub fn of(context: &Context, ours: &Modprobe, target: &Modprobe) -> Vec<Wait> {
    if context.facts.host == HostKind::Image {
        return Vec::new();
    }
    let options = target.options.iter().filter(|(key, value)| ours.options.get(*key) != Some(*value));
    let options = options.filter(|((module, _), _)| live(context, module)).filter_map(|(key, value)| {
        let (module, parameter) = key;
        let running = context.reader.attribute(&format!("/sys/module/{module}/parameters/{parameter}"));
        let shown = running.is_ok();
        let right = running.is_ok_and(|running| same_value(&running, value));
        let subject = format!("options {module} {parameter}");
        (!right).then(|| Wait { module: module.clone(), subject, next: Some(value.clone()), shown })
    });
    let blacklist = target.blacklist.difference(&ours.blacklist).filter(|module| live(context, module));
    let blacklist = blacklist.map(|module| Wait {
        module: module.clone(),
        subject: format!("blacklist {module}"),
        next: Some("alias loading stopped".to_owned()),
        shown: false,
    });
    options.chain(blacklist).collect()
}

/// What was written in this boot and waits for the next one, as the ledger remembers it; `items` are about to be written
/// again. A module that is gone waits for nothing: its next load brings what was written.
pub fn pending(context: &Context, items: &[Item], section: &mut Section) {
    let mut records = context.ledger.waiting.iter().filter(|record| record.kind == NAME).peekable();
    if records.peek().is_none() || context.facts.host == HostKind::Image {
        return;
    }
    let Ok(boot) = context.reader.attribute("/proc/sys/kernel/random/boot_id") else { return };
    let again = |subject: &str| items.iter().any(|item| item.subject == subject);
    let waits = records.filter(|record| record.boot == boot && !again(&record.subject));
    section.pending.extend(waits.filter(|record| live(context, &record.module)).map(|record| Pending {
        kind: NAME,
        subject: record.subject.clone(),
        running: Some("loaded before that".to_owned()),
        next: record.next.clone(),
        effect: Effect::NextBoot,
    }));
}

fn live(context: &Context, module: &str) -> bool {
    module.parse().is_ok_and(|module| is_live(context.reader, &module) == Reading::Known(true))
}
