//! Slurm's three programs in Slurm itself: slurmctld, slurmd and munged run as the user of the tests, with all files in one
//! directory. bedplate is a fake.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bedplate_tests::fixtures;

use super::{fake, shipped, text};

const READY: &str = "echo 'ready: everything is in effect'";
const NOT_READY: &str = "echo 'not ready: ACS of 0000:22:00.0'; exit 4";
const REASON: &str = "bedplate: not ready: ACS of 0000:22:00.0";

/// A cluster of one node with two GPUs.
struct Cluster {
    directory: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    /// Starts the daemons, with this number of seconds between health checks. bedplate is ready.
    fn new(interval: u32) -> Cluster {
        let mut cluster =
            Cluster { directory: tempfile::tempdir().expect("a directory"), daemons: Vec::new() };
        let here = cluster.directory.path().display().to_string();
        cluster.say(READY);
        fake(
            cluster.directory.path(),
            "bedplate",
            &format!("echo \"$*\" >>{here}/asked\n. {here}/answer"),
        );
        for name in ["bedplate-health", "bedplate-prolog", "bedplate-reboot"] {
            let program = shipped("slurm").join(name).display().to_string();
            fake(
                cluster.directory.path(),
                name,
                &format!(
                    "export BEDPLATE={here}/bedplate SLURM_CONF={here}/slurm.conf\n\
                     echo \"$SLURM_JOB_ID:$SLURM_JOB_GPUS\" >>{here}/{name}.runs\nexec {program} \"$@\""
                ),
            );
        }
        cluster.configure(interval);
        cluster.write_key();
        let file = |name: &str| format!("--{name}-file={here}/munge.{name}");
        let socket = format!("--socket={here}/munge");
        cluster.start(
            "munged",
            &["-F", "--force", &socket, &file("key"), &file("pid"), &file("log"), &file("seed")],
        );
        cluster.wait("munged", || cluster.at("munge").exists());
        cluster.start("slurmctld", &["-D", "-c"]);
        cluster.wait("slurmctld", || !cluster.node().0.is_empty());
        cluster.start("slurmd", &["-D", "-N", "gpu01"]);
        cluster.wait("slurmd", || cluster.node() == ("IDLE".to_owned(), String::new()));
        cluster
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    fn write_key(&self) {
        let mut key = [0; 64];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut key))
            .expect("random bytes");
        let mut options = File::options();
        let file = options.write(true).create(true).mode(0o600).open(self.at("munge.key"));
        std::io::Write::write_all(&mut file.expect("ours"), &key).expect("ours");
    }

    /// Writes the shipped configuration with this interval, and the other lines that a cluster needs.
    fn configure(&self, interval: u32) {
        let here = self.directory.path().display();
        let user = Command::new("id").arg("-un").output().expect("it starts").stdout;
        let user = String::from_utf8_lossy(&user).trim().to_owned();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the host name");
        let host = host.trim().split('.').next().unwrap_or_default().to_owned();
        // The ports stay the same when the configuration is written again.
        if !self.at("ports").exists() {
            let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
            let [controller, node] =
                sockets.map(|socket| socket.local_addr().expect("its address").port());
            fs::write(self.at("ports"), format!("SlurmctldPort={controller}\nSlurmdPort={node}"))
                .expect("ours");
        }
        let mut shipped = text("slurm/slurm.conf");
        for (old, new) in [
            ("=/usr/lib/bedplate/", format!("={here}/")),
            ("HealthCheckInterval=300\n", format!("HealthCheckInterval={interval}\n")),
            ("=nohold_on_prolog_fail\n", "=nohold_on_prolog_fail,sched_interval=1\n".to_owned()),
        ] {
            assert!(shipped.contains(old), "{old}");
            shipped = shipped.replace(old, &new);
        }
        let own = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser={user}\nSlurmdUser={user}\n{}\n\
             # A requeued job waits until its credential has expired: at least 5 seconds.\n\
             AuthInfo=socket={here}/munge,cred_expire=5\n\
             StateSaveLocation={here}\nSlurmdSpoolDir={here}/spool\n\
             SlurmctldPidFile={here}/slurmctld.pid\nSlurmdPidFile={here}/slurmd.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             MpiDefault=none\nReturnToService=2\nSelectType=select/cons_tres\nGresTypes=gpu\n\
             NodeName=gpu01 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 Gres=gpu:2\n\
             PartitionName=all Nodes=ALL Default=YES\n",
            self.read("ports"),
        );
        fs::write(self.at("slurm.conf"), own + &shipped).expect("ours");
        fs::write(self.at("gres.conf"), "NodeName=gpu01 Name=gpu File=/dev/null,/dev/zero\n")
            .expect("ours");
    }

    fn start(&mut self, program: &str, arguments: &[&str]) {
        let log = File::create(self.at(&format!("{program}.log"))).expect("ours");
        let daemon = Command::new(fixtures::tool(program))
            .args(arguments)
            .env("SLURM_CONF", self.at("slurm.conf"))
            .current_dir(self.directory.path())
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("it starts");
        self.daemons.push(daemon);
    }

    /// Restarts slurmd as a boot of the node does.
    fn boot(&mut self) {
        stop(self.daemons.pop().expect("slurmd"));
        self.start("slurmd", &["-D", "-b", "-N", "gpu01"]);
    }

    /// Sets the script that answers for bedplate.
    fn say(&self, script: &str) {
        fs::write(self.at("new"), format!("{script}\n")).expect("ours");
        fs::rename(self.at("new"), self.at("answer")).expect("ours");
    }

    /// Runs a command of Slurm. Returns its output, or `None` on failure.
    fn slurm(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let done = Command::new(fixtures::tool(program))
            .args(arguments)
            .env("SLURM_CONF", self.at("slurm.conf"))
            .current_dir(self.directory.path())
            .output()
            .expect("it starts");
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// State and reason of the node. Empty if slurmctld does not answer.
    fn node(&self) -> (String, String) {
        let shown = self.slurm("scontrol", &["show", "node", "gpu01"]).unwrap_or_default();
        let reason = shown.split("Reason=").nth(1).and_then(|rest| rest.split(" [").next());
        (value(&shown, "State="), reason.unwrap_or_default().to_owned())
    }

    fn is_drained(&self, why: &str) -> bool {
        let (state, reason) = self.node();
        state.contains("DRAIN") && reason == why
    }

    /// Slurm 24.11 retains the reason of a resumed node. It must not be one that a health check treats as its own.
    fn is_in_service(&self) -> bool {
        let (state, reason) = self.node();
        state.starts_with("IDLE") && !state.contains("DRAIN") && !reason.starts_with("bedplate: ")
    }

    /// Submits a job that runs a command and writes into the file `job`. Returns its number.
    fn submit(&self, arguments: &[&str], command: &str) -> String {
        let fixed = ["--parsable", "--output=job", "--open-mode=append", "--wrap", command];
        let job = self.slurm("sbatch", &[arguments, &fixed].concat());
        job.expect("it is submitted").trim().to_owned()
    }

    fn job(&self, job: &str, key: &str) -> String {
        value(&self.slurm("scontrol", &["show", "job", job]).unwrap_or_default(), key)
    }

    /// Waits until two more health checks have started, so that one has ended.
    fn wait_for_health(&self) {
        let runs = || self.read("bedplate-health.runs").lines().count();
        let before = runs();
        self.wait("health checks", || runs() > before + 1);
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            if start.elapsed() > Duration::from_secs(90) {
                let logs = ["munged", "slurmctld", "slurmd"].map(|name| {
                    let log = self.read(&format!("{name}.log"));
                    let lines: Vec<&str> = log.lines().rev().take(20).collect();
                    lines.into_iter().rev().map(|line| format!("{line}\n")).collect::<String>()
                });
                panic!("{what}: {:?}\n{}", self.node(), logs.concat());
            }
            sleep(Duration::from_millis(100));
        }
    }
}

