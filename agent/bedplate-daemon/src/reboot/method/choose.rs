//! Choice of the method from the profile's order and the probes' results. Pure. Only methods that the profile lists are used,
//! so a list of one entry has no fallback.

use super::{Method, Unusable};

/// Returns the first usable method of `order`, with one message per line: the skipped methods, then the result. `answer` is
/// called in order, and not beyond the chosen method. `None` means that the host must not be rebooted.
pub(crate) fn choose(
    order: &[Method],
    mut answer: impl FnMut(Method) -> Result<String, Unusable>,
) -> (Option<Method>, Vec<String>) {
    let mut lines = Vec::new();
    for &method in order {
        match answer(method) {
            Ok(how) => {
                lines.push(match lines.is_empty() {
                    true => format!("`{method}`: {how}"),
                    false => format!("falling back to `{method}`, which the profile lists: {how}"),
                });
                return (Some(method), lines);
            }
            Err(Unusable(why)) => lines.push(format!("`{method}` cannot be used: {why}")),
        }
    }
    let none = match lines.len() {
        0 => "the profile lists no reboot method",
        1 => "the profile lists no other reboot method",
        _ => "none of the reboot methods in the profile works",
    };
    lines.push(format!("{none}; no reboot is possible"));
    (None, lines)
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
    fn first_usable_method_ends_the_probing() {
        let mut asked = Vec::new();
        let order = [Method::Bmc, Method::Firmware, Method::Ordinary];
        let (taken, lines) = choose(&order, |method| {
            asked.push(method);
            only(Method::Firmware)(method)
        });
        assert_eq!((taken, asked), (Some(Method::Firmware), vec![Method::Bmc, Method::Firmware]));
        assert_eq!((lines.len(), lines[0].as_str()), (2, "`bmc` cannot be used: it does not"));
        assert!(
            lines[1].starts_with("falling back to `firmware`") && lines[1].ends_with(": it does")
        );
        assert_eq!(choose(&order, only(Method::Bmc)).1, ["`bmc`: it does"]);
    }

    #[test]
    fn unlisted_method_is_never_chosen() {
        for (order, says) in [
            (&[][..], "lists no reboot method"),
            (&[Method::Bmc], "no other"),
            (&[Method::Bmc, Method::Rtc], "none of"),
        ] {
            let (taken, lines) = choose(order, only(Method::Ordinary));
            assert_eq!((taken, lines.len()), (None, order.len() + 1));
            assert!(lines[order.len()].contains(says), "{lines:?}");
        }
    }
}
