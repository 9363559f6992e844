//! Parser for JSON: nvbandwidth's output, and perftest's `--out_json` file. The latter does not name the unit of
//! bandwidth; the message rate determines it.

use serde::Deserialize;

use super::perftest::{GIGABIT, MIB};
use super::{Device, Measure, Point, Results, Run, Test, nvbandwidth};

/// Minimum message rate. The rate has six decimals, so below this too few digits are significant.
const LEAST_RATE: f64 = 0.001;

#[derive(Deserialize)]
struct Document {
    test_info: Info,
    results: Figures,
}

#[derive(Deserialize)]
struct Info {
    test: String,
    #[serde(rename = "Device")]
    device: Option<String>,
    #[serde(rename = "Dual_port")]
    dual_port: Option<String>,
    #[serde(rename = "Connection_type")]
    connection: Option<String>,
    #[serde(rename = "Link_type")]
    link: Option<String>,
    #[serde(rename = "Mtu")]
    mtu: Option<u32>,
}

#[derive(Deserialize)]
struct Figures {
    #[serde(rename = "MsgSize")]
    size: u64,
    #[serde(rename = "BW_average")]
    average: f64,
    #[serde(rename = "MsgRate")]
    rate: f64,
}

/// Parses the results. Returns `None` if the text is not JSON.
pub(super) fn read(text: &str) -> Option<Results> {
    let mut results = Results::default();
    let value: serde_json::Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) if error.is_eof() => {
            results.note(error.line(), "the JSON ends early: the file is truncated");
            return Some(results);
        }
        Err(_) => return None,
    };
    let has = |key: &str| value.get(key).is_some();
    if has("nvbandwidth") {
        if nvbandwidth::json(text, &mut results).is_none() {
            results.note(1, "nvbandwidth's JSON has another layout than that of v0.5 to v0.8");
        }
    } else if let Some(run) = perftest(text) {
        results.runs.push(run);
    } else if has("test_info") {
        results.note(1, "perftest's JSON has no bandwidth, or its message rate does not show the unit: pass the text");
    } else if has("bedplate_snapshot") {
        results.note(1, "a snapshot of a host: pass it with --snapshot, and the results as FILE");
    } else {
        results
            .note(1, "JSON of another program: only that of perftest and nvbandwidth has results");
    }
    Some(results)
}

/// Parses a run of perftest. Returns `None` for another file, or if the unit is ambiguous.
fn perftest(text: &str) -> Option<Run> {
    let document: Document = serde_json::from_str(text).ok()?;
    let info = document.test_info;
    let test = match info.test.as_str() {
        test if !test.contains("BW") => return None,
        test if test.starts_with("RDMA_Write") => Test::IbWriteBw,
        test if test.starts_with("RDMA_Read") => Test::IbReadBw,
        test if test.starts_with("Send") => Test::IbSendBw,
        test if test.starts_with("Atomic") => Test::IbAtomicBw,
        _ => return None,
    };
    let Figures { size, average, rate } = document.results;
    let by_rate = rate * size as f64 / 1000.0;
    let off = |unit: f64| (average * unit / by_rate - 1.0).abs();
    let unit = if off(GIGABIT) < off(MIB) { GIGABIT } else { MIB };
    if rate < LEAST_RATE || off(unit) > 0.05 {
        return None;
    }
    // Line of the result; the file has only one.
    let line = text.lines().position(|line| line.contains("\"BW_average\"")).map_or(1, |at| at + 1);
    let measure = Measure { bandwidth: average * unit, time: None, wrong: None };
    Some(Run {
        line: 1,
        test: Some(test),
        device: Some(Device {
            name: info.device,
            link: info.link,
            mtu: info.mtu,
            connection: info.connection,
            bidirectional: info.test.contains("Bidirectional"),
            dual_port: info.dual_port.as_deref() == Some("ON"),
        }),
        points: vec![Point { line, bytes: size, out: Some(measure), within: None }],
        ..Run::default()
    })
}
