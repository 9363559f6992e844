//! Small tasks that need more rights than the daemon has: reading the open files of other processes, the operator's commands,
//! reboot methods, the marker in /run. Each runs in its own process (`bedplate helper`, hidden). The daemon names only the
//! task. The commands and the allowed methods are read from the profile here, so a compromised daemon cannot choose them.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::launch::{HELPER, Launch};
use super::observation::Observation;
use super::unit::Unit;
use super::worker::{self, WorkError};
use super::{methods, public, reboot_required, worker_task};
use crate::reboot::busy;
use crate::reboot::last_boot::BmcAnswer;
use crate::reboot::method::ipmi::{self, Code, Device, IpmiError, RestartCause};
use crate::reboot::method::{command, undo};
use bedplate_base::chain;
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::profile::model::{Reboot, RebootMethod};
use bedplate_core::reboot_record::preparation::Preparation;
use bedplate_host::write::DirWriter;
use bedplate_host::{DirReader, process};

/// Time limit of the operator's busy check.
const BUSY_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of an observation without checks.
const INSPECT_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a task; longer than the tasks' own limits (operator's commands, a BMC with several requests).
const LIMIT: Duration = Duration::from_secs(180);
/// Interval and number of requests to a BMC. Early in a boot the BMC may be busy and its driver still probing.
const AGAIN: (Duration, u32) = (Duration::from_secs(1), 5);

/// A request of the daemon to a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case", deny_unknown_fields)]
enum Task<'a> {
    Holders {
        idle: Vec<String>,
    },
    BusyCommand {},
    Methods {
        need: RebootNeed,
    },
    #[serde(rename = "way-back")]
    FindUndo {
        method: RebootMethod,
        at: Timestamp,
    },
    Prepare {
        method: RebootMethod,
        plan: &'a str,
        at: Timestamp,
    },
    #[serde(rename = "take-back")]
    Disarm {
        prepared: Preparation,
    },
    PowerCommand {},
    RestartCause {},
    Marker {
        wanted: bool,
    },
}

impl Task<'_> {
    /// Returns the only unit that runs the task: each unit has the rights for its own tasks only.
    fn unit(&self) -> Unit {
        match self {
            Task::Holders { .. } => Unit::Holders,
            Task::BusyCommand {} | Task::Marker { .. } => Unit::Check,
            Task::Methods { .. }
            | Task::FindUndo { .. }
            | Task::Prepare { .. }
            | Task::Disarm { .. }
            | Task::PowerCommand {}
            | Task::RestartCause {} => Unit::Worker,
        }
    }
}

fn task(text: &str) -> Result<Task<'_>, String> {
    serde_json::from_str(text).map_err(|error| format!("unknown task: {error}"))
}

/// Returns the unit for the task in `text`.
///
/// # Errors
/// If the task is unknown.
pub(crate) fn unit(text: &str) -> Result<Unit, String> {
    task(text).map(|task| task.unit())
}

/// Performs the task in `text` on the host below `root`, and returns its answer as JSON.
///
/// # Errors
/// The reason, in one sentence.
pub fn perform(text: &str, root: &Path) -> Result<String, String> {
    match task(text)? {
        Task::Holders { idle } => json(&holders(root, &idle)),
        Task::BusyCommand {} => json(&busy_command(&settings(root)?.busy_command)),
        Task::Methods { need } => json(&methods::choose_method(root, &settings(root)?, need)),
        Task::FindUndo { method, at } => {
            let found = methods::find_undo(root, method, &settings(root)?, at);
            json(&found.map_err(|error| chain(&error))?)
        }
        Task::Prepare { method, plan, at } => {
            let ready = methods::ready(root, method, &settings(root)?, plan, at);
            json(&ready.map_err(|error| chain(&error))?)
        }
        Task::Disarm { prepared } => json(&undo(&prepared, root).map_err(|error| chain(&error))?),
        Task::PowerCommand {} => {
            let settings = settings(root)?;
            let command = methods::command(&settings).ok_or("the profile has no `command`")?;
            let ran = command::run(&command, &mut DirWriter::live());
            json(&ran.map_err(|error| chain(&error))?.as_secs())
        }
        Task::RestartCause {} => json(&restart_cause(root).map_err(|error| chain(&error))?),
        Task::Marker { wanted } => {
            json(&reboot_required::set(root, wanted).map_err(|error| error.to_string())?)
        }
    }
}

/// Reads the reboot settings from the host's profile. The daemon must not pass them: commands named in them run
/// with this process's rights.
fn settings(root: &Path) -> Result<Reboot, String> {
    let reader = match root == Path::new("/") {
        true => DirReader::live(),
        false => DirReader::image(root).map_err(|error| chain(&error))?,
    };
    let profile = worker_task::profile(&reader).map_err(|error| public::error(&error))?;
    Ok(profile.reboot)
}

fn json(answer: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(answer).map_err(|error| error.to_string())
}

/// Returns one line about the processes that hold a device open; `None` if no process does.
fn holders(root: &Path, idle: &[String]) -> Option<String> {
    // Below a test's root, the process ids are not those of this machine.
    let live = root == Path::new("/");
    let who = move |pid| if live { process::owner(pid) } else { None };
    match busy::holders(&root.join("proc"), idle) {
        Ok(in_use) => in_use.reason(who),
        Err(why) => Some(why),
    }
}

