//! The second boot that a new node needs: the daemon adds ACS arguments in the first one, because an image has no
//! ports.

use super::RenderResult;
use bedplate_core::kind::acs;
use bedplate_core::profile::model::{AcsPersist, Profile};

/// Returns a note if that boot is needed and the profile forbids bedplate to reboot.
pub(super) fn note(profile: &Profile, rendered: &RenderResult) -> Option<String> {
    let takes_arguments = profile.acs.persistence != AcsPersist::Live;
    let is_left = rendered.deferred.iter().any(|left| left.id == acs::NAME.name());
    if !takes_arguments || !is_left {
        return None;
    }
    let forbidding = profile.reboot.forbidding()?;
    Some(format!(
        "a node needs a second boot: its daemon adds the ACS argument in the first one, if the kernel supports it, \
        and `{forbidding}` in [reboot] forbids bedplate to reboot. Reboot the node, or set windows and `policy = \
        \"schedule\"`; with `persistence = \"live\"` in [acs] one boot is enough"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Deferred;
    use super::*;
    use bedplate_core::profile::{LayerText, load, shipped};

    fn note_for(text: &str) -> Option<String> {
        let text = format!("schema = 1\n{text}");
        let layer = LayerText { path: "profile.toml", text: &text };
        let loaded =
            load(&[layer], shipped()).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let (id, what, why) = (acs::NAME.to_string(), String::new(), String::new());
        let deferred = vec![Deferred { id, what, why }];
        note(&loaded.profile, &RenderResult { deferred, ..RenderResult::default() })
    }

    #[test]
    fn note_appears_only_if_second_boot_is_forbidden() {
        let acs = "[acs]\npolicy = \"direct-p2p\"\n";
        let window = "[reboot]\npolicy = \"schedule\"\nwindows = [\"Sat 02:00-05:00 UTC\"]\n";
        assert!(note_for(acs).is_some_and(|note| note.contains("`policy = \"never\"`")));
        let never = window.replace("Sat 02:00-05:00 UTC", "never");
        let said = note_for(&format!("{acs}{never}"));
        assert!(said.is_some_and(|note| note.contains("`windows = [\"never\"]`")));
        for quiet in [window.to_owned(), "[reboot]\npolicy = \"mark\"\n".to_owned()] {
            assert_eq!(note_for(&format!("{acs}{quiet}")), None, "{quiet}");
        }
        assert_eq!(note_for(&format!("{acs}persistence = \"live\"\n")), None);
        let by_snapshot = RenderResult::default();
        let layer = LayerText { path: "profile.toml", text: &format!("schema = 1\n{acs}") };
        let loaded =
            load(&[layer], shipped()).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        assert_eq!(note(&loaded.profile, &by_snapshot), None);
    }
}
