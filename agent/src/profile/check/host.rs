//! `[match]`, `[reboot]` and `[agent]`.

use jiff::SignedDuration;

use super::Checker;
use crate::duration;
use crate::profile::fragment::{
    AgentFragment, At, MatchFragment, MatchPciFragment, RebootFragment,
};
use crate::profile::layer::{AgentLayer, Leaf, MatchLayer, RebootLayer};
use crate::profile::model::{MatchPci, RebootMethod};
use crate::profile::window::{NEVER, Window};

/// Comparing more often than this costs more than it finds.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
const SHORTEST_BOOT: SignedDuration = SignedDuration::from_secs(5);
/// bedplate-boot.service ends what hangs itself some minutes later.
const LONGEST_BOOT: SignedDuration = SignedDuration::from_mins(15);
const ZERO: SignedDuration = SignedDuration::ZERO;
/// A host that is looked at more seldom is not kept at all, and nobody remembers an announcement that is older.
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// A job that blocks a reboot for longer is one that somebody should hear of.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

impl Checker<'_> {
    pub(super) fn matching(&mut self, section: MatchFragment) -> MatchLayer {
        MatchLayer {
            cpu_vendor: self.bare(section.cpu_vendor),
            arch: self.bare(section.arch),
            sys_vendor: self.pattern(section.sys_vendor),
            product_name: self.pattern(section.product_name),
            pci: section.pci.map(|list| {
                let place = self.place(list.span);
                let found =
                    list.value.into_iter().filter_map(|entry| self.match_pci(entry)).collect();
                Leaf::bare(found, place)
            }),
        }
    }

    fn match_pci(&mut self, entry: At<MatchPciFragment>) -> Option<MatchPci> {
        let entry = entry.value;
        let given = entry.id.0.len();
        let ids: Vec<_> = entry
            .id
            .0
            .into_iter()
            .filter_map(|id| self.parse(&id.value.0, id.span, "bad-pci-id"))
            .collect();
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
        let methods = section.methods.and_then(|list| self.methods(list));
        let lock = section.fleetlock.unwrap_or_default();
        RebootLayer {
            policy: self.bare(section.policy),
            methods,
            windows,
            attempts: self.bare(section.attempts),
            delay: section.delay.and_then(|text| self.length(text, "reboot.delay", ZERO, DAY)),
            jitter: section.jitter.and_then(|text| self.length(text, "reboot.jitter", ZERO, DAY)),
            inhibitor_wait: section
                .inhibitor_wait
                .and_then(|text| self.length(text, "reboot.inhibitor_wait", ZERO, WEEK)),
            busy_devices: self.bare(section.busy_devices),
            busy_command: section.busy_command.and_then(|list| self.program(list)),
            command: section.command.and_then(|list| self.program(list)),
            rtc_wakes: self.bare(section.rtc_wakes),
            rehearse: self.bare(section.rehearse),
            fleetlock_url: lock.url.and_then(|url| self.url(url)),
            fleetlock_group: lock.group.and_then(|group| self.group(group)),
        }
    }

    fn methods(&mut self, list: At<Vec<At<RebootMethod>>>) -> Option<Leaf<Vec<RebootMethod>>> {
        let place = self.place(list.span);
        if list.value.is_empty() {
            let message = "a list without methods leaves no way to reboot".to_owned();
            let help = "to be left alone, write policy = \"never\"".to_owned();
            self.error(place, "no-method", message, "expected at least one method", Some(help));
            return None;
        }
        Some(Leaf::bare(list.value.into_iter().map(|method| method.value).collect(), place))
    }

    /// Program and arguments. The daemon has no working directory and no shell: the program is named in full.
    fn program(&mut self, list: At<Vec<At<String>>>) -> Option<Leaf<Vec<String>>> {
        let place = self.place(list.span);
        let words: Vec<String> = list.value.into_iter().map(|word| word.value).collect();
        match words.first() {
            Some(first) if !first.starts_with('/') => {
                let message = format!("`{first}` is not the full path of a program");
                let help = "write program and arguments as a list: [\"/usr/local/sbin/check\", \"--quick\"]";
                self.error(
                    place,
                    "bad-command",
                    message,
                    "expected a path from `/`",
                    Some(help.to_owned()),
                );
                None
            }
            _ => Some(Leaf::bare(words, place)),
        }
    }

    fn url(&mut self, text: At<String>) -> Option<Leaf<String>> {
        let place = self.place(text.span);
        let rest =
            ["http://", "https://"].iter().find_map(|scheme| text.value.strip_prefix(scheme));
        let good = rest.is_some_and(|rest| {
            !rest.starts_with('/')
                && !rest.is_empty()
                && !rest.contains(|c: char| c.is_whitespace())
        });
        if !good {
            let message = format!("`{}` is not the address of a server", text.value);
            self.error(
                place,
                "bad-url",
                message,
                "expected `http://host:port/` or `https://…`",
                None,
            );
            return None;
        }
        Some(Leaf::bare(text.value, place))
    }

    fn group(&mut self, text: At<String>) -> Option<Leaf<String>> {
        let place = self.place(text.span);
        let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if text.value.is_empty() || !text.value.chars().all(good) {
            let message = format!("`{}` is not a FleetLock group", text.value);
            self.error(place, "bad-group", message, "expected letters, digits, `.` and `-`", None);
            return None;
        }
        Some(Leaf::bare(text.value, place))
    }

    fn window(&mut self, text: At<String>) -> Option<String> {
        if text.value == NEVER {
            return Some(text.value);
        }
        match text.value.parse::<Window>() {
            Ok(_) => Some(text.value),
            Err(error) => {
                let place = self.place(text.span);
                let message = format!("`{}` is not a reboot window: {error}", text.value);
                let help =
                    "write days, hours and a time zone: `Sat,Sun 02:00-05:00 Europe/Amsterdam`";
                self.error(place, "bad-window", message, error.label(), Some(help.to_owned()));
                None
            }
        }
    }

    pub(super) fn agent(&mut self, section: AgentFragment) -> AgentLayer {
        AgentLayer {
            mode: self.bare(section.mode),
            interval: section
                .interval
                .and_then(|text| self.length(text, "agent.interval", SHORTEST_INTERVAL, DAY)),
            boot_timeout: section.boot_timeout.and_then(|text| {
                self.length(text, "agent.boot_timeout", SHORTEST_BOOT, LONGEST_BOOT)
            }),
            ready_timeout: section
                .ready_timeout
                .and_then(|text| self.length(text, "agent.ready_timeout", ZERO, DAY)),
        }
    }

    /// A length of time, in seconds.
    fn length(
        &mut self,
        text: At<String>,
        key: &str,
        least: SignedDuration,
        most: SignedDuration,
    ) -> Option<Leaf<u32>> {
        let place = self.place(text.span);
        let Some(duration) = duration::parse(&text.value) else {
            let message = format!("`{}` is not a length of time", text.value);
            self.error(
                place,
                "bad-interval",
                message,
                "expected something like `10m` or `1h 30m`",
                None,
            );
            return None;
        };
        if duration < least || duration > most {
            let message = format!("`{}` is too short or too long for `{key}`", text.value);
            let label = format!("expected {} to {}", words(least), words(most));
            self.error(place, "bad-interval", message, label, None);
            return None;
        }
        let seconds = u32::try_from(duration.as_secs()).ok()?;
        Some(Leaf::bare(seconds, place))
    }
}

fn words(length: SignedDuration) -> &'static str {
    match length {
        ZERO => "nothing",
        SHORTEST_INTERVAL => "10 seconds",
        SHORTEST_BOOT => "5 seconds",
        LONGEST_BOOT => "15 minutes",
        WEEK => "seven days",
        _ => "one day",
    }
}
