//! What of modprobe.d waits for a boot. An option counts when its module is loaded next, and a blacklist of a loaded
//! module when the kernel starts next. Where sysfs shows the option, the running module says what waits; where it does
//! not, the ledger remembers what was written in this boot.

use std::collections::BTreeSet;

use super::NAME;
use super::conf::Modprobe;
use super::conf::same_value;
use crate::kind::Context;
use crate::ledger::{Sha, WaitRecord};
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::{Effect, Item, KindPlan, Pending, PendingUntilBoot};
use bedplate_base::Reading;
use bedplate_host::module::is_live;
use bedplate_host::{HostKind, boot_id};

/// One thing of a change that waits for a boot.
pub(crate) struct Wait {
    module: String,
    subject: String,
    began: Option<String>,
    next: Option<String>,
    shown: bool,
}

impl Wait {
    /// Whether a boot is due for it. What is taken away from the file asks for none; only what the file said is remembered.
    pub(super) fn is_due(&self) -> bool {
        self.next.is_some()
    }

    /// What the ledger has to remember of it; `None`: the running module shows it.
    pub(super) fn pending_until_boot(self, change: &str) -> Option<PendingUntilBoot> {
        let Wait { module, subject, began, next, shown } = self;
        (!shown).then(|| PendingUntilBoot {
            change: change.to_owned(),
            module,
            subject,
            began,
            next,
        })
    }
}

/// What waits for a boot once the file says `target` in place of `ours`. A module that already runs with the value
/// waits for nothing: then the file is only put back. `content` is what the file will be.
pub(crate) fn waiting(
    context: &Context,
    ours: &Modprobe,
    target: &Modprobe,
    content: Option<&Sha>,
) -> Vec<Wait> {
    if context.facts.host == HostKind::Image {
        return Vec::new();
    }
    let put_back = is_put_back(context, content);
    let keys: BTreeSet<_> = ours.options.keys().chain(target.options.keys()).collect();
    let keys = keys.into_iter().filter(|key| ours.options.get(*key) != target.options.get(*key));
    let options = keys.filter(|(module, _)| live(context, module)).filter_map(|key| {
        let (module, parameter) = key;
        let next = target.options.get(key).cloned();
        let subject = format!("options {module} {parameter}");
        let running =
            context.reader.attribute(&format!("/sys/module/{module}/parameters/{parameter}"));
        let shown = running.is_ok();
        let began = match began(context, &subject) {
            Some(began) => began,
            None if put_back => next.clone(),
            None => ours.options.get(key).cloned(),
        };
        let right = match (running, &next) {
            (Ok(running), Some(next)) => same_value(&running, next),
            (Ok(_), None) => true,
            (Err(_), _) => began == next,
        };
        (!right).then(|| Wait { module: module.clone(), subject, began, next, shown })
    });
    let blacklist =
        target.blacklist.difference(&ours.blacklist).filter(|module| live(context, module));
    let blacklist = blacklist.map(|module| Wait {
        module: module.clone(),
        subject: format!("blacklist {module}"),
        began: None,
        next: Some("alias loading stopped".to_owned()),
        shown: false,
    });
    options.chain(blacklist).collect()
}

/// What the file said of an option when this boot began, if bedplate has changed that since.
fn began(context: &Context, subject: &str) -> Option<Option<String>> {
    let mut records = context.ledger.waiting.iter();
    let record = records.find(|record| record.kind == NAME && record.subject == subject)?;
    let boot = boot_id::read(context.reader).ok()?;
    (record.boot == boot).then(|| record.began.clone())
}

/// Whether the file becomes what bedplate last left there: others have changed or removed it since, and it is put back.
/// The boot is taken to have begun with bedplate's content. A doubt remains: a file that was removed before the boot and is
/// put back after it does wait for another one, and nothing on this host tells the two apart.
fn is_put_back(context: &Context, content: Option<&Sha>) -> bool {
    let Some(record) = context.ledger.files.get(MODPROBE_PATH) else { return false };
    content.is_some() && record.unfinished.is_none() && record.ours.as_slice() == [content.cloned()]
}

/// What was written in this boot and waits for the next one, as the ledger remembers it; `items` are about to be written
/// again. A module that is gone waits for nothing: its next load brings what was written.
pub(crate) fn pending(context: &Context, items: &[Item], section: &mut KindPlan) {
    let mut records = context.ledger.waiting.iter().filter(|record| record.kind == NAME).peekable();
    if records.peek().is_none() || context.facts.host == HostKind::Image {
        return;
    }
    let Ok(boot) = boot_id::read(context.reader) else { return };
    let again = |subject: &str| items.iter().any(|item| item.subject == subject);
    let due = |record: &&WaitRecord| record.boot == boot && record.next.is_some();
    let waits = records.filter(due).filter(|record| !again(&record.subject));
    section.pending.extend(waits.filter(|record| live(context, &record.module)).map(|record| {
        Pending {
            kind: NAME,
            subject: record.subject.clone(),
            running: Some("loaded before that".to_owned()),
            next: record.next.clone(),
            effect: Effect::NextBoot,
        }
    }));
}

fn live(context: &Context, module: &str) -> bool {
    module.parse().is_ok_and(|module| is_live(context.reader, &module) == Reading::Known(true))
}
