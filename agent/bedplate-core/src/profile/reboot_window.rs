//! Reboot windows, `Sat,Sun 02:00-05:00 Europe/Amsterdam`: days (optional), hours, time zone. The time is an argument.
//!
//! Time zones come from the database in the program, so that a profile is valid on every host or on none, regardless of
//! the host's zone files.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Placeholder for a window that has not been chosen yet. It never opens, so that no host is rebooted at an hour that
/// was only proposed.
pub const NEVER: &str = "never";

/// Minutes in a day.
const DAY: u16 = 24 * 60;

/// One reboot window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootWindow {
    /// Days on which it opens, from Monday; at least one.
    pub days: [bool; 7],
    /// Opening time in minutes after midnight.
    pub from: u16,
    /// Closing time in minutes after midnight, up to 1440. If not after `from`, it closes on the next day.
    pub to: u16,
    /// IANA name of the time zone.
    pub zone: String,
}

/// Reason why a text is not a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebootWindowError {
    /// `from-to` is missing.
    #[error("missing time range (HH:MM-HH:MM)")]
    NoHours,
    /// Not a time of day.
    #[error("`{0}` is not a time of day")]
    BadTime(String),
    /// Opens and closes at the same time.
    #[error("opens and closes at the same time")]
    Empty,
    /// Not a day.
    #[error("`{0}` is not a day")]
    BadDay(String),
    /// The time zone is missing, so the hours are ambiguous.
    #[error("missing time zone")]
    NoZone,
    /// Not a time zone.
    #[error("`{0}` is not a time zone")]
    BadZone(String),
    /// Extra words after the window.
    #[error("unexpected `{0}`")]
    Surplus(String),
}

impl RebootWindowError {
    /// Returns the expected form in a few words.
    pub fn label(&self) -> &'static str {
        match self {
            RebootWindowError::NoHours => "expected hours such as `02:00-05:00`",
            RebootWindowError::BadTime(_) => "expected a time from `00:00` to `24:00`",
            RebootWindowError::Empty => "write `00:00-24:00` for the whole day",
            RebootWindowError::BadDay(_) => {
                "expected `Mon`, `Tue`, `Wed`, `Thu`, `Fri`, `Sat` or `Sun`"
            }
            RebootWindowError::NoZone => "end it with a time zone: `UTC`, `Europe/Amsterdam`",
            RebootWindowError::BadZone(_) => "expected an IANA name: `UTC`, `Europe/Amsterdam`",
            RebootWindowError::Surplus(_) => "expected days, hours and a time zone",
        }
    }
}

impl FromStr for RebootWindow {
    type Err = RebootWindowError;

    fn from_str(text: &str) -> Result<Self, RebootWindowError> {
        let mut words = text.split_whitespace().peekable();
        let is_hours = |word: &str| word.contains(':');
        let days = match words.next_if(|word| !is_hours(word)) {
            Some(days) => parse_days(days)?,
            None => [true; 7],
        };
        let hours = words.next().filter(|word| is_hours(word)).ok_or(RebootWindowError::NoHours)?;
        let (from, to) = hours.split_once('-').ok_or(RebootWindowError::NoHours)?;
        let (from, to) = (parse_time(from)?, parse_time(to)?);
        if from == to || from == DAY {
            return Err(RebootWindowError::Empty);
        }
        let zone = words.next().ok_or(RebootWindowError::NoZone)?;
        TimeZoneDatabase::bundled()
            .get(zone)
            .map_err(|_| RebootWindowError::BadZone(zone.to_owned()))?;
        match words.next() {
            Some(word) => Err(RebootWindowError::Surplus(word.to_owned())),
            None => Ok(RebootWindow { days, from, to, zone: zone.to_owned() }),
        }
    }
}

impl RebootWindow {
    /// Returns the zone's rules from the database in the program.
    ///
    /// # Errors
    /// The name of the zone, if `zone` was not set by parsing.
    pub fn time_zone(&self) -> Result<TimeZone, RebootWindowError> {
        TimeZoneDatabase::bundled()
            .get(&self.zone)
            .map_err(|_| RebootWindowError::BadZone(self.zone.clone()))
    }

