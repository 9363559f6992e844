//! Which method is taken, from the profile's order and the probes' answers. Pure. Falling back is a stated choice:
//! only what the profile lists is ever taken, so a list of one entry has nothing to fall back to.

use super::{Method, Unusable};

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The first listed method that works, and how; `None` = do not reboot.
    pub taken: Option<(Method, String)>,
    /// Those listed before it that do not work, and why, in the profile's order.
    pub skipped: Vec<(Method, String)>,
}

impl Choice {
    /// What to tell people, a line each: first what was skipped, then what happens.
    pub(crate) fn describe(&self) -> Vec<String> {
        let skipped =
            self.skipped.iter().map(|(method, why)| format!("`{method}` cannot be used: {why}"));
        let last = match &self.taken {
            Some((method, how)) if self.skipped.is_empty() => format!("`{method}`: {how}"),
            Some((method, how)) => {
                format!("falling back to `{method}`, as the profile lists it: {how}")
            }
            None if self.skipped.is_empty() => {
                "the profile lists no reboot method, so there is no reboot".into()
            }
            None if self.skipped.len() == 1 => {
                "the profile lists no other reboot method, so there is no reboot".into()
            }
            None => "none of the reboot methods in the profile can be used, so there is no reboot"
                .into(),
        };
        skipped.chain([last]).collect()
    }
}

/// Takes the first of `order` that works. `answer` is asked in that order, and not beyond the method taken.
pub(crate) fn choose(
    order: &[Method],
    mut answer: impl FnMut(Method) -> Result<String, Unusable>,
) -> Choice {
    let mut skipped = Vec::new();
    for &method in order {
        match answer(method) {
            Ok(how) => return Choice { taken: Some((method, how)), skipped },
            Err(Unusable(why)) => skipped.push((method, why)),
        }
    }
    Choice { taken: None, skipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(working: Method) -> impl FnMut(Method) -> Result<String, Unusable> {
        move |method| match method {
            method if method == working => Ok("it does".into()),
            _ => Err(Unusable("it does not".into())),
        }
    }

    #[test]
    fn the_first_that_works_is_taken_and_no_more_are_asked() {
        let mut asked = Vec::new();
        let order = [Method::Bmc, Method::Firmware, Method::Ordinary];
        let choice = choose(&order, |method| {
            asked.push(method);
            only(Method::Firmware)(method)
        });
        assert_eq!(choice.taken, Some((Method::Firmware, "it does".into())));
        assert_eq!(asked, [Method::Bmc, Method::Firmware]);
        let lines = choice.describe();
        assert_eq!(lines[0], "`bmc` cannot be used: it does not");
        assert!(lines[1].starts_with("falling back to `firmware`"), "{lines:?}");
        assert_eq!(choose(&order, only(Method::Bmc)).describe(), ["`bmc`: it does"]);
    }

    #[test]
    fn nothing_that_is_not_listed_is_ever_taken() {
        let choice = choose(&[Method::Bmc], only(Method::Ordinary));
        assert_eq!((choice.taken.clone(), choice.skipped.len()), (None, 1));
        assert!(choice.describe()[1].contains("no other"), "{:?}", choice.describe());
        assert!(
            choose(&[], only(Method::Ordinary)).describe()[0].contains("lists no reboot method")
        );
        let both = choose(&[Method::Bmc, Method::Rtc], only(Method::Ordinary));
        assert!(both.describe()[2].starts_with("none of"));
    }
}
