//! GRUB's environment block (`grubenv`): a text file of fixed size that GRUB itself writes in place, block by block.
//! Its size must never change, not even by replacing the file (`grub-core/lib/envblk.c`; handbook §10.2).

use std::collections::BTreeMap;

/// First line of every environment block (`include/grub/lib/envblk.h`).
const SIGNATURE: &str = "# GRUB Environment Block\n";

/// Variable with the block list of a second environment block, in the header of a Btrfs file system. GRUB can write
/// there, but not to files of Btrfs (GRUB 2.14 `util/grub-editenv.c`; GRUB of SUSE and of Fedora 44).
pub const ENV_BLOCK: &str = "env_block";

/// Reason why an environment block cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrubenvError(String);

/// A parsed environment block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grubenv {
    size: usize,
    /// Comment lines after the signature, verbatim.
    comments: String,
    /// Name and value, in file order.
    variables: Vec<(String, String)>,
}

impl Grubenv {
    /// Parses a block.
    ///
    /// # Errors
    /// [`GrubenvError`] if GRUB's first line is missing, or if a variable is not terminated: GRUB stops reading there.
    pub fn parse(text: &str) -> Result<Grubenv, GrubenvError> {
        let mut rest = text.strip_prefix(SIGNATURE).ok_or_else(|| {
            GrubenvError(
                "not a GRUB environment block: its first line is not `# GRUB Environment Block`; recreate it with grub-editenv"
                    .to_owned(),
            )
        })?;
        let mut env = Grubenv { size: text.len(), comments: String::new(), variables: Vec::new() };
        while !rest.is_empty() {
            let offset = text.len() - rest.len();
            if rest.starts_with('#') {
                // Padding has no line end, a comment has one.
                let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
                if rest[..end].ends_with('\n') && env.variables.is_empty() {
                    env.comments.push_str(&rest[..end]);
                }
                rest = &rest[end..];
                continue;
            }
            if let Some(after) = rest.strip_prefix('\n') {
                rest = after;
                continue;
            }
            let (variable, after) = variable(rest).ok_or_else(|| {
                GrubenvError(format!(
                    "the GRUB environment block is damaged at byte {offset}; recreate it with grub-editenv"
                ))
            })?;
            env.variables.push(variable);
            rest = after;
        }
        Ok(env)
    }

    /// Returns a variable's value. If a name is repeated, the last value applies. Scripts treat an empty value as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns all variables, by name.
    pub fn variables(&self) -> BTreeMap<&str, &str> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Sets a variable. Keeps the place of an existing one.
    ///
    /// # Errors
    /// [`GrubenvError`] if the name is invalid or the block has no space; then the block is unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), GrubenvError> {
        if name.is_empty() || name.starts_with('#') || name.contains(['=', '\n', '\\']) {
            return Err(GrubenvError(format!("`{name}` is not a valid GRUB variable name")));
        }
        let mut changed = self.clone();
        match changed.variables.iter_mut().rev().find(|(own, _)| own == name) {
            Some((_, old)) => value.clone_into(old),
            None => changed.variables.push((name.to_owned(), value.to_owned())),
        }
        if changed.content().len() > self.size {
            return Err(GrubenvError(format!(
                "the GRUB environment block of {} bytes has no space for `{name}`; unset a variable with grub-editenv",
                self.size
            )));
        }
        *self = changed;
        Ok(())
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &str) {
        self.variables.retain(|(own, _)| own != name);
    }

    /// Returns the block, of exactly its original size.
    pub fn render(&self) -> String {
        let content = self.content();
        let padding = "#".repeat(self.size.saturating_sub(content.len()));
        content + &padding
    }

    fn content(&self) -> String {
        let escape = |value: &str| value.replace('\\', "\\\\").replace('\n', "\\\n");
        let lines =
            self.variables.iter().map(|(name, value)| format!("{name}={}\n", escape(value)));
        format!("{SIGNATURE}{}{}", self.comments, lines.collect::<String>())
    }
}

/// Parses one `NAME=value` line; returns it and the rest. A backslash escapes the next character, even a line end.
fn variable(text: &str) -> Option<((String, String), &str)> {
    let (name, rest) = text.split_once('=')?;
    let mut value = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => return Some(((name.to_owned(), value), &rest[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}
