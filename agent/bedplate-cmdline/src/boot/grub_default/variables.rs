//! Values of variables while shell files are sourced, one event at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::NotUnderstood;
use super::super::shell::{Assignment, Event, Piece, Shell};
use super::{GrubDefault, REMEDY};

/// Commands that are never redefined as functions in practice.
const BUILT_IN: [&str; 12] =
    [":", "[", "[[", "break", "cd", "continue", "echo", "false", "set", "shift", "test", "true"];

/// Variables that grub-mkconfig sets before it reads the files (util/grub-mkconfig.in).
const FROM_MKCONFIG: [&str; 8] = [
    "GRUB_DEVICE",
    "GRUB_DEVICE_UUID",
    "GRUB_DEVICE_PARTUUID",
    "GRUB_DEVICE_BOOT",
    "GRUB_DEVICE_BOOT_UUID",
    "GRUB_FS",
    "GRUB_DISABLE_OS_PROBER",
    "GRUB_EARLY_INITRD_LINUX_STOCK",
];

/// Variable of GRUB's environment block. The main file of Azure Linux expands it in the shell, where nothing sets it,
/// so that it is empty (azurelinux, toolkit/resources/assets/grub2/grub).
const KERNELOPTS: &str = "kernelopts";

const READ_ONLY: &str =
    "a variable is made read-only here and set again later, which stops the shell";

/// Limit for a value, in bytes. The kernel accepts 4 KiB; `A=$A$A`, forty times, would take a terabyte.
const LONGEST_VALUE: usize = 64 << 10;

/// Limit for all values together, in bytes. No file is that long, and no file needs one value thousands of times.
const MOST_MADE: usize = 16 << 20;

fn short_enough(value: &str, file: usize, at: usize) -> Result<(), Unknown> {
    let short = value.len() <= LONGEST_VALUE;
    short.then_some(()).ok_or_else(|| Unknown { file, at, why: "this value is too long".into() })
}

/// A place that a value depends on and that cannot be followed. Formatted as a message only when needed: that takes
/// time proportional to the file, and an untrusted file can have any number of these places.
#[derive(Debug, Clone)]
pub(super) struct Unknown {
    pub file: usize,
    at: usize,
    why: String,
}

impl Unknown {
    /// Creates the message, from the text of its file.
    pub(super) fn described(&self, text: &str) -> NotUnderstood {
        NotUnderstood::at(text, self.at, format!("{}; {REMEDY}", self.why))
    }
}

/// Values of variables while files are sourced.
#[derive(Default)]
pub(super) struct Variables {
    known: BTreeMap<String, Result<Option<String>, Unknown>>,
    /// Events caused by calling each function.
    functions: BTreeMap<String, Vec<Event>>,
    /// Set if a command may have set any variable; makes all variables unknown that are not assigned after it.
    anything: Option<Unknown>,
    /// Read-only variables, and the place that made them so.
    read_only: BTreeMap<String, Unknown>,
    /// Nothing after this place is known.
    lost: Option<Unknown>,
    /// Total bytes of the values built so far.
    made: usize,
}

impl Variables {
    pub(super) fn inheriting(name: &str, value: Option<&str>) -> Variables {
        let mut variables = Variables::default();
        variables.known.insert(name.to_owned(), Ok(value.map(str::to_owned)));
        variables
    }

    pub(super) fn source(&mut self, file: usize, default: &GrubDefault) {
        for event in &default.events {
            self.apply_event(file, default, event);
        }
    }

    pub(super) fn apply_event(&mut self, file: usize, default: &GrubDefault, event: &Event) {
        let found = |at: usize, why: &str| Unknown { file, at, why: why.to_owned() };
        match event {
            Event::Assign(assignment) if self.read_only.contains_key(&assignment.name) => {
                let place = self.read_only.get(&assignment.name).cloned();
                self.lost = self.lost.take().or(place);
            }
            Event::Assign(assignment) => {
                let appends = assignment.appends;
                let doubtful = assignment.doubtful.or((appends && default.shell != Shell::Bash)
                    .then_some("`+=` does not work in every shell that reads this file"));
                let value = match doubtful {
                    Some(why) => Err(found(assignment.at, why)),
                    None => self.join(file, &assignment.pieces).and_then(|more| {
                        let before = match appends {
                            true => self.variable(file, &assignment.name, assignment.at)?,
                            false => None,
                        };
                        let value = before.unwrap_or_default() + &more;
                        short_enough(&value, file, assignment.at)?;
                        self.made += value.len();
                        match self.made > MOST_MADE {
                            true => Err(found(assignment.at, "these files have too many values")),
                            false => Ok(Some(value)),
                        }
                    }),
                };
                self.known.insert(assignment.name.clone(), value);
            }
            Event::Touch { name, at, why } => {
                self.known.insert(name.clone(), Err(found(*at, why)));
            }
            Event::ReadOnly { name, at } => self.freeze(name, found(*at, READ_ONLY)),
            Event::Anything { at, why } | Event::DropIns { at, why } => {
                self.known.clear();
                self.anything = Some(found(*at, why));
            }
            Event::Function { name, body } => {
                // If a name has several definitions, any of them may be the one called.
                self.functions.entry(name.clone()).or_default().extend(body.iter().cloned());
            }
            Event::Call { name, at } => self.call(name, &|why| found(*at, why)),
            Event::Lost { at, why } => {
                self.lost.get_or_insert(found(*at, why));
            }
        }
    }

