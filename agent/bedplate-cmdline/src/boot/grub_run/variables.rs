//! Commands that set variables.

use super::super::NotUnderstood;
use super::super::grub_device::Device;
use super::super::grub_script::{Part, Word};
use super::super::grub_vars::DisplayWord;
use super::{LONGEST_VALUE, Run};

impl Run<'_> {
    /// Forgets variables set by a command's options: `search --set=root`, `probe --set name`, `regexp -s name`.
    pub(super) fn forget_set(&mut self, arguments: &[&str]) {
        for (at, argument) in arguments.iter().enumerate() {
            let name = match argument.split_once('=') {
                Some(("--set", name)) => Some(name),
                None if matches!(*argument, "--set" | "-s") => arguments.get(at + 1).copied(),
                _ => None,
            };
            if let Some(name) = name {
                // `regexp` writes a group number before the name.
                self.state.set(name.rsplit(':').next().unwrap_or(name), None);
            }
        }
    }

    pub(super) fn search(&mut self, command: &str, arguments: &[&str]) {
        self.forget_set(arguments);
        if let Some(device) = Device::searched(command, arguments) {
            self.state.set("root", None);
            self.device = if self.certain { device } else { Device::Other };
        }
    }

    /// Runs `set name=value` or `name=value`.
    pub(super) fn assign(&mut self, word: Option<&Word>) {
        let Some(word) = word else { return };
        let Some(Part::Text(first)) = word.parts.first() else { return };
        let Some((name, start)) = first.split_once('=') else { return };
        let mut value = Some(start.to_owned());
        for part in &word.parts[1..] {
            let more = match part {
                Part::Text(text) => Some(text.clone()),
                Part::Var { name, .. } => self.state.get(name),
            };
            // Doubled forty times, it would take a terabyte.
            let joined = value.zip(more).map(|(value, more)| value + &more);
            value = joined.filter(|value| value.len() <= LONGEST_VALUE);
        }
        if name == "root" {
            self.device = Device::Other;
        }
        self.state.set(name, value);
    }

    /// Runs `load_env [-f FILE] [NAME…]`.
    pub(super) fn load_env(
        &mut self,
        arguments: &[DisplayWord],
        at: usize,
    ) -> Result<(), NotUnderstood> {
        let names = match arguments {
            [option, file, names @ ..] if matches!(option.shown.as_str(), "-f" | "--file") => {
                let own =
                    self.around.has_path(&file.shown).is_some() && file.shown.ends_with("/grubenv");
                if !own {
                    return Err(NotUnderstood::at(
                        self.text,
                        at,
                        "another environment file is loaded here",
                    ));
                }
                names
            }
            names => names,
        };
        let Some(env) = self.around.grubenv else { return Ok(()) };
        for (name, value) in env.variables() {
            if names.is_empty() || names.iter().any(|own| own.shown == name) {
                self.state.set(name, Some(value.to_owned()));
            }
        }
        Ok(())
    }
}
