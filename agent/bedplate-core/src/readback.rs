//! Reads back the results of actions: evaluates a [`Check`] against the current host.

use crate::apply::Answer;
use crate::kind::cmdline;
use crate::plan::Check;
use bedplate_base::Reading;
use bedplate_base::value::{ModuleName, NotAValue};
use bedplate_facts::Facts;
use bedplate_host::{Reader, module};

/// Evaluates the check.
pub fn check(reader: &dyn Reader, facts: &Facts, check: &Check) -> Answer {
    match check {
        Check::NextBoot { present, absent, before } => match cmdline::next_boot(reader, facts) {
            Reading::Known(line) => {
                let carried = cmdline::check_texts(reader, facts, &line, present, absent)
                    .map_err(|wrong| wrong.to_string());
                // Tools may have made another kernel the default.
                let mut facts = facts.clone();
                facts.os.next_kernel = cmdline::next_kernel(reader, &facts);
                match carried.and_then(|()| cmdline::check_entry(reader, &facts, before.as_ref())) {
                    Ok(()) => Answer::Holds,
                    Err(wrong) => Answer::Not(format!("wrong default boot entry: {wrong}")),
                }
            }
            Reading::Absent => Answer::Not("no default boot entry found".into()),
            Reading::Unknown(why) => {
                Answer::Unknown(format!("cannot read the default boot entry: {why}"))
            }
        },
        Check::ModuleLive { module } => live(reader, module),
    }
}

fn live(reader: &dyn Reader, name: &str) -> Answer {
    let module: ModuleName = match name.parse() {
        Ok(module) => module,
        Err(error) => return Answer::Unknown(NotAValue::to_string(&error)),
    };
    match module::is_live(reader, &module) {
        Reading::Known(true) => Answer::Holds,
        Reading::Known(false) | Reading::Absent => {
            Answer::Not(format!("module {module} is not loaded"))
        }
        Reading::Unknown(why) => Answer::Unknown(why.into()),
    }
}
