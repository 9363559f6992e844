//! Follows a GRUB script without a machine. Variables that only the machine knows stay unknown, and results that depend
//! on them are marked as uncertain.
//!
//! Source: `grub-core/script/execute.c`, `grub-core/normal/menu.c`, `grub-core/normal/main.c` (features).

mod call;
mod linux;
mod menu;
mod variables;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use self::menu::adds_unknown_entries;
use super::NotUnderstood;
use super::grub_device::Device;
use super::grub_files::{GrubFiles, is_of_snapshot};
use super::grub_script::{Command, DEEPEST, Function, Word, parse_included};
use super::grub_test::{Outcome, evaluate};
use super::grub_vars::{State, Value};

/// One line of a menu.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub kind: ItemKind,
    /// Unknown if only the machine knows it.
    pub title: Value,
    pub id: Value,
    /// Whether GRUB asks for a password before it if `superusers` is set. Unknown if only the machine knows.
    pub restricted: Option<bool>,
    /// Whether it is in the menu on every machine.
    pub certain: bool,
    pub at: usize,
}

#[derive(Debug, Clone)]
pub(super) enum ItemKind {
    Entry(Rc<Vec<Command>>),
    Submenu(Rc<Vec<Command>>),
    /// `blscfg` puts the entries of /boot/loader/entries here; holds the variables at that point.
    Bls(State),
}

/// A `linux` command that ran.
#[derive(Debug, Clone, Default)]
pub(super) struct Linux {
    /// The arguments after the image, as the kernel gets them.
    pub cmdline: String,
    /// The same with other values of variables that the machine chooses.
    pub others: Vec<String>,
    pub image: String,
    /// Known values of the variables in it.
    pub variables: BTreeMap<String, String>,
    /// Variables that only GRUB can expand; they stay as `$name`.
    pub unresolved: Vec<String>,
    /// Files of the `initrd` commands after it.
    pub initrds: Vec<String>,
    /// Device of its files.
    pub device: Device,
    pub certain: bool,
    pub at: usize,
}

/// State while following a script.
pub(super) struct Run<'a> {
    pub text: &'a str,
    pub around: &'a GrubFiles<'a>,
    pub state: State,
    pub items: Vec<Item>,
    pub linux: Vec<Linux>,
    functions: Rc<BTreeMap<String, Rc<Function>>>,
    /// Functions that are running.
    running: Vec<String>,
    pub device: Device,
    certain: bool,
    /// The first command that leaves the entry, and the reason why it cannot be followed.
    ended: Option<NotUnderstood>,
    /// Remaining work budget, in bytes, shared with the runs inside this one.
    left: Rc<Cell<usize>>,
    /// Number of functions around the current one.
    depth: usize,
    /// Whether this is the body of a submenu.
    is_submenu: bool,
}

/// Work budget of a script, in bytes; distributions' scripts use less than a hundredth.
const MOST_WORK: usize = 64 << 20;
/// Cost of any command, in bytes; at most sixty thousand commands are followed.
const COST_OF_COMMAND: usize = 1 << 10;
/// Cost of a function call, in bytes; its arguments are variables.
const COST_OF_CALL: usize = 8 << 10;
const TOO_MUCH: &str = "this script does too much with variables and functions to be followed";

/// Limit for a value: the longest command line that a kernel of any architecture accepts.
const LONGEST_VALUE: usize = 4 << 10;

impl<'a> Run<'a> {
    pub(super) fn new(text: &'a str, around: &'a GrubFiles<'a>, state: State) -> Run<'a> {
        Run {
            text,
            around,
            state,
            items: Vec::new(),
            linux: Vec::new(),
            functions: Rc::default(),
            running: Vec::new(),
            device: Device::Own,
            certain: true,
            ended: None,
            left: Rc::new(Cell::new(MOST_WORK)),
            depth: 0,
            is_submenu: false,
        }
    }

    /// Runs the body of an entry.
    ///
    /// # Errors
    /// [`NotUnderstood`] if the body cannot be followed.
    pub(super) fn entry(&self, body: &[Command]) -> Result<Run<'a>, NotUnderstood> {
        self.inside(self.state.clone(), body, false)
    }

