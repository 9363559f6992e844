//! Tests of all job forms.

use serde_json::Value;

use super::super::common::tests::{build, desired, empty_desired};
use super::*;
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
    render(&build(desired), &Options { job, ..Options::default() }).unwrap()
}

fn documents(rendered: &RenderResult) -> Vec<Value> {
    let text = &rendered.files[0].text;
    text.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn container(object: &Value) -> &Value {
    let places = [
        "/spec/template/spec/containers/0",
        "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0",
        "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0",
    ];
    places.iter().find_map(|place| object.pointer(place)).unwrap()
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
