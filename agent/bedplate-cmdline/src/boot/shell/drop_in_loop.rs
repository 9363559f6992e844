//! Loop with which /etc/default/grub itself sources its drop-ins, because grub-mkconfig does not (Azure Linux).

use super::{Event, Scanner, is_name};

/// Files that the loop sources.
const GLOB: &str = "/etc/default/grub.d/*.cfg";
/// Limit for the rest of the file, in bytes. Without it, a file of many loops would take quadratic time.
const LONGEST: usize = 4 << 10;

impl Scanner<'_> {
    /// Skips the loop if it is the last command and runs unconditionally. Returns whether it was skipped.
    pub(super) fn drop_in_loop(&mut self) -> bool {
        let is_conditional = self.after_operator || self.defined.is_some() || !self.open.is_empty();
        let is_found = !is_conditional && is_loop(&self.text[self.at..]);
        if is_found {
            self.events.push(Event::DropIns { at: self.at, why: "this may set anything" });
            self.at = self.text.len();
        }
        is_found
    }
}

/// Whether a text is only a loop that sources every drop-in in the shell's order.
fn is_loop(text: &str) -> bool {
    if !text.starts_with("for") || text.len() > LONGEST {
        return false;
    }
    let words = words(text);
    let ["for", name, "in", GLOB, ";", "do", body @ .., ";", "done"] = words.as_slice() else {
        return false;
    };
    let is_file = |word: &str| word == format!("\"${name}\"") || word == format!("\"${{{name}}}\"");
    let command = match body {
        ["if", "[", "-e" | "-f" | "-r", file, "]", ";", "then", command @ .., ";", "fi"]
            if is_file(file) =>
        {
            command
        }
        command => command,
    };
    // The loop sets its variable, so grub-mkconfig must not read a variable of that name.
    name.chars().all(is_name)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.starts_with("GRUB_")
        && matches!(command, ["." | "source", file] if is_file(file))
}

/// Splits a text at blanks, without comment lines. A line end counts as `;`, except after `do` and `then`.
fn words(text: &str) -> Vec<&str> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let mut words = Vec::new();
    let lines = text.split('\n').map(|line| line.trim_matches(BLANKS));
    for line in lines.filter(|line| !line.starts_with('#')) {
        for part in line.split_inclusive(';') {
            let command = part.strip_suffix(';');
            let plain = command.unwrap_or(part).split(BLANKS).filter(|word| !word.is_empty());
            words.extend(plain);
            words.extend(command.map(|_| ";"));
        }
        if !matches!(words.last(), None | Some(&(";" | "do" | "then"))) {
            words.push(";");
        }
    }
    words.pop_if(|last| *last == ";");
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loop_over_all_drop_ins_is_recognized() {
        for text in [
            "for x in /etc/default/grub.d/*.cfg ; do\n  if [ -e \"${x}\" ]; then\n\t. \"${x}\"\n  fi\ndone",
            "for i in /etc/default/grub.d/*.cfg\ndo\n# x\nif [ -f \"$i\" ]\nthen\n\n. \"$i\"\nfi\ndone;\n# end\n",
            "for f in /etc/default/grub.d/*.cfg; do . \"$f\"; done\n",
            "for f in /etc/default/grub.d/*.cfg; do source \"${f}\"; done",
        ] {
            assert!(is_loop(text), "{text}");
        }
        for text in [
            "for f in /etc/default/grub.d/*; do . \"$f\"; done",
            "for f in /etc/default/grub.d/*.cfg /etc/x; do . \"$f\"; done",
            "for f in /etc/default/grub.d/*.cfg; do . $f; done",
            "for f in /etc/default/grub.d/*.cfg; do . \"$g\"; done",
            "for f in /etc/default/grub.d/*.cfg; do [ -x \"$f\" ] && . \"$f\"; done",
            "for f in /etc/default/grub.d/*.cfg; do if [ ! -e \"$f\" ]; then . \"$f\"; fi; done",
            "for f in /etc/default/grub.d/*.cfg; do if [ -e \"$f\" ]; then . \"$f\"; A=b; fi; done",
            "for f in /etc/default/grub.d/*.cfg; do . \"$f\"; done; A=b",
            "for f in /etc/default/grub.d/*.cfg; do . \"$f\"; done &",
            "for f in /etc/default/grub.d/*.cfg;; do . \"$f\"; done",
            "for f in /etc/default/grub.d/*.cfg; do\r\n. \"$f\"; done",
            "for 1 in /etc/default/grub.d/*.cfg; do . \"$1\"; done",
            "for GRUB_CMDLINE_LINUX in /etc/default/grub.d/*.cfg; do . \"$GRUB_CMDLINE_LINUX\"; done",
        ] {
            assert!(!is_loop(text), "{text}");
        }
    }
}
