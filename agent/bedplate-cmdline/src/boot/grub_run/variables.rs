//! Commands that set variables.

use super::super::NotUnderstood;
use super::super::grub_device::Device;
use super::super::grub_script::{Part, Word};
use super::super::grub_vars::DisplayWord;
use super::super::grubenv::{ENV_BLOCK, Grubenv};
use super::{LONGEST_VALUE, Run};
use bedplate_base::Reading;

impl<'a> Run<'a> {
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
        let mut environment = self.around.grubenv;
        let names = match arguments {
            [option, file, names @ ..]
                if matches!(option.shown.as_str(), "-f" | "--file")
                    && self.is_header_block(&file.shown) =>
            {
                environment = self.header_block(at)?;
                names
            }
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
        let Some(environment) = environment else { return Ok(()) };
        for (name, value) in environment.variables() {
            if names.is_empty() || names.iter().any(|own| own.shown == name) {
                self.state.set(name, Some(value.to_owned()));
            }
        }
        Ok(())
    }

    /// Whether a path is the block list of `env_block`, with or without a device: `(hd0,gpt2)512+1`.
    fn is_header_block(&self, path: &str) -> bool {
        let blocks = self.around.grubenv.and_then(|environment| environment.get(ENV_BLOCK));
        let blocks = blocks.filter(|blocks| !blocks.is_empty());
        blocks.is_some_and(|blocks| {
            let after = path.strip_suffix(blocks);
            path == "$env_block" || after.is_some_and(|device| device.ends_with(')'))
        })
    }

    /// Returns the environment block outside of files.
    fn header_block(&self, at: usize) -> Result<Option<&'a Grubenv>, NotUnderstood> {
        let why = match self.around.header_block.map(Reading::optional) {
            Some(Ok(block)) => return Ok(block),
            Some(Err(why)) => why.to_string(),
            None => "it was not read".to_owned(),
        };
        let why =
            format!("GRUB loads an environment block outside of files here (env_block): {why}");
        Err(NotUnderstood::at(self.text, at, why))
    }
}
