//! The Image Factory's schematic and its id, the SHA-256 of the text that the factory itself would write.

use crate::go_yaml::{GoYaml, scalar};
use crate::{RenderError, digest};

/// The part of a schematic that bedplate writes. Field order is that of the factory.
#[derive(Debug, Default)]
pub(super) struct Schematic {
    /// `customization.extraKernelArgs`.
    pub arguments: Vec<String>,
    /// `customization.systemExtensions.officialExtensions`.
    pub extensions: Vec<String>,
}

impl Schematic {
    /// Returns the canonical text, as written by a factory with that library.
    ///
    /// # Errors
    /// [`RenderError`] for an entry that is not printable ASCII.
    pub(super) fn text(&self, library: GoYaml) -> Result<String, RenderError> {
        if self.arguments.is_empty() && self.extensions.is_empty() {
            return Ok("customization: {}\n".to_owned());
        }
        let mut text = "customization:\n".to_owned();
        if !self.arguments.is_empty() {
            text.push_str("    extraKernelArgs:\n");
            text.push_str(&items(8, &self.arguments, library)?);
        }
        if !self.extensions.is_empty() {
            text.push_str("    systemExtensions:\n        officialExtensions:\n");
            text.push_str(&items(12, &self.extensions, library)?);
        }
        Ok(text)
    }
}

/// Returns the id of a schematic text, part of the names of the factory's installer images.
pub(super) fn id(text: &str) -> String {
    digest(text)
}

fn items(indent: usize, entries: &[String], library: GoYaml) -> Result<String, RenderError> {
    let item = |entry: &String| match scalar(entry, library) {
        Some(scalar) => Ok(format!("{:indent$}- {scalar}\n", "")),
        None => Err(RenderError::bad_argument(
            entry,
            "a schematic entry must be a name, with or without a value, in printable ASCII",
        )),
    };
    entries.iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schematic(arguments: &[&str], extensions: &[&str]) -> Schematic {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Schematic { arguments: owned(arguments), extensions: owned(extensions) }
    }

    #[test]
    fn ids_match_image_factory() {
        let known = [
            (
                schematic(&[], &[]),
                "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba",
            ),
            (
                schematic(&["net.ifnames=0"], &["siderolabs/gvisor", "siderolabs/intel-ucode"]),
                "b8e8fbbe1b520989e6c52c8dc8303070cb42095997e76e812fa8892393e1d176",
            ),
            (
                schematic(&["noapic", "nolapic"], &[]),
                "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
            ),
        ];
        for (schematic, expected) in known {
            assert_eq!(id(&schematic.text(GoYaml::V4).unwrap()), expected);
        }
    }

    #[test]
    fn entries_are_quoted_like_go_yaml() {
        let text = |library| schematic(&["-console", "!x", "no"], &[]).text(library).unwrap();
        for (library, no) in [(GoYaml::V3, "\"no\""), (GoYaml::V4, "'no'")] {
            let list = format!("        - -console\n        - '!x'\n        - {no}\n");
            assert_eq!(text(library), format!("customization:\n    extraKernelArgs:\n{list}"));
        }
        assert!(schematic(&["ö"], &[]).text(GoYaml::V4).is_err());
    }
}