    /// Handles a call. If it is a function, forgets all variables that it or a function called by it may set.
    fn call(&mut self, name: &str, found: &dyn Fn(&str) -> Unknown) {
        if self.anything.is_some()
            && !self.functions.contains_key(name)
            && !BUILT_IN.contains(&name)
        {
            // An earlier `source` or `eval` may have defined it.
            self.known.clear();
            self.anything = Some(found(&format!("`{name}` may be a function that sets it")));
        }
        let mut called = BTreeSet::from([name.to_owned()]);
        let mut waiting = vec![name.to_owned()];
        while let Some(next) = waiting.pop() {
            let why = format!("the function `{next}`, called here, may set it");
            for event in self.functions.get(&next).cloned().unwrap_or_default() {
                match event {
                    Event::Assign(Assignment { name, .. }) | Event::Touch { name, .. } => {
                        self.known.insert(name, Err(found(&why)));
                    }
                    Event::Anything { .. } | Event::DropIns { .. } => {
                        self.known.clear();
                        self.anything = Some(found(&why));
                    }
                    Event::ReadOnly { name, .. } => self.freeze(&name, found(READ_ONLY)),
                    Event::Lost { why, .. } => {
                        self.lost.get_or_insert(found(why));
                    }
                    Event::Function { name, body } => {
                        self.functions.entry(name).or_default().extend(body);
                    }
                    Event::Call { name, .. } => {
                        if called.insert(name.clone()) {
                            waiting.push(name);
                        }
                    }
                }
            }
        }
    }

    fn freeze(&mut self, name: &str, place: Unknown) {
        self.read_only.entry(name.to_owned()).or_insert(place);
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<String>, Unknown> {
        match (&self.lost, self.known.get(name), &self.anything) {
            (Some(lost), _, _) => Err(lost.clone()),
            (None, Some(known), _) => known.clone(),
            (None, None, Some(anything)) => Err(anything.clone()),
            (None, None, None) => Ok(None),
        }
    }

    fn join(&self, file: usize, pieces: &[Piece]) -> Result<String, Unknown> {
        let mut out = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Var { name, at } => {
                    out.push_str(&self.variable(file, name, *at)?.unwrap_or_default());
                    short_enough(&out, file, *at)?;
                }
                Piece::Choice { name, operator, word, at } => {
                    let value = self.variable(file, name, *at)?;
                    let set = value
                        .as_ref()
                        .is_some_and(|value| !operator.starts_with(':') || !value.is_empty());
                    match (operator.ends_with('+'), set) {
                        (true, true) | (false, false) => out.push_str(&self.join(file, word)?),
                        (false, true) => out.push_str(&value.unwrap_or_default()),
                        (true, false) => {}
                    }
                    short_enough(&out, file, *at)?;
                }
                Piece::Opaque { at, why } => {
                    return Err(Unknown { file, at: *at, why: (*why).to_owned() });
                }
            }
        }
        Ok(out)
    }

    /// Returns the value of a variable inside a value. An unset `GRUB_` variable and [`KERNELOPTS`] are empty; any other
    /// may come from the environment.
    fn variable(&self, file: usize, name: &str, at: usize) -> Result<Option<String>, Unknown> {
        match self.get(name)? {
            None if FROM_MKCONFIG.contains(&name) => {
                let why = format!("grub-mkconfig sets ${name} from the machine's disks");
                Err(Unknown { file, at, why })
            }
            None if !name.starts_with("GRUB_") && name != KERNELOPTS => {
                let why = format!("${name} is not set in these files");
                Err(Unknown { file, at, why })
            }
            value => Ok(value),
        }
    }
}