fn busy_command(argv: &[String]) -> Option<String> {
    if argv.is_empty() {
        // The daemon requests the check only after it saw one in the profile.
        return Some("the profile no longer has a `busy_command`".to_owned());
    }
    busy::busy_command(argv, BUSY_LIMIT)
}

fn restart_cause(root: &Path) -> Result<RestartCause, IpmiError> {
    let device = Device::at(root.join("dev/ipmi0"));
    for _ in 1..AGAIN.1 {
        match ipmi::restart_cause(&device) {
            Err(error) if is_early(&error) => std::thread::sleep(AGAIN.0),
            said => return said,
        }
    }
    ipmi::restart_cause(&device)
}

/// Whether a retry a moment later may succeed.
fn is_early(error: &IpmiError) -> bool {
    match error {
        IpmiError::Device { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        IpmiError::Refused { code, .. } => *code == Code::BUSY,
        _ => false,
    }
}

/// Client of the helper tasks for the host below a directory.
#[derive(Debug, Clone)]
pub(crate) struct Helpers {
    launch: Launch,
    root: std::path::PathBuf,
}

impl Helpers {
    /// Creates a client that starts processes with `launch`.
    pub(crate) fn new(launch: Launch, root: &Path) -> Self {
        Helpers { launch, root: root.to_owned() }
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, task: &Task<'_>) -> Result<T, WorkError> {
        let input = serde_json::to_string(task).map_err(WorkError::Answer)?;
        let mut arguments = vec![HELPER.to_owned()];
        // A unit sets its own root.
        if let Launch::Children(_) = self.launch {
            arguments.push(format!("--state-root={}", self.root.display()));
        }
        worker::ask(&self.launch, task.unit(), &arguments, &input, LIMIT).await
    }

    /// Whether a unit of another build answered: this daemon must end, and systemd starts the new build.
    pub(crate) fn is_replaced(&self) -> bool {
        self.launch.is_replaced()
    }

    /// Observes the boot entry afresh. If that fails, its soundness is unknown.
    pub(crate) async fn inspect_entry(&self) -> NextBoot {
        match worker::observe_unjudged(&self.launch, INSPECT_LIMIT).await {
            Ok(Observation { packages: Some(why), .. }) => NextBoot::Unknown { reasons: vec![why] },
            Ok(observation) => observation.next_boot,
            Err(error) => NextBoot::Unknown { reasons: vec![chain(&error)] },
        }
    }

    /// Returns one line about the processes that hold a GPU or RDMA device open. If they cannot be determined, returns the
    /// reason, which counts as in use.
    pub(crate) async fn holders(&self, idle: &[String]) -> Option<String> {
        let task = Task::Holders { idle: idle.to_vec() };
        let asked = self.ask(&task).await;
        asked.unwrap_or_else(|error| {
            Some(format!("cannot check for open devices: {}", chain(&error)))
        })
    }

    /// Returns the output of the operator's busy check, or `None` if the host is free.
    pub(crate) async fn busy_command(&self) -> Option<String> {
        let asked = self.ask(&Task::BusyCommand {}).await;
        asked.unwrap_or_else(|error| {
            Some(format!("the busy command did not answer: {}", chain(&error)))
        })
    }

    /// Returns the first method that works here, and a message about each method tried.
    pub(crate) async fn methods(&self, need: RebootNeed) -> (Option<RebootMethod>, Vec<String>) {
        let asked = self.ask(&Task::Methods { need }).await;
        asked.unwrap_or_else(|error| {
            (None, vec![format!("cannot probe the reboot methods: {}", chain(&error))])
        })
    }

    /// Returns the undo steps for what [`Helpers::prepare`] is about to do.
    ///
    /// # Errors
    /// [`WorkError`].
    pub(crate) async fn find_undo(
        &self,
        method: RebootMethod,
        at: Timestamp,
    ) -> Result<Preparation, WorkError> {
        self.ask(&Task::FindUndo { method, at }).await
    }

    /// Arms a method for a reboot at `at`.
    ///
    /// # Errors
    /// [`WorkError`]; no state is left behind, or the error describes it.
    pub(crate) async fn prepare(
        &self,
        method: RebootMethod,
        plan: &str,
        at: Timestamp,
    ) -> Result<Preparation, WorkError> {
        self.ask(&Task::Prepare { method, plan, at }).await
    }

    /// Undoes [`Helpers::prepare`].
    ///
    /// # Errors
    /// [`WorkError`].
    pub(crate) async fn disarm(&self, prepared: &Preparation) -> Result<(), WorkError> {
        // Most methods leave no state behind.
        if prepared.undo.is_empty() {
            return Ok(());
        }
        self.ask(&Task::Disarm { prepared: prepared.clone() }).await
    }

    /// Runs the operator's command that cycles the power. Returns how long the machine may then take to go down.
    ///
    /// # Errors
    /// [`WorkError`].
    pub(crate) async fn power_command(&self) -> Result<Duration, WorkError> {
        let asked = self.ask(&Task::PowerCommand {}).await;
        asked.map(Duration::from_secs)
    }

    /// Returns the BMC's cause of the last restart.
    pub(crate) async fn restart_cause(&self) -> BmcAnswer {
        let asked = self.ask(&Task::RestartCause {}).await;
        asked.map_err(|error| chain(&error))
    }

    /// Sets the marker in /run that requests a reboot from other tools, or removes bedplate's part of it.
    ///
    /// # Errors
    /// [`WorkError`].
    pub(crate) async fn marker(&self, wanted: bool) -> Result<(), WorkError> {
        self.ask(&Task::Marker { wanted }).await
    }
}
