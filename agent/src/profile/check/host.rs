//! `[match]`, `[reboot]` and `[agent]`.

use jiff::SignedDuration;

use super::Checker;
use crate::profile::fragment::{AgentFragment, At, MatchFragment, MatchPciFragment, RebootFragment};
use crate::profile::layer::{AgentLayer, Leaf, MatchLayer, RebootLayer};
use crate::profile::model::MatchPci;
use crate::profile::window::Window;

/// Comparing more often than this costs more than it finds.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// A host that is looked at more seldom is not kept at all.
const LONGEST_INTERVAL: SignedDuration = SignedDuration::from_hours(24);

impl Checker<'_> {
    pub(super) fn matching(&mut self, section: MatchFragment) -> MatchLayer {
        MatchLayer {
            cpu_vendor: self.bare(section.cpu_vendor),
            arch: self.bare(section.arch),
            sys_vendor: self.pattern(section.sys_vendor),
            product_name: self.pattern(section.product_name),
            pci: section.pci.map(|list| {
                let place = self.place(list.span);
                let found = list.value.into_iter().filter_map(|entry| self.match_pci(entry)).collect();
                Leaf::bare(found, place)
            }),
        }
    }

    fn match_pci(&mut self, entry: At<MatchPciFragment>) -> Option<MatchPci> {
        let entry = entry.value;
        let given = entry.id.0.len();
        let ids: Vec<_> =
            entry.id.0.into_iter().filter_map(|id| self.parse(&id.value.0, id.span, "bad-pci-id")).collect();
        let at_least = entry.at_least.as_ref().map_or(1, |at| at.value);
        if let Some(at_most) = entry.at_most.as_ref().filter(|at_most| at_most.value < at_least) {
            let place = self.place(at_most.span.clone());
            self.error(
                place,
                "empty-range",
                "no machine can have so few and so many",
                format!("less than `at_least`, which is {at_least}"),
                None,
            );
            return None;
        }
        let at_most = entry.at_most.map(|at_most| at_most.value);
        (ids.len() == given).then_some(MatchPci { ids, at_least, at_most })
    }

    pub(super) fn reboot(&mut self, section: RebootFragment) -> RebootLayer {
        let windows = section.windows.map(|list| {
            let place = self.place(list.span);
            let good = |window: At<String>| self.window(window);
            Leaf::bare(list.value.into_iter().filter_map(good).collect(), place)
        });
        RebootLayer {
            policy: self.bare(section.policy),
            method: self.bare(section.method),
            windows,
            attempts: self.bare(section.attempts),
        }
    }

    fn window(&mut self, text: At<String>) -> Option<String> {
        match text.value.parse::<Window>() {
            Ok(_) => Some(text.value),
            Err(error) => {
                let place = self.place(text.span);
                let message = format!("`{}` is not a reboot window: {error}", text.value);
                let help = "write days, hours and a time zone: `Sat,Sun 02:00-05:00 Europe/Amsterdam`";
                self.error(place, "bad-window", message, error.label(), Some(help.to_owned()));
                None
            }
        }
    }

    pub(super) fn agent(&mut self, section: AgentFragment) -> AgentLayer {
        AgentLayer {
            interval: section.interval.and_then(|text| self.interval(text)),
            apply: self.bare(section.apply),
        }
    }

    fn interval(&mut self, text: At<String>) -> Option<Leaf<u32>> {
        let place = self.place(text.span);
        let Ok(duration) = text.value.parse::<SignedDuration>() else {
            let message = format!("`{}` is not a length of time", text.value);
            self.error(place, "bad-interval", message, "expected something like `10m` or `1h 30m`", None);
            return None;
        };
        if duration < SHORTEST_INTERVAL || duration > LONGEST_INTERVAL {
            let message = format!("`{}` is too short or too long for `agent.interval`", text.value);
            self.error(place, "bad-interval", message, "expected 10 seconds to one day", None);
            return None;
        }
        let seconds = u32::try_from(duration.as_secs()).ok()?;
        Some(Leaf::bare(seconds, place))
    }
}
