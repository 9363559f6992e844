//! The values that the running kernel has.

use super::NAME;
use super::key::folded;
use super::section::Setting;
use crate::kind::Context;
use crate::plan::{Action, Blocker, Change, Effect, Item, Section, Settled, Unknown};

/// Seconds a write may take. Most take none; vm.nr_hugepages looks for its pages while the write lasts.
const LIMIT_S: u32 = 60;

/// Compares the running values.
pub fn plan(context: &Context, wanted: &[Setting], section: &mut Section) {
    for setting in wanted {
        let subject = setting.key.to_string();
        match context.reader.attribute(&setting.key.path()) {
            Ok(now) if folded(&now) == setting.value => {
                let state = format!("{}, running", setting.value);
                section.settled.push(Settled { kind: NAME, subject, state });
            }
            Ok(now) => section.changes.push(change(setting, now)),
            Err(error) if error.is_absent() => section.blockers.push(Blocker {
                kind: NAME,
                reason: format!("the running kernel has no {}", setting.key.path()),
                remedy: format!(
                    "load the module that brings it ([modules] load), or correct `{subject}` in [sysctl] set or drop it there"
                ),
                subject,
            }),
            Err(error) => {
                section.unknowns.push(Unknown { kind: NAME, subject, reason: error.to_string() });
            }
        }
    }
}

fn change(setting: &Setting, now: String) -> Change {
    let subject = setting.key.to_string();
    // Lists of numbers come back with tabs (kernel/sysctl.c, proc_dointvec): written so, they read back as written.
    let after = match now.contains('\t') {
        true => setting.value.replace(' ', "\t"),
        false => setting.value.clone(),
    };
    Change {
        id: format!("{NAME}/{subject}"),
        kind: NAME,
        items: vec![Item {
            subject: "running".into(),
            before: Some(folded(&now)),
            after: Some(setting.value.clone()),
            why: setting.why.clone(),
        }],
        subject,
        effect: Effect::Now,
        actions: vec![Action::WriteAttribute {
            path: setting.key.path(),
            before: now,
            after,
            limit_s: LIMIT_S,
        }],
        disrupts: Vec::new(),
        needs: Vec::new(),
        owns: None,
        deferred: None,
    }
}
