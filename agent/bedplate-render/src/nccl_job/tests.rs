//! Tests of all job forms.

use serde_json::{Value, json};

use super::super::common::tests::{build, desired, empty_desired, with_profile};
use super::*;
use bedplate_base::Arch;
use bedplate_core::desired::{Desired, VfDriver};
use bedplate_nccl::env::Setting;

const FORMS: [JobForm; 4] =
    [JobForm::Job, JobForm::MpiJob, JobForm::LeaderWorkerSet, JobForm::Slurm];

fn job(form: JobForm) -> Job {
    let hca = Setting { name: "NCCL_IB_HCA", value: "=mlx5_0:1".to_owned(), why: String::new() };
    Job {
        form,
        nodes: 2,
        image: Some("registry.example/x".to_owned()),
        env: Some(vec![hca]),
        ..Job::default()
    }
}

fn rendered(desired: &Desired, job: Job) -> RenderResult {
    of(&build(desired), job)
}

fn of(build: &ImageConfig, job: Job) -> RenderResult {
    render(build, &Options { job, ..Options::default() }).unwrap()
}

fn documents(rendered: &RenderResult) -> Vec<Value> {
    let text = &rendered.files[0].text;
    text.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// Returns the specification of a job's pods.
fn pod(object: &Value) -> &Value {
    let places = [
        "/spec/template/spec",
        "/spec/mpiReplicaSpecs/Worker/template/spec",
        "/spec/leaderWorkerTemplate/workerTemplate/spec",
    ];
    places.iter().find_map(|place| object.pointer(place)).unwrap()
}

fn container(object: &Value) -> &Value {
    &pod(object)["containers"][0]
}

/// Returns the comment lines after the heading.
fn hints(rendered: &RenderResult) -> Vec<&str> {
    let lines = rendered.files[0].text.lines().skip(1);
    lines.map_while(|line| line.strip_prefix("# ")).collect()
}

#[test]
fn pods_get_gpus_vfs_shared_memory_and_capability() {
    for form in &FORMS[..3] {
        let rendered = rendered(&desired(), job(*form));
        let documents = documents(&rendered);
        let container = container(documents.last().unwrap());
        for of in ["limits", "requests"] {
            let asked = &container["resources"][of];
            assert_eq!(asked["nvidia.com/gpu"], 8, "{form:?}");
            assert_eq!(asked["nvidia.com/compute"], 1, "{form:?}");
        }
        assert_eq!(container["securityContext"]["capabilities"]["add"][0], "IPC_LOCK");
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/dev/shm");
        let text = &rendered.files[0].text;
        assert!(text.contains("medium: Memory\n") && text.contains("sizeLimit: 8Gi\n"), "{text}");
        // A pod with VFs has other RDMA device names than its host.
        assert!(!text.contains("mlx5_0"), "{form:?}");
        assert!(rendered.inexpressible.is_empty(), "{:?}", rendered.inexpressible);
    }
}

#[test]
fn requested_resources_replace_vfs_of_profile() {
    for form in FORMS {
        let mut job = job(form);
        job.rdma = vec![("rdma/hca_shared_devices_a".to_owned(), 2)];
        let rendered = rendered(&desired(), job);
        let text = &rendered.files[0].text;
        assert!(!text.contains("compute"), "{text}");
        assert!(text.contains("=mlx5_0:1"), "{form:?}");
        let slurm = form == JobForm::Slurm;
        assert_eq!(text.contains("rdma/hca_shared_devices_a: 2"), !slurm, "{form:?}");
        assert_eq!(rendered.inexpressible.len(), usize::from(slurm));
    }
}

#[test]
fn missing_rdma_vfs_are_reported() {
    let lacks = |desired: &Desired| {
        let left = rendered(desired, job(JobForm::Job)).inexpressible;
        left.iter().map(|item| item.what.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lacks(&empty_desired()), ["RDMA devices in the pods"]);
    let mut vfio = desired();
    vfio.sriov[0].rule.vf_driver = VfDriver::Named("vfio-pci".to_owned());
    let what = "VFs of rule compute with driver vfio-pci";
    assert_eq!(lacks(&vfio), [what, "RDMA devices in the pods"]);
}

#[test]
fn invalid_job_options_are_rejected() {
    let refused = |job: Job| {
        let options = Options { job, ..Options::default() };
        render(&build(&desired()), &options).unwrap_err().to_string()
    };
    for form in &FORMS[..3] {
        assert!(refused(Job { image: None, ..job(*form) }).contains("--image"));
    }
    assert!(refused(Job { host_network: true, ..job(JobForm::MpiJob) }).contains("port 22"));
    assert!(refused(Job { host_network: true, ..job(JobForm::Job) }).contains("--rdma-resource"));
    rendered(&desired(), Job { image: None, ..job(JobForm::Slurm) });
}

/// Values with special characters of a shell, YAML or Slurm stay values.
#[test]
fn values_are_quoted_for_their_reader() {
    let evil = "x'y\" $(touch /tmp/z)`id`\n#SBATCH --wrap=id\n- {a: b}: #";
    for form in FORMS {
        let mut job = job(form);
        job.rdma = vec![("rdma/a".to_owned(), 1)];
        job.image = Some(evil.to_owned());
        job.directory = Some(evil.to_owned());
        job.env.as_mut().unwrap()[0].value = evil.to_owned();
        let rendered = rendered(&empty_desired(), job);
        if form == JobForm::Slurm {
            let text = &rendered.files[0].text;
            let quoted = evil.replace('\'', r"'\''");
            assert!(text.contains(&format!("export NCCL_IB_HCA='{quoted}'\n")), "{text}");
            assert!(text.contains(&format!("'--container-image={quoted}'")), "{text}");
            assert!(text.contains(&format!("'{quoted}/all_reduce_perf'")), "{text}");
            continue;
        }
        let documents = documents(&rendered);
        let container = container(documents.last().unwrap());
        assert_eq!(container["image"], evil, "{form:?}");
        assert_eq!(container["env"][2]["value"], evil, "{form:?}");
    }
}

#[test]
fn pods_tolerate_taints_of_gpu_nodes() {
    let build = build(&desired());
    for form in &FORMS[..3] {
        for (arch, keys) in [
            (Arch::X86_64, vec!["nvidia.com/gpu", "pool"]),
            (Arch::Aarch64, vec!["nvidia.com/gpu", "kubernetes.io/arch", "pool"]),
        ] {
            let job = Job { tolerations: vec!["pool".to_owned()], ..job(*form) };
            let options = Options { arch, job, ..Options::default() };
            let documents = documents(&render(&build, &options).unwrap());
            let expected: Value =
                keys.iter().map(|key| json!({ "key": key, "operator": "Exists" })).collect();
            assert_eq!(pod(documents.last().unwrap())["tolerations"], expected, "{form:?}");
        }
    }
}

#[test]
fn cufile_keys_of_profile_reach_the_job() {
    let profile = "[cufile]\nset = { \"properties.use_pci_p2pdma\" = true }\n";
    let with = with_profile(profile, &desired());
    for form in &FORMS[..3] {
        let documents = documents(&of(&with, job(*form)));
        let config = documents.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let text = config["data"]["cufile.json"].as_str().unwrap();
        assert!(text.contains("use_pci_p2pdma"), "{text}");
        let name = &config["metadata"]["name"];
        let pod = pod(documents.last().unwrap());
        let volume = json!({ "name": "cufile", "configMap": { "name": name } });
        assert!(pod["volumes"].as_array().unwrap().contains(&volume), "{pod:#}");
        let of_cufile = |item: &&Value| item["name"] == "cufile" || item["name"] == CUFILE;
        let container = &pod["containers"][0];
        let find = |key: &str| container[key].as_array().unwrap().iter().find(of_cufile).unwrap();
        let directory = find("volumeMounts")["mountPath"].as_str().unwrap();
        assert_eq!(find("env")["value"], format!("{directory}/cufile.json"));
        let without = of(&build(&desired()), job(*form));
        assert!(!without.files[0].text.contains("cufile.json"));
    }
    let text = &of(&with, job(JobForm::Slurm)).files[0].text;
    assert!(text.contains("export CUFILE_ENV_PATH_JSON='/etc/cufile.json'\n"), "{text}");
    assert!(text.contains("--container-mounts=/etc/cufile.json:/etc/cufile.json:ro"), "{text}");
}

#[test]
fn hints_name_what_roce_in_pods_lacks() {
    let text = |build: &ImageConfig, job: Job| hints(&of(build, job)).join("\n");
    let names = ["NCCL_IB_TC", "NCCL_IB_GID_INDEX", "k8s.v1.cni.cncf.io/networks"];
    let vfs = text(&build(&desired()), job(JobForm::Job));
    assert!(names.iter().all(|name| vfs.contains(name)), "{vfs}");
    let tc = with_profile("[nccl]\nset = { NCCL_IB_TC = \"106\" }\n", &desired());
    let networks = vec!["rdma/compute".to_owned()];
    let decided = text(&tc, Job { networks, ..job(JobForm::Job) });
    assert!(!decided.contains(names[0]) && !decided.contains(names[2]), "{decided}");
    assert!(of(&tc, job(JobForm::Job)).files[0].text.contains("name: NCCL_IB_TC\n"));
    // Without RDMA devices there is no RoCE.
    assert_eq!(text(&build(&empty_desired()), job(JobForm::Job)), "");
}

#[test]
fn pods_of_rack_trays_claim_imex_channel() {
    let rack = |form| Job { is_rack: Some(true), ..job(form) };
    for form in &FORMS[..3] {
        let documents = documents(&rendered(&desired(), rack(*form)));
        let domain = &documents[0];
        assert_eq!(domain["kind"], "ComputeDomain");
        assert_eq!(domain["spec"]["numNodes"], 2);
        let template = &domain["spec"]["channel"]["resourceClaimTemplate"]["name"];
        let pod = pod(documents.last().unwrap());
        let claims = json!([{ "name": "imex-channel", "resourceClaimTemplateName": template }]);
        assert_eq!(pod["resourceClaims"], claims, "{form:?}");
        let used = json!([{ "name": "imex-channel" }]);
        assert_eq!(pod["containers"][0]["resources"]["claims"], used);
        let near =
            "/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/topologyKey";
        assert_eq!(pod.pointer(near).unwrap(), "nvidia.com/gpu.clique");
    }
    // More trays than a rack has cannot be in one.
    let many = documents(&rendered(&desired(), Job { nodes: 19, ..rack(JobForm::Job) }));
    assert!(pod(many.last().unwrap())["affinity"].get("podAffinity").is_none());
}

#[test]
fn jobs_without_channel_say_that_mnnvl_is_not_measured() {
    let hint = |arch, job| {
        let rendered =
            render(&build(&desired()), &Options { arch, job, ..Options::default() }).unwrap();
        assert!(!rendered.files[0].text.contains("ComputeDomain\n"));
        let in_file = hints(&rendered).iter().any(|hint| hint.starts_with("MNNVL"));
        assert_eq!(rendered.notes.iter().any(|note| note.starts_with("MNNVL")), in_file);
        in_file
    };
    let job = job(JobForm::Job);
    let never = Job { compute_domain: Some(false), ..job.clone() };
    assert!(hint(Arch::Aarch64, Job { is_rack: Some(true), ..never.clone() }));
    assert!(hint(Arch::Aarch64, job.clone()));
    assert!(!hint(Arch::Aarch64, Job { is_rack: Some(false), ..job.clone() }));
    assert!(!hint(Arch::Aarch64, Job { is_rack: Some(true), nodes: 1, ..job.clone() }));
    assert!(!hint(Arch::X86_64, never));
    let always = Job { compute_domain: Some(true), ..job };
    assert_eq!(documents(&rendered(&desired(), always))[0]["kind"], "ComputeDomain");
}

#[test]
fn openshift_constraints_allow_ipc_lock_only() {
    let training = Job { openshift: true, workload: Workload::Torchrun, ..job(JobForm::Job) };
    let rendered = rendered(&desired(), training);
    let scc = rendered.file(openshift::PATH).unwrap();
    let objects: Vec<Value> =
        scc.text.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["SecurityContextConstraints", "ServiceAccount", "Role", "RoleBinding"]);
    assert_eq!(objects[0]["allowedCapabilities"], json!(["IPC_LOCK"]));
    assert_eq!(objects[0]["requiredDropCapabilities"], json!(["ALL"]));
    let allowed =
        objects[0].as_object().unwrap().iter().filter(|(_, value)| **value == json!(true));
    assert_eq!(allowed.count(), 0);
    assert_eq!(objects[2]["rules"][0]["resourceNames"][0], objects[0]["metadata"]["name"]);
    assert_eq!(objects[3]["subjects"][0]["name"], objects[1]["metadata"]["name"]);
    let documents = documents(&rendered);
    let pod = pod(documents.last().unwrap());
    assert_eq!(pod["serviceAccountName"], objects[1]["metadata"]["name"]);
    let security = &pod["containers"][0]["securityContext"];
    assert_eq!(security["capabilities"], json!({ "add": ["IPC_LOCK"], "drop": ["ALL"] }));
    // Every volume is of a kind that the constraints allow.
    let kinds = objects[0]["volumes"].as_array().unwrap();
    for volume in pod["volumes"].as_array().unwrap() {
        let is_allowed = |kind: &Value| volume.get(kind.as_str().unwrap()).is_some();
        assert!(kinds.iter().any(is_allowed), "{volume}");
    }
    for form in &FORMS[..3] {
        let job = Job { openshift: true, ..job(*form) };
        let options = Options { job, ..Options::default() };
        let error = render(&build(&desired()), &options).unwrap_err().to_string();
        assert!(error.contains("sshd"), "{error}");
    }
}

#[test]
fn torchrun_gets_rank_and_first_node_of_each_form() {
    let training = |form, nodes| Job { workload: Workload::Torchrun, nodes, ..job(form) };
    let words = |job: Job| {
        let documents = documents(&rendered(&desired(), job));
        assert!(!documents.iter().any(|object| object.to_string().contains("ssh")));
        let command = container(documents.last().unwrap())["command"].clone();
        let words = command.as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let job = words(training(JobForm::Job, 2));
    let expected = "torchrun --node_rank=$(JOB_COMPLETION_INDEX) --master_addr=nccl-torchrun-0.nccl-torchrun --nnodes=2 \
        --nproc_per_node=8 --master_port=29500 --no_python python3 -c";
    assert_eq!(job[..job.len() - 1].join(" "), expected);
    let lws = words(training(JobForm::LeaderWorkerSet, 2));
    let own = ["--node_rank=$(LWS_WORKER_INDEX)", "--master_addr=$(LWS_LEADER_ADDRESS)"];
    assert!(own.iter().all(|word| lws.iter().any(|own| own == word)), "{lws:?}");
    let alone = words(training(JobForm::Job, 1));
    assert_eq!(alone[..3], ["torchrun", "--standalone", "--nproc_per_node=8"]);
    let options = Options { job: training(JobForm::MpiJob, 2), ..Options::default() };
    assert!(render(&build(&desired()), &options).is_err());
}

#[test]
fn warnings_about_the_host_are_in_the_file() {
    for form in [JobForm::Job, JobForm::Slurm] {
        let notes = vec!["port mlx5_1/1:\nunknown".to_owned()];
        let rendered = rendered(&empty_desired(), Job { notes, ..job(form) });
        let warning = rendered.files[0].text.lines().find(|line| line.starts_with("# warning: "));
        assert!(warning.is_some_and(|line| line.contains("mlx5_1/1") && line.contains("unknown")));
    }
}