    /// Returns the opening that contains `now`, or else the next one: start and end (exclusive). A wall-clock time that
    /// the zone skips or has twice is interpreted by the zone's usual clock (RFC 5545 §3.3.5). `None`: the zone is
    /// unknown, or the date is out of range.
    pub fn opening(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let zone = self.time_zone().ok()?;
        let at = |date: Date, minutes: u16| {
            let (date, minutes) = match minutes {
                DAY => (date.tomorrow().ok()?, 0),
                minutes => (date, minutes),
            };
            let hour = i8::try_from(minutes / 60).ok()?;
            let minute = i8::try_from(minutes % 60).ok()?;
            Some(zone.to_zoned(date.at(hour, minute, 0, 0)).ok()?.timestamp())
        };
        let mut date = now.to_zoned(zone.clone()).date().yesterday().ok()?;
        // An opening of yesterday may still be open, and the next one is at most a week away. A clock change may leave
        // an opening without any time in it: then the one a week later counts.
        for _ in 0..16 {
            if self.opens_on(date.weekday()) {
                let closes = if self.to > self.from { date } else { date.tomorrow().ok()? };
                let (from, to) = (at(date, self.from)?, at(closes, self.to)?);
                if to > now && from < to {
                    return Some((from, to));
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Whether it opens on this day.
    pub fn opens_on(&self, day: Weekday) -> bool {
        usize::try_from(day.to_monday_zero_offset()).is_ok_and(|day| self.days[day])
    }
}

impl fmt::Display for RebootWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days != [true; 7] {
            let named = DAYS.iter().zip(self.days).filter(|(_, open)| *open);
            let names: Vec<&str> = named.map(|(name, _)| *name).collect();
            write!(f, "{} ", names.join(","))?;
        }
        let (from, to) = (self.from, self.to);
        write!(f, "{:02}:{:02}-{:02}:{:02} {}", from / 60, from % 60, to / 60, to % 60, self.zone)
    }
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Parses days: `Sat`, `Sat,Sun`, `Mon-Fri`, `Fri-Mon`.
fn parse_days(text: &str) -> Result<[bool; 7], RebootWindowError> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_day(first)?, parse_day(last)?);
        let length = (last + 7 - first) % 7;
        for step in 0..=length {
            days[(first + step) % 7] = true;
        }
    }
    Ok(days)
}

fn parse_day(text: &str) -> Result<usize, RebootWindowError> {
    DAYS.iter()
        .position(|day| day.eq_ignore_ascii_case(text))
        .ok_or_else(|| RebootWindowError::BadDay(text.to_owned()))
}