/// Stops the daemons, then the steps of jobs, which outlive slurmd.
impl Drop for Cluster {
    fn drop(&mut self) {
        while let Some(daemon) = self.daemons.pop() {
            stop(daemon);
        }
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let place = fs::read_link(process.path().join("cwd"));
            let id = process.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id
                && place.is_ok_and(|path| path.starts_with(self.directory.path()))
            {
                _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(id),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
        }
    }
}

fn stop(mut daemon: Child) {
    _ = daemon.kill();
    _ = daemon.wait();
}

/// The word that follows a key.
fn value(shown: &str, key: &str) -> String {
    let mut words = shown.split_whitespace();
    words.find_map(|word| word.strip_prefix(key)).unwrap_or_default().to_owned()
}

#[test]
#[cfg_attr(
    not(all(has = "munged", has = "scontrol", has = "slurmctld", has = "slurmd")),
    ignore = "needs munged, scontrol, slurmctld, slurmd"
)]
fn real_slurm_drains_and_resumes_the_node() {
    let cluster = Cluster::new(1);
    cluster.say(NOT_READY);
    cluster.wait("drained", || cluster.is_drained(REASON));
    cluster.say("echo 'unknown: no daemon'; exit 5");
    cluster.wait("another reason", || cluster.is_drained("bedplate: unknown: no daemon"));
    cluster.say(READY);
    cluster.wait("resumed", || cluster.is_in_service());
    // A check that started before may resume the node again.
    cluster.wait_for_health();
    let drain = ["update", "nodename=gpu01", "state=drain", "reason=memory errors"];
    cluster.slurm("scontrol", &drain).expect("it is drained");
    cluster.wait_for_health();
    assert!(cluster.is_drained("memory errors"), "{:?}", cluster.node());
}

