//! Variables of a GRUB script, some of them known only to the machine, and the expansion of words.

use std::collections::{BTreeMap, BTreeSet};

use super::grub_script::{Part, Word};

/// A variable's value; unknown if only the machine knows it.
pub(super) type Value = Option<String>;

/// Variables that every GRUB since 2.00 sets to `y` (`grub-core/normal/main.c`, `features`).
const FEATURES: &[&str] = &[
    "feature_chainloader_bpb",
    "feature_ntldr",
    "feature_platform_search_hint",
    "feature_default_font_path",
    "feature_all_video_module",
    "feature_menuentry_id",
    "feature_menuentry_options",
    "feature_200_final",
    "feature_nativedisk_cmd",
    "feature_timeout_style",
];

/// Variables that GRUB sets to machine-dependent values.
const MACHINE: &[&str] = &[
    "root",
    "prefix",
    "cmdpath",
    "config_directory",
    "grub_platform",
    "grub_cpu",
    "?",
    "chosen",
    "lang",
    "#",
    "*",
    "@",
];

/// Cost of a word in addition to its characters.
const OVERHEAD: usize = 64;

/// Limit for alternative values of one variable, and alternative lines of one entry, chosen by the machine.
pub(super) const MOST_CHOICES: usize = 8;

/// Known variables, and which of them a submenu sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    variables: BTreeMap<String, Value>,
    /// Alternative values of variables with an unknown value; the machine chooses one.
    choices: BTreeMap<String, BTreeSet<String>>,
    exported: BTreeSet<String>,
}

impl State {
    /// Returns a variable's value; empty if it is unset.
    pub(super) fn get(&self, name: &str) -> Value {
        if let Some(value) = self.variables.get(name) {
            return value.clone();
        }
        let machine = MACHINE.contains(&name)
            || name.starts_with(|c: char| c.is_ascii_digit())
            || ["feature_", "net_", "pxe_"].iter().any(|prefix| name.starts_with(prefix));
        match FEATURES.contains(&name) {
            true => Some("y".to_owned()),
            false if machine => None,
            false => Some(String::new()),
        }
    }

