//! Parts of modprobe.d that wait for a boot. An option takes effect when its module is next loaded; a blacklist of a loaded
//! module when the kernel next starts. If sysfs shows the option, the running value decides; otherwise the ledger records
//! the writes of this boot.

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

/// One item of a change that waits for a boot.
pub(crate) struct Wait {
    module: String,
    subject: String,
    began: Option<String>,
    next: Option<String>,
    shown: bool,
}

impl Wait {
    /// Whether it needs a boot. A removal does not; only the file's earlier value is recorded.
    pub(super) fn is_due(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the record for the ledger, or `None` if the running module shows the value.
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

/// Returns the items that wait for a boot after the file changes from `ours` to `target`. A module that already runs with
/// the value waits for nothing: the file is only restored. `content` is the digest of the new file.
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

/// Returns the file's value of an option at the start of this boot, if bedplate has changed it since.
fn began(context: &Context, subject: &str) -> Option<Option<String>> {
    let mut records = context.ledger.waiting.iter();
    let record = records.find(|record| record.kind == NAME && record.subject == subject)?;
    let boot = boot_id::read(context.reader).ok()?;
    (record.boot == boot).then(|| record.began.clone())
}

/// Whether the file is being restored to bedplate's last content after another tool changed or removed it. Assumes that
/// this boot started with bedplate's content. A file that was removed before the boot and restored after it does wait for
/// another boot, but the host does not show the difference.
fn is_put_back(context: &Context, content: Option<&Sha>) -> bool {
    let Some(record) = context.ledger.files.get(MODPROBE_PATH) else { return false };
    content.is_some() && record.unfinished.is_none() && record.ours.as_slice() == [content.cloned()]
}

/// Reports the ledger's writes of this boot that wait for the next one, except `items`, which are about to be rewritten. A
/// module that is no longer loaded waits for nothing: its next load uses the written value.
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
            running: Some("loaded before the change".to_owned()),
            next: record.next.clone(),
            effect: Effect::NextBoot,
        }
    }));
}

fn live(context: &Context, module: &str) -> bool {
    module.parse().is_ok_and(|module| is_live(context.reader, &module) == Reading::Known(true))
}