#[test]
#[cfg_attr(
    not(all(has = "munged", has = "scontrol", has = "slurmctld", has = "slurmd")),
    ignore = "needs munged, scontrol, slurmctld, slurmd"
)]
fn real_slurm_requeues_job_until_node_is_ready() {
    // Only slurmd's start runs the health check.
    let cluster = Cluster::new(3600);
    let first = cluster.submit(&["--gres=gpu:1"], "echo first");
    cluster.wait("job", || cluster.job(&first, "JobState=") == "COMPLETED");
    assert_eq!(cluster.read("job"), "first\n");
    cluster.say(NOT_READY);
    let second = cluster.submit(&[], "echo second");
    cluster.wait("drained", || cluster.is_drained(REASON));
    cluster.wait("requeued", || cluster.job(&second, "Restarts=") == "1");
    cluster.wait("pending", || cluster.job(&second, "JobState=") == "PENDING");
    // Not held.
    assert_ne!(cluster.job(&second, "Priority="), "0");
    assert_eq!(cluster.read("job"), "first\n");
    // slurmd reports the failed prolog, and the reason stays.
    assert!(cluster.is_drained(REASON), "{:?}", cluster.node());
    let runs = format!("{first}:0\n{second}:\n");
    assert_eq!(cluster.read("bedplate-prolog.runs"), runs, "only jobs with GPUs have the variable");
    cluster.say(READY);
    cluster.configure(1);
    cluster.slurm("scontrol", &["reconfigure"]).expect("it answers");
    cluster.wait("job", || cluster.job(&second, "JobState=") == "COMPLETED");
    assert_eq!(cluster.read("job"), "first\nsecond\n");
    cluster.wait("in service", || cluster.is_in_service());
}

#[test]
#[cfg_attr(
    not(all(has = "munged", has = "scontrol", has = "slurmctld", has = "slurmd")),
    ignore = "needs munged, scontrol, slurmctld, slurmd"
)]
fn real_slurm_reboots_through_bedplate() {
    let mut cluster = Cluster::new(1);
    let job = cluster.submit(&[], "echo busy; sleep 600");
    cluster.wait("job", || cluster.read("job") == "busy\n");
    cluster.say(NOT_READY);
    cluster.wait("drained", || cluster.is_drained(REASON));
    let reboot = ["reboot", "ASAP", "nextstate=resume", "gpu01"];
    cluster.slurm("scontrol", &reboot).expect("it is requested");
    cluster.say(READY);
    // Resuming the node would cancel the reboot.
    cluster.wait_for_health();
    assert!(cluster.node().0.contains("REBOOT_REQUESTED"), "{:?}", cluster.node());
    assert_eq!(cluster.read("bedplate-reboot.runs"), "");
    cluster.slurm("scancel", &[&job]).expect("it is cancelled");
    let asked = "reboot schedule --in now --why requested by Slurm";
    cluster.wait("reboot", || cluster.read("asked").lines().any(|line| line == asked));
    assert!(cluster.node().0.contains("REBOOT_ISSUED"), "{:?}", cluster.node());
    cluster.boot();
    cluster.wait("in service", || cluster.is_in_service());
}