    /// Whether a script may have set or unset the variable.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.choices.remove(name);
        self.variables.insert(name.to_owned(), value);
    }

    /// Returns every value that a variable may have; unknown if it may have any.
    fn possible_values(&self, name: &str) -> Option<BTreeSet<String>> {
        match self.get(name) {
            Some(value) => Some(BTreeSet::from([value])),
            None => self.choices.get(name).cloned(),
        }
    }

    /// Returns one state for each combination of known alternative values of these variables.
    pub(super) fn chosen<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<State> {
        let mut states = vec![self.clone()];
        for name in names {
            let Some(values) = self.choices.get(name) else { continue };
            if states.len() * values.len() > MOST_CHOICES {
                continue;
            }
            let with = |state: &State, value: &String| {
                let mut state = state.clone();
                state.set(name, Some(value.clone()));
                state
            };
            states = values
                .iter()
                .flat_map(|value| states.iter().map(move |state| with(state, value)))
                .collect();
        }
        states
    }

    /// Sets a function's arguments and returns the previous ones. Arguments after a word that may be split are unknown.
    pub(super) fn enter(
        &mut self,
        arguments: &[DisplayWord],
        split: Option<usize>,
    ) -> Vec<(String, Option<Value>)> {
        let known = |at: usize| split.is_none_or(|split| at < split);
        let mut values: Vec<(String, Value)> = (1..=9)
            .map(|nth: usize| {
                let argument = arguments.get(nth - 1);
                let value = argument.map_or_else(|| Some(String::new()), |one| one.value.clone());
                (nth.to_string(), value.filter(|_| known(nth - 1)))
            })
            .collect();
        values.push(("#".to_owned(), split.is_none().then(|| arguments.len().to_string())));
        let set = |(name, value): (String, Value)| {
            let before = self.variables.insert(name.clone(), value);
            (name, before)
        };
        values.into_iter().map(set).collect()
    }

    /// Restores the variables returned by [`State::enter`].
    pub(super) fn leave(&mut self, before: Vec<(String, Option<Value>)>) {
        for (name, value) in before {
            self.choices.remove(&name);
            match value {
                Some(value) => self.variables.insert(name, value),
                None => self.variables.remove(&name),
            };
        }
    }

    /// Exports a variable to submenus.
    pub(super) fn export(&mut self, name: &str) {
        self.exported.insert(name.to_owned());
    }

    /// Returns the initial state of a submenu (`grub_env_context_open`).
    pub(super) fn for_submenu(&self) -> State {
        let mut state = self.clone();
        state.variables.retain(|name, _| self.exported.contains(name));
        state.choices.retain(|name, _| self.exported.contains(name));
        state
    }

    /// Merges the state of the other branch, if either may have run.
    pub(super) fn merge(&mut self, other: &State) {
        let names: BTreeSet<String> =
            self.variables.keys().chain(other.variables.keys()).cloned().collect();
        for name in names {
            let (own, others) = (self.possible_values(&name), other.possible_values(&name));
            if own.is_some() && own == others {
                continue;
            }
            let either: Option<BTreeSet<String>> =
                own.zip(others).map(|(own, others)| own.union(&others).cloned().collect());
            self.set(&name, None);
            if let Some(values) = either.filter(|values| values.len() <= MOST_CHOICES) {
                self.choices.insert(name, values);
            }
        }
        self.exported.extend(other.exported.iter().cloned());
    }

    /// Returns the approximate cost of copying this state and comparing the copy, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let one = |(name, value): (&String, &Value)| {
            8 * (OVERHEAD + name.len()) + value.as_ref().map_or(0, String::len)
        };
        let of_choices = |(name, values): (&String, &BTreeSet<String>)| {
            OVERHEAD + name.len() + values.iter().map(|value| OVERHEAD + value.len()).sum::<usize>()
        };
        self.variables.iter().map(one).sum::<usize>()
            + self.choices.iter().map(of_choices).sum::<usize>()
    }

    /// Returns the approximate size of the words of a command after expansion, in bytes.
    pub(super) fn bytes_of(&self, words: &[Word]) -> usize {
        let parts = words.iter().flat_map(|word| &word.parts);
        let of_part = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Var { name, .. } => match self.variables.get(name) {
                // Every second character may be a separate word.
                Some(Some(value)) => value.len() * OVERHEAD / 2,
                _ => name.len(),
            },
        };
        parts.map(|part| OVERHEAD + of_part(part)).sum()
    }

    /// Expands the words of a command (`grub_script_arglist_to_argv`).
    pub(super) fn expand(&self, words: &[Word]) -> Vec<DisplayWord> {
        let mut all = Vec::new();
        for word in words {
            let mut current = DisplayWord { value: Some(String::new()), shown: String::new() };
            let mut any = word.quoted;
            for part in &word.parts {
                match part {
                    Part::Text(text) => {
                        any = any || !text.is_empty();
                        current.push(Some(text), text);
                    }
                    Part::Var { name, quoted } => {
                        let value = self.get(name);
                        let pieces: Vec<&str> = match (&value, quoted) {
                            (Some(value), false) => value.split_whitespace().collect(),
                            (Some(value), true) => vec![value],
                            (None, _) => Vec::new(),
                        };
                        if value.is_none() {
                            any = true;
                            current.push(None, &format!("${name}"));
                        }
                        for (nth, piece) in pieces.iter().enumerate() {
                            if nth > 0 {
                                let fresh = DisplayWord {
                                    value: Some(String::new()),
                                    shown: String::new(),
                                };
                                all.push(std::mem::replace(&mut current, fresh));
                            }
                            any = true;
                            current.push(Some(piece), piece);
                        }
                    }
                }
            }
            if any {
                all.push(current);
            }
        }
        all
    }
}

/// A word with its unknown parts shown as `$name`.
#[derive(Debug, Clone)]
pub(super) struct DisplayWord {
    pub value: Value,
    pub shown: String,
}

impl DisplayWord {
    fn push(&mut self, value: Option<&str>, shown: &str) {
        self.shown.push_str(shown);
        self.value = self.value.take().zip(value).map(|(own, more)| own + more);
    }
}
