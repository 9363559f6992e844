//! `bedplate doctor LOG`: the verdict on a job (`bedplate nccl job`), and the symptoms in its log.

use super::{DoctorArgs, verified};
use crate::cli::nccl::job::JudgedJob;
use crate::cli::nccl::logs::{names, read_logs};
use crate::cli::nccl::nodes::{is_own_name, own_node};
use crate::cli::{CliError, Exit, host, output};
use crate::report::doctor as text;
use bedplate_core::doctor::{Diagnosis, Lines, Recognised, Recogniser, Symptom};
use bedplate_core::documents as json;
use bedplate_nccl::job::algorithm_of_log;
use bedplate_nccl::perf::judge::{Assumptions, Verdict};

/// Logs with their verdict and symptoms.
struct Diagnosed {
    job: JudgedJob,
    found: Recognised,
    /// File names.
    name: String,
}

/// Diagnoses logs. Causes are looked for only on a host that the log names, or that the user chooses.
pub(super) fn run(args: &DoctorArgs, files: &[String]) -> Result<Exit, CliError> {
    let diagnosed = read(args, files)?;
    let Diagnosed { job, found, .. } = &diagnosed;
    let is_host_known = args.this_host
        || !args.host.is_this_host()
        || own_node(&job.log).is_some()
        || found.hosts.iter().any(|host| is_own_name(host));
    let mut is_usable = true;
    if is_host_known {
        let unusable = host::each(&args.host, |opened| {
            let verified = verified(args, opened)?;
            let diagnose = |symptom: &Symptom| symptom.diagnose(&verified.report, &verified.facts);
            let label = verified.facts.label();
            diagnosed.print(
                args,
                opened.file.as_deref(),
                Some(&label),
                &opened.heading(),
                &diagnose,
            )
        })?;
        is_usable = unusable.is_empty();
    } else {
        diagnosed.print(args, None, None, "", &Symptom::undiagnosed)?;
    }
    Ok(match job.verdict.verdict {
        _ if !is_usable => Exit::Failed,
        Verdict::Bad => Exit::Blocked,
        // Symptoms have happened, whether or not a host has a cause of them. The verdict covers the lines of NCCL.
        _ if diagnosed.symptoms().any(|(_, lines)| lines.foreign > 0) => Exit::Blocked,
        Verdict::CannotTell => Exit::CannotTell,
        Verdict::Good => Exit::Done,
    })
}

fn read(args: &DoctorArgs, files: &[String]) -> Result<Diagnosed, CliError> {
    let mut recogniser = Recogniser::default();
    let names = names(files);
    let mut current = usize::MAX;
    let log = read_logs(files, &mut |file, piece| {
        if file != current {
            current = file;
            recogniser.start_file((files.len() > 1).then(|| names[file].clone()));
        }
        recogniser.feed(piece);
    })?;
    let found = recogniser.finish();
    if found.is_snapshot {
        return Err(CliError::usage(format!("{} is a snapshot of a host", names.join(" ")))
            .hinting("run `bedplate doctor --snapshot FILE`"));
    }
    let assumptions = Assumptions { algorithm: algorithm_of_log(&log), ..Assumptions::default() };
    let job = JudgedJob::new(log, files, &args.host, &assumptions)?;
    Ok(Diagnosed { job, found, name: names.join(" ") })
}

impl Diagnosed {
    /// Whether the log has output of a job: lines of NCCL or a result table.
    fn has_job(&self) -> bool {
        self.job.log.said > 0 || self.job.verdict.results.is_some()
    }

    /// Returns the symptoms in the log. NCCL reports attempts that fail, too: if the job is known to be connected
    /// directly and without faults, its own lines do not count as symptoms.
    fn symptoms(&self) -> impl Iterator<Item = (&'static Symptom, &Lines)> {
        let is_harmless = self.job.is_sound();
        self.found.symptoms().filter(move |(_, lines)| !is_harmless || lines.foreign > 0)
    }

    fn print(
        &self,
        args: &DoctorArgs,
        file: Option<&str>,
        host: Option<&str>,
        heading: &str,
        diagnose: &dyn Fn(&Symptom) -> Diagnosis,
    ) -> Result<(), CliError> {
        let cited = self.symptoms().map(|(symptom, lines)| Diagnosis {
            lines: lines.first.clone(),
            line_count: lines.count,
            ..diagnose(symptom)
        });
        let cited: Vec<Diagnosis> = cited.collect();
        if args.json {
            let log = json::Log {
                file: &self.name,
                lines: self.found.lines,
                direct_channels: self.found.direct,
            };
            let job = self.has_job().then_some(&self.job.verdict);
            return output::data(&json::doctor(file, &cited, Some(log), job, host)?);
        }
        let mut out = heading.to_owned();
        out += &host.map(text::heading).unwrap_or_default();
        out += &text::log_line(&self.name, &self.found, cited.len(), self.has_job());
        if self.has_job() {
            out += &self.job.view().text(false);
        }
        for one in &cited {
            out += &format!("\n{}", text::diagnosis(one, Some((&self.name, host.is_some()))));
        }
        output::report(&out)
    }
}
