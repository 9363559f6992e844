//! Prints the numbers and their ratios.

use std::time::Duration;

use crate::machine::Machine;
use crate::measure::Row;
use crate::programs::{INSPECT, LSPCI, PLAN, Program, TOPOLOGY, VERIFY};

/// Headings for [`print()`].
const HEADINGS: &str = concat!(
    "                                  median ms        min        max  x lspci x inspect  ",
    "  us/fn  calls/fn cfg dword  RSS MiB processes"
);

/// Prints the results of one machine.
pub fn print(machine: &Machine, programs: &[Program], rows: &[Row]) {
    let (name, bridges) = (&machine.name, machine.bridges.len());
    println!("\n{name}: {} functions, {bridges} bridges\n{HEADINGS}", machine.functions);
    let ms_of = |name: &str| rows.iter().find(|row| row.name == name).map_or(f64::NAN, Row::ms);
    let each = machine.functions.max(1) as f64;
    for row in rows {
        let ms = |time: Option<&Duration>| {
            time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3 * row.scale)
        };
        let scaled = |number: u64| number as f64 * row.scale;
        println!(
            "  {:<30} {:>10.2} {:>10.2} {:>10.2} {:>8.3} {:>9.3} {:>8.2} {:>9.1} {:>9.0} {:>8.1} {:>9.0}",
            row.name,
            row.ms(),
            ms(row.times.first()),
            ms(row.times.last()),
            row.ms() / ms_of(LSPCI),
            row.ms() / ms_of(INSPECT),
            row.ms() * 1e3 / each,
            scaled(row.traced.calls) / each,
            scaled(row.traced.config_dwords),
            row.rss_kib as f64 / 1024.0,
            scaled(row.traced.processes),
        );
    }
    println!(
        "  {VERIFY} and {TOPOLOGY} together: {:.2} x {INSPECT}",
        (ms_of(VERIFY) + ms_of(TOPOLOGY)) / ms_of(INSPECT)
    );
    println!("  {INSPECT}: {:.2} x {PLAN}", ms_of(INSPECT) / ms_of(PLAN));
    for (program, row) in programs.iter().zip(rows) {
        if let Some(own) = &row.own {
            println!("  {} says: {own}", program.name);
        }
        if !program.note.is_empty() {
            println!("  {}: {}", program.name, program.note);
        }
    }
}

/// Prints time per function on the huge machine relative to the small one: 1 = linear.
pub fn linearity(small: usize, hgx: &[Row], large: usize, huge: &[Row]) {
    println!("\ntime per function, huge / hgx (1 = linear)");
    for (hgx, huge) in hgx.iter().zip(huge) {
        let ratio = huge.ms() / large as f64 / (hgx.ms() / small as f64);
        println!("  {:<30} {ratio:>6.2}", hgx.name);
    }
}
