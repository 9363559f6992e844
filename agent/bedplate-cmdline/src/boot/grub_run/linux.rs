//! The `linux` command: the lines that it may pass to the kernel.

use std::collections::BTreeMap;

use super::super::grub_quote;
use super::super::grub_script::{Part, Word};
use super::super::grub_vars::State;
use super::{Linux, Run};

impl Run<'_> {
    /// Records the loaded kernel, with every line that it may get.
    pub(super) fn load(&mut self, words: &[Word], at: usize) {
        let mut open = open_variables(&self.state, words);
        let states = self.state.chosen(open.iter().map(String::as_str));
        self.spend_budget(self.state.bytes() * states.len());
        let mut lines: Vec<(String, String)> =
            states.iter().map(|state| kernel_line(state, words)).collect();
        lines.dedup();
        match lines.windows(2).all(|pair| pair[0].0 == pair[1].0) {
            true => open = states.first().map_or(open, |state| open_variables(state, words)),
            // Then the kernel itself is uncertain.
            false => lines = vec![kernel_line(&self.state, words)],
        }
        let mut lines = lines.into_iter();
        let (image, cmdline) = lines.next().unwrap_or_default();
        self.linux.push(Linux {
            cmdline,
            others: lines.map(|(_, line)| line).collect(),
            image,
            variables: known_variables(&self.state, words),
            unresolved: open,
            initrds: Vec::new(),
            device: self.device.clone(),
            certain: self.certain,
            at,
        });
    }

    /// Records the files that are passed to the kernel as its initrd.
    pub(super) fn load_initrds(&mut self, words: &[Word]) {
        let files = self.state.expand(words).into_iter().map(|word| word.shown);
        let files: Vec<String> = files.filter(|file| !file.is_empty()).collect();
        if let Some(linux) = self.linux.last_mut() {
            linux.initrds.extend(files);
        }
    }
}

/// Returns the variables in these words whose value only the machine knows.
fn open_variables(state: &State, words: &[Word]) -> Vec<String> {
    let mut open = Vec::new();
    for name in variables_in(words) {
        if state.get(name).is_none() && !open.contains(name) {
            open.push(name.clone());
        }
    }
    open
}

fn known_variables(state: &State, words: &[Word]) -> BTreeMap<String, String> {
    variables_in(words).filter_map(|name| Some((name.clone(), state.get(name)?))).collect()
}

fn variables_in(words: &[Word]) -> impl Iterator<Item = &String> {
    words.iter().flat_map(|word| &word.parts).filter_map(|part| match part {
        Part::Var { name, .. } => Some(name),
        Part::Text(_) => None,
    })
}

/// Returns the image and the arguments of a `linux` command.
fn kernel_line(state: &State, words: &[Word]) -> (String, String) {
    let mut words = state.expand(words).into_iter().map(|word| word.shown);
    let image = words.next().unwrap_or_default();
    let arguments: Vec<String> = words.map(|text| grub_quote::join_argument(&text)).collect();
    (image, arguments.join(" "))
}