    /// Runs the body of a submenu.
    ///
    /// # Errors
    /// [`NotUnderstood`] if the body cannot be followed.
    pub(super) fn submenu(&self, body: &[Command]) -> Result<Run<'a>, NotUnderstood> {
        self.inside(self.state.for_submenu(), body, true)
    }

    /// Runs a body with the functions, device and remaining budget of the script around it.
    fn inside(
        &self,
        state: State,
        body: &[Command],
        is_submenu: bool,
    ) -> Result<Run<'a>, NotUnderstood> {
        let mut inner = Run {
            functions: Rc::clone(&self.functions),
            device: self.device.clone(),
            left: Rc::clone(&self.left),
            is_submenu,
            ..Run::new(self.text, self.around, state)
        };
        // A copy costs about an eighth of a comparison.
        inner.spend_budget(COST_OF_CALL + inner.state.bytes() / 8);
        inner.commands(body)?;
        Ok(inner)
    }

    /// Returns the line of an offset, from 1. Charged to the budget.
    pub(super) fn line_number(&self, offset: usize) -> usize {
        self.spend_budget(offset / 64);
        self.text[..offset].matches('\n').count() + 1
    }

    /// Fails if a command leaves the entry for something that cannot be followed.
    ///
    /// # Errors
    /// [`NotUnderstood`] with the command.
    pub(super) fn check_ended(&self) -> Result<(), NotUnderstood> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Charges work whose cost the script controls. If the budget is used up, the next command fails.
    fn spend_budget(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(bytes));
    }

    /// Returns the functions for a change; copies them if a script around this one shares them.
    fn own_functions(&mut self) -> &mut BTreeMap<String, Rc<Function>> {
        if Rc::strong_count(&self.functions) > 1 {
            self.spend_budget(self.functions.len() * COST_OF_COMMAND / 8);
        }
        Rc::make_mut(&mut self.functions)
    }

    /// Charges a command, and fails if the budget or the nesting limit is exceeded.
    fn check_budget(&self, words: &[Word], at: usize) -> Result<(), NotUnderstood> {
        self.spend_budget(self.state.bytes_of(words));
        let few = self.left.get() > 0 && self.depth <= DEEPEST;
        few.then_some(()).ok_or_else(|| NotUnderstood::at(self.text, at, TOO_MUCH))
    }

    /// Runs commands and returns the outcome of the last one.
    pub(super) fn commands(&mut self, commands: &[Command]) -> Result<Outcome, NotUnderstood> {
        let mut outcome = Some(true);
        for command in commands {
            outcome = self.command(command)?;
        }
        Ok(outcome)
    }

    fn command(&mut self, command: &Command) -> Result<Outcome, NotUnderstood> {
        self.spend_budget(COST_OF_COMMAND);
        match command {
            Command::Simple { words, block, at } => self.simple(words, block.as_ref(), *at),
            Command::If { arms, otherwise } => self.conditional(arms, otherwise),
            Command::Function { name, body } => {
                self.own_functions().insert(name.clone(), Rc::clone(body));
                Ok(Some(true))
            }
            Command::Loop { body, variable } => {
                if let Some(variable) = variable {
                    self.state.set(variable, None);
                }
                self.forget_assigned(body)?;
                Ok(None)
            }
        }
    }

    fn conditional(
        &mut self,
        arms: &[(Vec<Command>, Vec<Command>)],
        otherwise: &[Command],
    ) -> Result<Outcome, NotUnderstood> {
        let Some(((condition, body), rest)) = arms.split_first() else {
            return self.commands(otherwise);
        };
        match self.commands(condition)? {
            Some(true) => self.commands(body),
            Some(false) => self.conditional(rest, otherwise),
            None => {
                let was_certain = std::mem::replace(&mut self.certain, false);
                let copy = self.state.bytes();
                self.spend_budget(copy);
                let before = self.state.clone();
                self.commands(body)?;
                let after = std::mem::replace(&mut self.state, before);
                self.conditional(rest, otherwise)?;
                self.state.merge(&after);
                self.certain = was_certain;
                Ok(None)
            }
        }
    }

    fn simple(
        &mut self,
        words: &[Word],
        block: Option<&Rc<Vec<Command>>>,
        at: usize,
    ) -> Result<Outcome, NotUnderstood> {
        self.check_budget(words, at)?;
        let arguments: Vec<Value> =
            self.state.expand(words).into_iter().map(|word| word.value).collect();
        let Some((Some(name), arguments)) = arguments.split_first() else {
            return Ok(None);
        };
        let known: Vec<&str> =
            arguments.iter().filter_map(|argument| argument.as_deref()).collect();
        if name == "!" {
            if words.len() > DEEPEST {
                let why = "this command has too many words to be followed";
                return Err(NotUnderstood::at(self.text, at, why));
            }
            return Ok(self.simple(&words[1..], block, at)?.map(|truth| !truth));
        }
        match name.as_str() {
            "set" => self.assign(words.get(1)),
            "unset" => known.iter().for_each(|name| self.state.set(name, Some(String::new()))),
            "export" => known.iter().for_each(|name| self.state.export(name)),
            "increment" | "decrement" | "read" => {
                known.iter().for_each(|name| self.state.set(name, None))
            }
            "load_env" => self.load_env(&self.state.expand(&words[1..]), at)?,
            "[" | "test" => {
                return Ok(evaluate(name, &self.state.expand(&words[1..]), self.around));
            }
            "true" => return Ok(Some(true)),
            "false" => return Ok(Some(false)),
            "menuentry" | "submenu" => {
                self.menu(name == "submenu", arguments, block.cloned().unwrap_or_default(), at)
            }
            name if adds_unknown_entries(name, arguments) => self.unknown_entries(at),
            "blscfg" | "bls_import" => {
                self.spend_budget(self.state.bytes());
                self.push(ItemKind::Bls(self.state.clone()), None, None, None, at);
            }
            "linux" | "linuxefi" | "linux16" => self.load(&words[1..], at),
            "initrd" | "initrdefi" | "initrd16" => self.load_initrds(&words[1..]),
            "search" | "search.fs_uuid" | "search.fs_label" | "search.file" => {
                self.search(name, &known);
                return Ok(None);
            }
            "source" | "configfile" | "." | "normal" | "extract_entries_source" => {
                self.sourced(name, words, at)?
            }
            name if self.functions.contains_key(name) => {
                return self.call(name, &words[1..]);
            }
            name if self.ends(name, &known, at) => return Ok(None),
            name if name.contains('=') => self.assign(words.first()),
            _ => {
                self.forget_set(&known);
                return Ok(None);
            }
        }
        Ok(Some(true))
    }

    /// Records a command that leaves the entry or unloads its kernel. Returns whether it is one.
    fn ends(&mut self, name: &str, arguments: &[impl AsRef<str>], at: usize) -> bool {
        let has = |word: &str| arguments.iter().any(|argument| argument.as_ref() == word);
        let ends = match name {
            "exit" | "normal_exit" | "halt" | "poweroff" | "reboot" | "chainloader" => true,
            "fwsetup" => !has("--is-supported"),
            "rmmod" => arguments.iter().any(|module| module.as_ref().starts_with("linux")),
            _ => false,
        };
        if ends && self.ended.is_none() {
            let why = format!("`{name}` runs here, so the booted system is unknown");
            self.ended = Some(NotUnderstood::at(self.text, at, why));
        }
        ends
    }

    /// Handles a command that reads another file: follows the file if its text is known, skips it if it is known to be
    /// missing.
    fn sourced(&mut self, command: &str, words: &[Word], at: usize) -> Result<(), NotUnderstood> {
        let path =
            self.state.expand(words.get(1..).unwrap_or_default()).pop().map(|word| word.shown);
        let path = path.unwrap_or_default();
        match self.around.has_path(&path) {
            // GRUB reports a missing file and continues.
            Some(false) => Ok(()),
            // Only a password hash, written by grub2-setpassword.
            _ if path.ends_with("/user.cfg") => {
                self.state.set("GRUB2_PASSWORD", None);
                Ok(())
            }
            // The submenu of snapshots. Its lines come after the entries of this system.
            _ if self.is_submenu && is_of_snapshot(&path) => {
                self.unknown_entries(at);
                Ok(())
            }
            _ => {
                // The other commands start a new menu.
                let adds = matches!(command, "source" | ".");
                let text = self.around.text_of(&path).filter(|_| adds).ok_or_else(|| {
                    let why = "another file is read here, which may change the menu";
                    NotUnderstood::at(self.text, at, why)
                })?;
                self.include(&path, text, at)
            }
        }
    }

    /// Follows another file as if its text were here.
    fn include(&mut self, path: &str, text: &str, at: usize) -> Result<(), NotUnderstood> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let around = self.text;
        let cannot = |error: &dyn std::fmt::Display| {
            NotUnderstood::at(around, at, format!("{name}, read here: {error}"))
        };
        self.spend_budget(text.len().saturating_mul(8));
        self.check_budget(&[], at)?;
        let commands = parse_included(text, at).map_err(|error| cannot(&error))?;
        self.depth += 1;
        let outcome = self.commands(&commands).map_err(|error| cannot(&error.why));
        self.depth -= 1;
        outcome.map(|_| ())
    }
}
