//! Units of accumulating parameters: one output of `video=`, one interface of `ip=`. An argument replaces only those of
//! its own unit.

/// Rule that divides a parameter's values into units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    /// One output of `video=`.
    Output,
    /// Plain, `,high`, `,low` or `,cma` of `crashkernel=`.
    CrashKernel,
    /// One query of `dyndbg=`.
    Query,
    /// One interface of `ip=`.
    Interface,
    /// The text before the first comma.
    Device,
    /// Each value alone.
    Itself,
    /// One word of `tsc=`, or two that exclude each other.
    Tsc,
    /// One word of `mce=` or two that exclude each other; or the bare name.
    Mce,
    /// One word of `acpi=`, or several that exclude each other.
    Acpi,
    /// The text before a `=`.
    Word,
    /// The text before a `@`, without brackets.
    Mapped,
}

impl Units {
    /// Returns the unit of a value, followed by the units that it excludes.
    pub(crate) fn units(self, value: &str) -> Vec<String> {
        match self {
            Units::Output => output(value),
            Units::CrashKernel => crash_kernel(value),
            Units::Query => query(value),
            Units::Interface => interface(value),
            // `kernel/printk/printk.c` `console_setup`.
            Units::Device => single(value.split(',').next().unwrap_or_default()),
            Units::Itself => single(value),
            Units::Tsc => tsc(value),
            Units::Mce => mce(value),
            Units::Acpi => acpi(value),
            Units::Word => single(value.split('=').next().unwrap_or_default()),
            Units::Mapped => {
                single(value.split('@').next().unwrap_or_default().trim_matches(['[', ']']))
            }
        }
    }
}

/// `drivers/video/cmdline.c` `video_setup`: a value without `:` applies to every output without its own.
fn output(value: &str) -> Vec<String> {
    single(value.split_once(':').map_or("", |(output, _)| output))
}

/// `kernel/crash_reserve.c` `parse_crashkernel`: with a plain value, the kernel ignores `,high` and `,low`.
fn crash_kernel(value: &str) -> Vec<String> {
    let suffix = value.rsplit_once(',').map_or("", |(_, suffix)| suffix);
    match suffix {
        "high" | "low" => vec![suffix.to_owned(), String::new()],
        "cma" => single(suffix),
        _ => single(""),
    }
}

/// `lib/dynamic_debug.c`: a query consists of match terms and then flags.
fn query(value: &str) -> Vec<String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    match words.as_slice() {
        _ if value.contains([';', '\n']) => single(value),
        [matched @ .., flags] if flags.starts_with(['+', '-', '=']) => vec![matched.join(" ")],
        _ => single(value),
    }
}

/// dracut.cmdline(7), and `net/ipv4/ipconfig.c` for the long form: the unit is the interface.
fn interface(value: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut in_brackets = false;
    for c in value.chars() {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            ':' if !in_brackets => {
                fields.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(field) = fields.last_mut() {
            field.push(c);
        }
    }
    let methods = |field: &String| {
        let word = |c: char| c.is_ascii_lowercase() || c == '-' || c == '6';
        field.split(',').all(|method| method.starts_with(|c: char| c.is_ascii_lowercase()))
            && field.chars().all(|c| word(c) || c == ',')
    };
    match fields.as_slice() {
        // `INTERFACE:METHOD…`.
        [interface, method, ..] if methods(method) => single(interface),
        [_, _, _, _, _, interface, ..] => single(interface),
        _ => single(""),
    }
}

/// `arch/x86/kernel/tsc.c` `tsc_setup`: one word each, of which `watchdog` and `nowatchdog` exclude each other.
fn tsc(value: &str) -> Vec<String> {
    single(match value {
        "nowatchdog" => "watchdog",
        "unstable" => "reliable",
        other => other,
    })
}

/// `arch/x86/kernel/cpu/mce/core.c` `mcheck_enable`: one word each. The bare name is the opposite of `off`. A number is
/// the tolerance level or the monarch's timeout.
fn mce(value: &str) -> Vec<String> {
    single(match value {
        "" | "off" => "off",
        "bootlog" | "nobootlog" => "bootlog",
        number if number.starts_with(|c: char| c.is_ascii_digit()) => "number",
        other => other,
    })
}

/// `arch/x86/kernel/acpi/boot.c` `parse_acpi`, `arch/arm64/kernel/acpi.c`: one word each.
fn acpi(value: &str) -> Vec<String> {
    single(match value {
        "off" | "on" | "force" => "off",
        other => other,
    })
}

fn single(unit: &str) -> Vec<String> {
    vec![unit.to_owned()]
}
