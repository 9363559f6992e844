//! Benchmark jobs, checked against the schemas in `tests/data/schemas`, and run with fake programs that record their
//! arguments.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use bedplate_render::{Job, JobForm, Options, RenderResult, Workload};
use bedplate_tests::fixtures::{document, tool};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::consumers::{text_of, write};
use crate::schemas::{complaints_of, documents};
use crate::shipped::{Made, made_with};

fn options(form: JobForm, nodes: u16) -> Options {
    let job = Job {
        form,
        nodes,
        workload: Workload::AllGather,
        image: Some("registry.example/nccl-tests:2.17".to_owned()),
        networks: vec!["rdma/compute".to_owned()],
        ..Job::default()
    };
    Options { job, ..Options::default() }
}

/// A published schema.
struct Schema {
    text: Value,
    validator: Validator,
}

impl Schema {
    fn for_kind(kind: &str) -> Schema {
        let path = bedplate_tests::data(&format!("schemas/{kind}.json"));
        let text = document(&fs::read_to_string(path).unwrap());
        Schema { validator: jsonschema::validator_for(&text).unwrap(), text }
    }

    fn complaints(&self, object: &Value) -> Vec<String> {
        complaints_of(&self.validator, &self.text, object)
    }
}

#[test]
fn objects_match_the_published_schemas() {
    let forms = [JobForm::Job, JobForm::MpiJob, JobForm::LeaderWorkerSet];
    let mut all: Vec<Options> =
        forms.iter().flat_map(|form| [options(*form, 1), options(*form, 4)]).collect();
    for form in [JobForm::Job, JobForm::LeaderWorkerSet] {
        let mut training = options(form, 4);
        training.job.workload = Workload::Torchrun;
        training.job.openshift = true;
        all.push(training);
    }
    // With a claim of an IMEX channel.
    let claiming = all.clone().into_iter().map(|mut options| {
        options.job.compute_domain = Some(true);
        options
    });
    all.extend(claiming.collect::<Vec<_>>());
    let mut schemas = BTreeMap::new();
    for options in &all {
        for Made { what, rendered } in made_with("nccl-job", options) {
            for object in documents(&rendered.file("nccl-job.yaml").unwrap().text) {
                // Unit tests check it.
                if object["kind"] == "ComputeDomain" {
                    continue;
                }
                let kind = object["kind"].as_str().unwrap().to_lowercase();
                let schema = schemas.entry(kind).or_insert_with_key(|kind| Schema::for_kind(kind));
                assert_eq!(schema.complaints(&object), [] as [String; 0], "{what}: {object:#}");
                // The schema rejects a misspelt field.
                let mut misspelt = object.clone();
                misspelt["spec"]["completion"] = json!(1);
                assert!(!schema.complaints(&misspelt).is_empty(), "{misspelt:#}");
            }
        }
    }
    let seen: Vec<&String> = schemas.keys().collect();
    assert_eq!(seen, ["job", "leaderworkerset", "mpijob", "service"]);
}

/// Writes a program in `directory` that appends its arguments, one per line, to `NAME.said`.
fn pretend(directory: &Path, name: &str) {
    let path = directory.join(name);
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{}.said'\n", path.display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// An image, a directory and a value with shell syntax are passed on unchanged, and run nothing.
#[test]
fn batch_script_passes_its_values_on_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let touched = directory.path().join("touched");
    let evil = format!("x'; touch {0}; $(touch {0}) `touch {0}` \"\\ #", touched.display());
    let mut options = options(JobForm::Slurm, 2);
    options.job.networks.clear();
    options.job.image = Some(evil.clone());
    options.job.directory = Some(evil.clone());
    let made = made_with("nccl-job", &options);
    let rendered: &RenderResult = &made[0].rendered;
    write(rendered, directory.path());
    let script = directory.path().join("nccl-job.sbatch");
    pretend(directory.path(), "srun");
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let output = Command::new("bash").arg(&script).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(!touched.exists());
    let args = lines(&directory.path().join("srun.said"));
    let image = format!("--container-image={evil}");
    assert_eq!(args[..5], ["--mpi=pmix", "--kill-on-bad-exit=1", &image, "bash", "-c"]);
    let program = format!("{evil}/all_gather_perf");
    assert_eq!(args[6..], ["task", &program, "-b", "8", "-e", "8G", "-f", "2", "-g", "1"]);
    // The script of each task passes the rest on.
    let task =
        Command::new("bash").args(["-c", &args[5], "task", "printf", "%s|", "a b", "$c"]).output();
    assert_eq!(String::from_utf8_lossy(&task.unwrap().stdout), "a b|$c|");
}