/// Parses `HH:MM` to minutes, up to 24:00.
fn parse_time(text: &str) -> Result<u16, RebootWindowError> {
    let two_digits = |part: &str| {
        (part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u16>().ok())
            .flatten()
    };
    let parse = || {
        let (hours, minutes) = text.split_once(':')?;
        let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
        let time = hours * 60 + minutes;
        (minutes < 60 && time <= DAY).then_some(time)
    };
    parse().ok_or_else(|| RebootWindowError::BadTime(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> Result<RebootWindow, RebootWindowError> {
        text.parse()
    }

    #[test]
    fn window_parses_days_hours_and_zone() {
        let weekend = window("Sat,Sun 02:00-05:00 Europe/Amsterdam").unwrap();
        assert_eq!(weekend.days, [false, false, false, false, false, true, true]);
        assert_eq!((weekend.from, weekend.to), (120, 300));
        assert!(weekend.opens_on(Weekday::Saturday) && !weekend.opens_on(Weekday::Friday));
        assert_eq!(window("00:00-24:00 UTC").unwrap().days, [true; 7]);
        assert_eq!(
            window("fri-mon 23:00-01:30 UTC").unwrap().to_string(),
            "Mon,Fri,Sat,Sun 23:00-01:30 UTC"
        );
    }

    #[test]
    fn invalid_window_part_is_reported() {
        let bad = |text| window(text).unwrap_err();
        assert_eq!(bad("Sat"), RebootWindowError::NoHours);
        assert_eq!(bad("02:00 UTC"), RebootWindowError::NoHours);
        assert_eq!(bad("Sat 2:00-05:00 UTC"), RebootWindowError::BadTime("2:00".into()));
        assert_eq!(bad("Sat 02:00-25:00 UTC"), RebootWindowError::BadTime("25:00".into()));
        assert_eq!(bad("Sat 02:60-05:00 UTC"), RebootWindowError::BadTime("02:60".into()));
        assert_eq!(bad("Sat 02:00-02:00 UTC"), RebootWindowError::Empty);
        assert_eq!(bad("24:00-02:00 UTC"), RebootWindowError::Empty);
        assert_eq!(bad("Sonntag 02:00-05:00 UTC"), RebootWindowError::BadDay("Sonntag".into()));
        assert_eq!(bad("Sat,, 02:00-05:00 UTC"), RebootWindowError::BadDay(String::new()));
        assert_eq!(bad("Sat 02:00-05:00"), RebootWindowError::NoZone);
        assert_eq!(
            bad("Sat 02:00-05:00 Europe/Amsterdm"),
            RebootWindowError::BadZone("Europe/Amsterdm".into())
        );
        assert_eq!(bad("Sat 02:00-05:00 UTC daily"), RebootWindowError::Surplus("daily".into()));
    }

    #[test]
    fn displayed_window_parses_back() {
        for text in [
            "Mon 02:00-05:00 UTC",
            "22:00-04:00 America/New_York",
            "Mon-Fri 00:00-24:00 Asia/Tokyo",
        ] {
            let once = window(text).unwrap();
            assert_eq!(window(&once.to_string()).unwrap(), once, "{text}");
        }
    }

    #[test]
    fn time_zone_is_in_the_database() {
        let zone = window("02:00-05:00 Europe/Amsterdam").unwrap().time_zone().unwrap();
        assert_eq!(zone.iana_name(), Some("Europe/Amsterdam"));
    }

    /// (window, now, opens, closes); all times in UTC.
    #[test]
    fn opening_handles_midnight_and_clock_changes() {
        let cases = [
            // Before, in, at the end.
            ("02:00-05:00 UTC", "2026-03-03T01:00", "2026-03-03T02:00", "2026-03-03T05:00"),
            ("02:00-05:00 UTC", "2026-03-03T02:00", "2026-03-03T02:00", "2026-03-03T05:00"),
            ("02:00-05:00 UTC", "2026-03-03T05:00", "2026-03-04T02:00", "2026-03-04T05:00"),
            // Over midnight, with `now` after midnight; the day is that of the opening.
            ("Fri 23:00-01:30 UTC", "2026-03-07T00:30", "2026-03-06T23:00", "2026-03-07T01:30"),
            ("Fri 23:00-01:30 UTC", "2026-03-07T01:30", "2026-03-13T23:00", "2026-03-14T01:30"),
            ("22:00-24:00 UTC", "2026-03-07T12:00", "2026-03-07T22:00", "2026-03-08T00:00"),
            // Its own zone, on both sides of the change to summer time (2026-03-29 02:00 CET).
            (
                "Sun 12:00-13:00 Europe/Amsterdam",
                "2026-03-23T00:00",
                "2026-03-29T10:00",
                "2026-03-29T11:00",
            ),
            (
                "Sat 12:00-13:00 Europe/Amsterdam",
                "2026-03-23T00:00",
                "2026-03-28T11:00",
                "2026-03-28T12:00",
            ),
            // Opens in the skipped hour and closes after it: an hour shorter. 02:30 CET would be 01:30 UTC.
            (
                "Sun 01:30-04:00 Europe/Amsterdam",
                "2026-03-29T00:00",
                "2026-03-29T00:30",
                "2026-03-29T02:00",
            ),
            // Wholly inside the skipped hour: at the time of the old clock.
            (
                "Sun 02:15-02:45 Europe/Amsterdam",
                "2026-03-29T00:00",
                "2026-03-29T01:15",
                "2026-03-29T01:45",
            ),
            // From before the repeated hour (2026-10-25 03:00 CEST) to after it: an hour longer.
            (
                "Sun 01:00-04:00 Europe/Amsterdam",
                "2026-10-24T00:00",
                "2026-10-24T23:00",
                "2026-10-25T03:00",
            ),
            // A zone far ahead: there it is Monday already.
            (
                "Mon 00:00-06:00 Pacific/Auckland",
                "2026-06-14T13:00",
                "2026-06-14T12:00",
                "2026-06-14T18:00",
            ),
        ];
        for (text, now, from, to) in cases {
            let at = |text: &str| format!("{text}:00Z").parse::<Timestamp>().unwrap();
            assert_eq!(
                window(text).unwrap().opening(at(now)),
                Some((at(from), at(to))),
                "{text} at {now}"
            );
        }
    }

    proptest::proptest! {
        /// At any time, the returned opening is not over, and no earlier one was skipped.
        #[test]
        fn an_opening_is_never_over(seconds in 0i64..4_000_000_000, from in 0u16..1440, to in 1u16..=1440, zone in 0usize..4) {
            proptest::prop_assume!(from != to);
            let zone = ["UTC", "Europe/Amsterdam", "America/St_Johns", "Australia/Lord_Howe"][zone].to_owned();
            let window = RebootWindow { days: [true; 7], from, to, zone };
            let now = Timestamp::from_second(seconds).unwrap();
            let (opens, closes) = window.opening(now).unwrap();
            proptest::prop_assert!(opens < closes && closes > now);
            // There is an opening every day, so the next is at most a day and a clock change away.
            proptest::prop_assert!(opens.as_second() - seconds <= 26 * 3600);
        }
    }
}
