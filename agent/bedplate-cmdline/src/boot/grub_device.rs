//! The device of paths in a GRUB script.

/// The device of paths in a script: GRUB's variable `root`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// The device that GRUB was started from, which holds its own directory.
    #[default]
    Own,
    /// The file system with this UUID.
    Uuid(String),
    /// The file system with this label.
    Label(String),
    /// Named in a way that has no meaning outside GRUB (`hd0,gpt2`), or chosen by its content.
    Other,
}

impl Device {
    /// Returns the device that `search --fs-uuid --set=root UUID`, or the older `search.fs_uuid UUID root`, sets as
    /// root. Returns `None` if the command sets another variable.
    pub(super) fn searched(command: &str, arguments: &[&str]) -> Option<Device> {
        let has =
            |long: &str, short: &str| arguments.iter().any(|word| [long, short].contains(word));
        let set_apart = arguments.iter().position(|word| matches!(*word, "--set" | "-s"));
        let option = arguments.iter().find_map(|word| word.strip_prefix("--set="));
        let mut plain = arguments.iter().enumerate().filter(|(at, word)| {
            !word.starts_with('-') && set_apart.is_none_or(|set| *at != set + 1)
        });
        let (variable, value) = match command {
            "search" => {
                let variable = option.or(set_apart.and_then(|at| arguments.get(at + 1).copied()));
                (variable.unwrap_or("root"), plain.next_back())
            }
            _ => {
                let value = plain.next();
                (plain.next().map_or("root", |(_, word)| *word), value)
            }
        };
        let value = value.map(|(_, word)| (*word).to_owned());
        (variable == "root").then(|| match value {
            Some(uuid) if command == "search.fs_uuid" || has("--fs-uuid", "-u") => {
                Device::Uuid(uuid)
            }
            Some(label) if command == "search.fs_label" || has("--label", "-l") => {
                Device::Label(label)
            }
            _ => Device::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_command_sets_root_device() {
        let searched = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Device::searched(words[0], &words[1..])
        };
        let uuid = |text: &str| Some(Device::Uuid(text.into()));
        assert_eq!(searched("search --no-floppy --fs-uuid --set=root aa"), uuid("aa"));
        assert_eq!(searched("search --fs-uuid --set root --hint-bios=hd0 aa"), uuid("aa"));
        assert_eq!(searched("search -u aa -s root"), uuid("aa"));
        assert_eq!(searched("search.fs_uuid aa root hd0,gpt2"), uuid("aa"));
        assert_eq!(searched("search --label --set=root x"), Some(Device::Label("x".into())));
        assert_eq!(searched("search --file --set=root /boot/x"), Some(Device::Other));
        assert_eq!(searched("search --fs-uuid --set=fonts aa"), None);
    }
}
