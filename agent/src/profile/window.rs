//! Reboot windows, `Sat,Sun 02:00-05:00 Europe/Amsterdam`: days (optional), hours, time zone. Text only; no clock.
//!
//! Zone names are looked up in the database built into the program, so that the same profile is right or wrong on every
//! host, whatever zone files it has.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Minutes in a day.
const DAY: u16 = 24 * 60;

/// One reboot window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Days on which it opens, from Monday; never none.
    pub days: [bool; 7],
    /// Minutes after midnight at which it opens.
    pub from: u16,
    /// Minutes after midnight at which it closes; up to 1440. Not after `from`: it closes on the next day.
    pub to: u16,
    /// Time zone by its IANA name.
    pub zone: String,
}

/// Why a text is not a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// There is no `from-to`.
    #[error("it has no hours")]
    NoHours,
    /// Hours that are no time of day.
    #[error("`{0}` is not a time of day")]
    BadTime(String),
    /// Opens and closes at the same time.
    #[error("it closes when it opens")]
    Empty,
    /// Not a day.
    #[error("`{0}` is not a day")]
    BadDay(String),
    /// No time zone, so that the hours could be anybody's.
    #[error("it has no time zone")]
    NoZone,
    /// Not a time zone.
    #[error("`{0}` is not a time zone")]
    BadZone(String),
    /// More words than a window has.
    #[error("`{0}` is too much")]
    Surplus(String),
}

impl WindowError {
    /// What was expected, in a few words.
    pub fn label(&self) -> &'static str {
        match self {
            WindowError::NoHours => "expected hours such as `02:00-05:00`",
            WindowError::BadTime(_) => "expected a time from `00:00` to `24:00`",
            WindowError::Empty => "write `00:00-24:00` for the whole day",
            WindowError::BadDay(_) => "expected `Mon`, `Tue`, `Wed`, `Thu`, `Fri`, `Sat` or `Sun`",
            WindowError::NoZone => "end it with a time zone: `UTC`, `Europe/Amsterdam`",
            WindowError::BadZone(_) => "expected an IANA name: `UTC`, `Europe/Amsterdam`",
            WindowError::Surplus(_) => "expected days, hours and a time zone",
        }
    }
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let mut words = text.split_whitespace().peekable();
        let is_hours = |word: &str| word.contains(':');
        let days = match words.next_if(|word| !is_hours(word)) {
            Some(days) => parse_days(days)?,
            None => [true; 7],
        };
        let hours = words.next().filter(|word| is_hours(word)).ok_or(WindowError::NoHours)?;
        let (from, to) = hours.split_once('-').ok_or(WindowError::NoHours)?;
        let (from, to) = (parse_time(from)?, parse_time(to)?);
        if from == to || from == DAY {
            return Err(WindowError::Empty);
        }
        let zone = words.next().ok_or(WindowError::NoZone)?;
        TimeZoneDatabase::bundled().get(zone).map_err(|_| WindowError::BadZone(zone.to_owned()))?;
        match words.next() {
            Some(word) => Err(WindowError::Surplus(word.to_owned())),
            None => Ok(Window { days, from, to, zone: zone.to_owned() }),
        }
    }
}

impl Window {
    /// The zone's rules, from the database built into the program.
    ///
    /// # Errors
    /// The zone's name, when `zone` was not made by parsing.
    pub fn time_zone(&self) -> Result<TimeZone, WindowError> {
        TimeZoneDatabase::bundled().get(&self.zone).map_err(|_| WindowError::BadZone(self.zone.clone()))
    }

    /// Whether it opens on this day.
    pub fn opens_on(&self, day: Weekday) -> bool {
        usize::try_from(day.to_monday_zero_offset()).is_ok_and(|day| self.days[day])
    }
}

impl fmt::Display for Window {
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

/// `Sat`, `Sat,Sun`, `Mon-Fri`, `Fri-Mon`.
fn parse_days(text: &str) -> Result<[bool; 7], WindowError> {
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

fn parse_day(text: &str) -> Result<usize, WindowError> {
    DAYS.iter()
        .position(|day| day.eq_ignore_ascii_case(text))
        .ok_or_else(|| WindowError::BadDay(text.to_owned()))
}

/// `HH:MM` in minutes, up to 24:00.
fn parse_time(text: &str) -> Result<u16, WindowError> {
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
    parse().ok_or_else(|| WindowError::BadTime(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> Result<Window, WindowError> {
        text.parse()
    }

    #[test]
    fn windows_read_as_written() {
        let weekend = window("Sat,Sun 02:00-05:00 Europe/Amsterdam").unwrap();
        assert_eq!(weekend.days, [false, false, false, false, false, true, true]);
        assert_eq!((weekend.from, weekend.to), (120, 300));
        assert!(weekend.opens_on(Weekday::Saturday) && !weekend.opens_on(Weekday::Friday));
        assert_eq!(window("00:00-24:00 UTC").unwrap().days, [true; 7]);
        assert_eq!(window("fri-mon 23:00-01:30 UTC").unwrap().to_string(), "Mon,Fri,Sat,Sun 23:00-01:30 UTC");
    }

    #[test]
    fn each_part_is_checked() {
        let bad = |text| window(text).unwrap_err();
        assert_eq!(bad("Sat"), WindowError::NoHours);
        assert_eq!(bad("02:00 UTC"), WindowError::NoHours);
        assert_eq!(bad("Sat 2:00-05:00 UTC"), WindowError::BadTime("2:00".into()));
        assert_eq!(bad("Sat 02:00-25:00 UTC"), WindowError::BadTime("25:00".into()));
        assert_eq!(bad("Sat 02:60-05:00 UTC"), WindowError::BadTime("02:60".into()));
        assert_eq!(bad("Sat 02:00-02:00 UTC"), WindowError::Empty);
        assert_eq!(bad("24:00-02:00 UTC"), WindowError::Empty);
        assert_eq!(bad("Sonntag 02:00-05:00 UTC"), WindowError::BadDay("Sonntag".into()));
        assert_eq!(bad("Sat,, 02:00-05:00 UTC"), WindowError::BadDay(String::new()));
        assert_eq!(bad("Sat 02:00-05:00"), WindowError::NoZone);
        assert_eq!(bad("Sat 02:00-05:00 Europe/Amsterdm"), WindowError::BadZone("Europe/Amsterdm".into()));
        assert_eq!(bad("Sat 02:00-05:00 UTC daily"), WindowError::Surplus("daily".into()));
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for text in ["Mon 02:00-05:00 UTC", "22:00-04:00 America/New_York", "Mon-Fri 00:00-24:00 Asia/Tokyo"]
        {
            let once = window(text).unwrap();
            assert_eq!(window(&once.to_string()).unwrap(), once, "{text}");
        }
    }

    #[test]
    fn zones_have_rules() {
        let zone = window("02:00-05:00 Europe/Amsterdam").unwrap().time_zone().unwrap();
        assert_eq!(zone.iana_name(), Some("Europe/Amsterdam"));
    }
}
