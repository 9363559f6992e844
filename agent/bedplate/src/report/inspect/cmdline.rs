//! Kernel command line in `inspect`: its states in columns, and repeated arguments.

use super::format::{NONE, clean};
use super::tables::section;
use crate::report::style::{HEAD, WARN, paint};
use bedplate_base::Reading;
use bedplate_core::kind::cmdline::show::CommandLineView;

/// Formats the table.
pub(super) fn table(shown: &CommandLineView, width: u16) -> String {
    let state = |there: Option<bool>| match there {
        Some(true) => "yes",
        Some(false) => NONE,
        None => "?",
    };
    let rows: Vec<Vec<String>> = shown
        .arguments
        .iter()
        .map(|row| {
            vec![
                clean(&row.argument),
                state(row.configured).to_owned(),
                state(row.next_boot).to_owned(),
                state(row.running).to_owned(),
                clean(&row.read_by),
                clean(&row.owner),
            ]
        })
        .collect();
    match rows.is_empty() {
        true => format!("\n{}\n", paint(HEAD, "Kernel command line")),
        false => section(
            &paint(HEAD, "Kernel command line"),
            &["argument", "configured", "next boot", "running", "read by", "from"],
            rows,
            width,
        ),
    }
}

/// Formats the effect of the arguments, repeated arguments, and unknown states.
pub(super) fn below(shown: &CommandLineView) -> String {
    let mut out = String::new();
    if !shown.effective.is_empty() {
        let kinds: Vec<String> = shown
            .effective
            .iter()
            .map(|(kind, count)| format!("{count} × {}", clean(kind)))
            .collect();
        out += &format!("  in effect on GPUs and NICs: IOMMU groups {}\n", kinds.join(", "));
    }
    for one in &shown.repeated {
        out += &format!("  {}: {}\n", clean(&one.arguments.join(" ")), clean(&one.result));
    }
    for (name, line) in [
        ("configured", &shown.configured),
        ("next boot", &shown.next_boot),
        ("running", &shown.running),
    ] {
        if let Reading::Unknown(why) = line {
            out += &format!("  {}\n", paint(WARN, &format!("{name}: unknown: {}", clean(why))));
        }
    }
    out
}
