//! Functions: run with their arguments or, like loops, scanned for the variables that they may set.

use std::rc::Rc;

use super::super::NotUnderstood;
use super::super::grub_script::{Command, Part, Word};
use super::super::grub_test::Outcome;
use super::{COST_OF_CALL, COST_OF_COMMAND, Run};

impl Run<'_> {
    /// Runs a function with its arguments (`grub_script_function_call`).
    pub(super) fn call(&mut self, name: &str, words: &[Word]) -> Result<Outcome, NotUnderstood> {
        self.spend_budget(COST_OF_CALL);
        let body = Rc::clone(&self.functions[name]);
        if self.running.iter().any(|running| running == name) || body.leaves_early {
            self.forget_assigned(&body.commands)?;
            return Ok(None);
        }
        let splits = |word: &Word| {
            word.parts.iter().any(|part| {
                matches!(part, Part::Var { name, quoted: false } if self.state.get(name).is_none())
            })
        };
        let split = words.iter().position(splits);
        let arguments = self.state.expand(words);
        let before = self.state.enter(&arguments, split);
        self.running.push(name.to_owned());
        self.depth += 1;
        let outcome = self.commands(&body.commands);
        self.depth -= 1;
        self.running.pop();
        self.state.leave(before);
        outcome
    }

    /// Forgets the variables set by commands that run with unknown arguments or an unknown number of times.
    pub(super) fn forget_assigned(&mut self, commands: &[Command]) -> Result<(), NotUnderstood> {
        for command in commands {
            self.spend_budget(COST_OF_COMMAND);
            match command {
                Command::Simple { words, at, .. } => self.forget_by(words, *at)?,
                Command::If { arms, otherwise } => {
                    for (condition, body) in arms {
                        self.forget_assigned(condition)?;
                        self.forget_assigned(body)?;
                    }
                    self.forget_assigned(otherwise)?;
                }
                Command::Loop { body, variable } => {
                    if let Some(variable) = variable {
                        self.state.set(variable, None);
                    }
                    self.forget_assigned(body)?;
                }
                Command::Function { .. } => {}
            }
        }
        Ok(())
    }

    fn forget_by(&mut self, words: &[Word], at: usize) -> Result<(), NotUnderstood> {
        let text = |word: &Word| match word.parts.first() {
            Some(Part::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let Some(first) = words.first().map(text) else { return Ok(()) };
        self.check_budget(words, at)?;
        match first.as_str() {
            "menuentry" | "submenu" | "blscfg" | "bls_import" | "linux" | "linuxefi"
            | "linux16" | "source" | "configfile" | "." | "load_env" => {
                let why = "this is in a function or loop, which is not followed";
                Err(NotUnderstood::at(self.text, at, why))
            }
            "set" | "unset" | "read" => {
                for word in &words[1..] {
                    let name = text(word);
                    self.state.set(name.split('=').next().unwrap_or_default(), None);
                }
                Ok(())
            }
            assignment if assignment.contains('=') => {
                self.state.set(assignment.split('=').next().unwrap_or_default(), None);
                Ok(())
            }
            name if self.ends(name, &words[1..].iter().map(text).collect::<Vec<_>>(), at) => Ok(()),
            name => match self.functions.get(name).cloned() {
                // GRUB would recurse forever too; removing the name ends the recursion here.
                Some(body) => {
                    let own = self.own_functions().remove_entry(name);
                    self.depth += 1;
                    let done = self.forget_assigned(&body.commands);
                    self.depth -= 1;
                    self.own_functions().extend(own);
                    done
                }
                None => Ok(()),
            },
        }
    }
}
