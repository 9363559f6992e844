//! `[cpu]`: frequency and idle states of CPUs.

use serde::Serialize;

use crate::section::{Check, Checked, Fault, section};

section! {
    /// `[cpu]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "cpu" CpuPower, CpuPowerFile {
        /// Frequency governor of all CPUs, for example `performance`. Set in the running kernel, at every boot; in images as
        /// the kernel argument `cpufreq.default_governor=`. Unset: unchanged.
        #[schemars(
            example = &"performance",
            extend("x-source" = "Linux Documentation/admin-guide/pm/cpufreq.rst; handbook §11.1")
        )]
        governor: String as Checked<GovernorName>;

        /// Longest exit latency of CPU idle states, in microseconds: deeper states are disabled, all other states enabled. The
        /// latencies are those that the idle driver of the host reports. Set in the running kernel, at every boot. Low
        /// values cost power, and may take turbo frequencies away from busy CPUs. Unset: unchanged.
        #[schemars(
            example = 10,
            extend("x-source" = "Linux Documentation/admin-guide/pm/cpuidle.rst; handbook §11.1")
        )]
        max_idle_latency_us: u32;
    }
}

/// Name of a frequency governor: at most 15 bytes (include/linux/cpufreq.h CPUFREQ_NAME_LEN).
pub struct GovernorName;

impl Check for GovernorName {
    type Value = String;
    const ID: &'static str = "bad-governor";

    fn fault(_: &str, name: &String) -> Option<Fault> {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_name = (1..16).contains(&name.len()) && name.bytes().all(good);
        (!is_name).then(|| {
            let label = "expected a name in lower case, for example `performance` or `schedutil`";
            (format!("`{name}` is not the name of a governor"), label.to_owned(), None)
        })
    }
}