#[test]
#[cfg_attr(not(has = "shellcheck"), ignore = "needs shellcheck")]
fn batch_scripts_are_valid_bash() {
    let shellcheck = tool("shellcheck");
    let image = Some("nvcr.io#nvidia/pytorch:25.10".to_owned());
    for (nodes, image, workload) in [
        (1, None, Workload::AllGather),
        (16, image.clone(), Workload::AllGather),
        (16, image, Workload::Torchrun),
    ] {
        let mut options = options(JobForm::Slurm, nodes);
        options.job.image = image;
        options.job.workload = workload;
        for Made { what, rendered } in made_with("nccl-job", &options) {
            let directory = tempfile::tempdir().unwrap();
            write(&rendered, directory.path());
            let script = directory.path().join("nccl-job.sbatch");
            let mut checks = [Command::new("bash"), Command::new(&shellcheck)];
            checks[0].arg("-n");
            // The task's own shell expands the text in single quotes.
            checks[1].arg("--exclude=SC2016");
            for check in &mut checks {
                let output = check.arg(&script).output().unwrap();
                assert!(output.status.success(), "{what}: {}", text_of(&output));
            }
            // Slurm reads options up to the first command.
            let text = fs::read_to_string(&script).unwrap();
            let commands = text.lines().skip_while(|line| line.starts_with('#'));
            assert!(!commands.clone().any(|line| line.starts_with("#SBATCH")), "{text}");
            assert!(text.contains(&format!("\n#SBATCH --nodes={nodes}\n")), "{text}");
        }
    }
}

/// Runs the script of pods of several nodes with fake ssh, sshd and mpirun.
#[test]
fn first_pod_waits_for_the_rest_and_calls_mpirun() {
    for (form, index, ends) in [
        (JobForm::Job, "JOB_COMPLETION_INDEX", "exec \"$@\"\n"),
        (JobForm::LeaderWorkerSet, "LWS_WORKER_INDEX", "exec sleep infinity\n"),
    ] {
        let made = made_with("nccl-job", &options(form, 2));
        let object = documents(&made[0].rendered.files[0].text).pop().unwrap();
        let places = ["/spec/template", "/spec/leaderWorkerTemplate/workerTemplate"];
        let pod = places.iter().find_map(|place| object.pointer(place)).unwrap();
        let command = &pod["spec"]["containers"][0]["command"];
        let command: Vec<&str> =
            command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        assert!(command[2].ends_with(ends), "{}", command[2]);
        for number in ["0", "1"] {
            let directory = tempfile::tempdir().unwrap();
            let own = directory.path();
            // Paths outside its home are replaced by paths in this directory.
            let script = command[2]
                .replace("~root", &own.to_string_lossy())
                .replace("/run/sshd", &own.join("run").to_string_lossy())
                .replace("/usr/sbin/sshd", "sshd")
                .replace("/etc/nccl-ssh/", &format!("{}/", own.display()));
            fs::write(own.join("ssh-privatekey"), "key\n").unwrap();
            ["ssh", "sshd", "ssh-keygen", "mpirun", "sleep"]
                .iter()
                .for_each(|name| pretend(own, name));
            let output = Command::new(command[0])
                .args(["-c", &script])
                .args(&command[3..])
                .env_clear()
                .env("PATH", format!("{}:/usr/bin:/bin", own.display()))
                .env("HOME", "/nowhere")
                .env(index, number)
                .env("NCCL_DEBUG", "INFO")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text_of(&output));
            let sshd = lines(&own.join("sshd.said"));
            assert_eq!(own.join("mpirun.said").exists(), number == "0");
            if number == "1" {
                assert_eq!(sshd, ["-D", "-e", "-p", "2222"]);
                continue;
            }
            let (first, second) = match form {
                JobForm::Job => ("nccl-all-gather-0", "nccl-all-gather-1"),
                _ => ("nccl-all-gather-0", "nccl-all-gather-0-1"),
            };
            let hosts = [first, second].map(|name| format!("{name}.nccl-all-gather"));
            assert_eq!(lines(&own.join("ssh.said")), [&hosts[0], "true", &hosts[1], "true"]);
            let hosts = format!("{}:8,{}:8", hosts[0], hosts[1]);
            let words = format!(
                "--allow-run-as-root --bind-to none -np 16 --host {hosts} -x NCCL_DEBUG -x NCCL_DEBUG_SUBSYS -x PATH \
                 all_gather_perf -b 8 -e 8G -f 2 -g 1"
            );
            assert_eq!(lines(&own.join("mpirun.said")).join(" "), words);
        }
    }
}

#[test]
#[cfg_attr(not(has = "shellcheck"), ignore = "needs shellcheck")]
fn script_of_pods_is_valid_bash() {
    let shellcheck = tool("shellcheck");
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("pods.sh");
    for form in [JobForm::Job, JobForm::LeaderWorkerSet] {
        let made = made_with("nccl-job", &options(form, 2));
        let object = documents(&made[0].rendered.files[0].text).pop().unwrap();
        let places = ["/spec/template", "/spec/leaderWorkerTemplate/workerTemplate"];
        let pod = places.iter().find_map(|place| object.pointer(place)).unwrap();
        fs::write(&script, pod["spec"]["containers"][0]["command"][2].as_str().unwrap()).unwrap();
        let output = Command::new(&shellcheck).arg("--shell=bash").arg(&script).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
    }
}

/// The batch script of a training loop starts torchrun once per node, with the node's number.
#[test]
fn batch_script_starts_torchrun_on_each_node() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(JobForm::Slurm, 2);
    options.job.networks.clear();
    options.job.workload = Workload::Torchrun;
    let made = made_with("nccl-job", &options);
    write(&made[0].rendered, directory.path());
    pretend(directory.path(), "torchrun");
    let srun = directory.path().join("srun");
    fs::write(
        &srun,
        "#!/bin/sh\nwhile [ \"$1\" != bash ]; do shift; done\nSLURM_NODEID=1 exec \"$@\"\n",
    )
    .unwrap();
    let scontrol = directory.path().join("scontrol");
    fs::write(
        &scontrol,
        "#!/bin/sh\n[ \"$*\" = 'show hostnames n[1-2]' ] && printf 'n1\\nn2\\n'\n",
    )
    .unwrap();
    for path in [&srun, &scontrol] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = directory.path().join("nccl-job.sbatch");
    let text = fs::read_to_string(&script).unwrap();
    assert!(text.contains("\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n"), "{text}");
    let output = Command::new("bash")
        .arg(&script)
        .env("PATH", format!("{}:/usr/bin:/bin", directory.path().display()))
        .env("SLURM_JOB_NODELIST", "n[1-2]")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let said = fs::read_to_string(directory.path().join("torchrun.said")).unwrap();
    let words = "--node_rank=1 --master_addr=n1 --nnodes=2 --nproc_per_node=8 --master_port=29500 --no_python python3 -c";
    assert!(said.starts_with(&format!("{}\n", words.replace(' ', "\n"))), "{said}");
    assert!(said.ends_with("\nmain()\n\n"), "{said}");
}

/// The training loop is a program that Python accepts.
#[test]
#[cfg_attr(not(has = "python3"), ignore = "needs python3")]
fn training_loop_is_valid_python() {
    let mut options = options(JobForm::Job, 1);
    options.job.workload = Workload::Torchrun;
    let made = made_with("nccl-job", &options);
    let object = documents(&made[0].rendered.files[0].text).pop().unwrap();
    let command = &object["spec"]["template"]["spec"]["containers"][0]["command"];
    let program = command.as_array().unwrap().last().unwrap().as_str().unwrap();
    let check = "import ast, sys; ast.parse(sys.argv[1])";
    let output = Command::new(tool("python3")).args(["-c", check, program]).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
}
