//! Rendered files against published schemas.

use bedplate_render::{IpamRange, Options};
use bedplate_tests::fixtures::{document, find, unknown_fields};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::shipped::{Made, made, made_with};

fn schema(name: &str) -> Value {
    document(&std::fs::read_to_string(find(&format!("schemas/{name}"))).unwrap())
}

/// Returns the schema of a custom resource's newest version.
fn resource(name: &str) -> Value {
    schema(name).pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().clone()
}

fn complaints(schema: &Value, value: &Value) -> Vec<String> {
    complaints_of(&jsonschema::validator_for(schema).unwrap(), schema, value)
}

/// Returns all schema errors of a document, including unknown fields.
pub fn complaints_of(validator: &Validator, schema: &Value, value: &Value) -> Vec<String> {
    let errors =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path()));
    errors.chain(unknown_fields(schema, schema, value)).collect()
}

fn fits(schema: &Value, value: &Value, what: &str) {
    assert_eq!(complaints(schema, value), [] as [String; 0], "{what}: {value:#}");
}

/// Drops `required` from a schema: a merge patch omits fields that the object already has.
fn of_patches(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| !(*name == "required" && value.is_array()))
            .map(|(name, value)| (name.clone(), of_patches(value)))
            .collect(),
        Value::Array(items) => items.iter().map(of_patches).collect(),
        other => other.clone(),
    }
}

/// Returns the documents of a YAML stream.
pub fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(document).collect()
}

fn checked(files: impl Iterator<Item = usize>, least: usize) {
    let files = files.sum::<usize>();
    assert!(files >= least, "only {files} documents were checked");
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn ignition_configurations_match_every_version_since_3_3() {
    let all = made("ignition");
    for minor in 3..=6 {
        let schema = schema(&format!("ignition-v3_{minor}.json"));
        let one = |made: &Made| {
            let Some(file) = made.file("bedplate.ign") else { return 0 };
            let config: Value = serde_json::from_str(&file.text).unwrap();
            fits(&schema, &config, &made.what);
            1
        };
        checked(all.iter().map(one), 30);
        let misspelt = json!({ "ignition": { "version": "3.3.0" }, "kernelArguments": { "should_exist": ["x"] } });
        assert_eq!(complaints(&schema, &misspelt), ["/kernelArguments/should_exist"]);
    }
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn sriov_operator_objects_match_their_crds() {
    let policy = resource("sriov-sriovnetworknodepolicies.yaml");
    let pool = resource("sriov-sriovnetworkpoolconfigs.yaml");
    let network = resource("sriov-sriovnetworks.yaml");
    let range = IpamRange { rule: None, cidr: "192.0.2.0/24".to_owned() };
    let options = Options { ipam_ranges: vec![range], ..Options::default() };
    let one = |made: &Made| {
        let mut seen = 0;
        for (path, schema) in [
            ("sriovnetworknodepolicies.yaml", &policy),
            ("sriovnetworkpoolconfig.yaml", &pool),
            ("sriovnetworks.yaml", &network),
        ] {
            for object in made.file(path).map(|file| documents(&file.text)).unwrap_or_default() {
                fits(schema, &object, &made.what);
                seen += 1;
            }
        }
        seen
    };
    checked(made_with("sriov-operator", &options).iter().map(one), 45);
    let misspelt = json!({ "spec": { "resourceName": "a", "vlanQos": 3 } });
    assert_eq!(complaints(&network, &misspelt), ["/spec/vlanQos"]);
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn nvidia_operator_patches_match_their_crds() {
    let targets = [
        ("gpu-operator", "clusterpolicy-patch.yaml", "nvidia-clusterpolicy.yaml"),
        ("gpu-operator", "nvidiadriver-patch.yaml", "nvidia-nvidiadriver.yaml"),
        ("network-operator", "nicclusterpolicy-patch.yaml", "mellanox-nicclusterpolicy.yaml"),
    ];
    for (target, path, definition) in targets {
        let schema = resource(definition);
        let schema = of_patches(&schema);
        let one = |made: &Made| {
            let Some(file) = made.file(path) else { return 0 };
            fits(&schema, &document(&file.text), &made.what);
            1
        };
        checked(made(target).iter().map(one), 15);
        let misspelt = json!({ "spec": { "drivers": { "rdma": true } } });
        assert_eq!(complaints(&schema, &misspelt), ["/spec/drivers"]);
    }
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn talos_documents_match_every_release() {
    let releases = [
        ("1.9", "v1.9.6"),
        ("1.10", "v1.10.9"),
        ("1.11", "v1.11.6"),
        ("1.12", "v1.12.11"),
        ("1.13", "v1.13.9"),
        ("1.14", "v1.14-rc"),
    ];
    for (minor, release) in releases {
        let schema = schema(&format!("talos-{release}.schema.json"));
        let validator = jsonschema::validator_for(&schema).unwrap();
        let options = Options { talos_version: Some(minor.to_owned()), ..Options::default() };
        let one = |made: &Made| {
            let all = made
                .file("machine-patch.yaml")
                .map(|file| documents(&file.text))
                .unwrap_or_default();
            for document in &all {
                let errors: Vec<String> =
                    validator.iter_errors(document).map(|error| error.to_string()).collect();
                assert_eq!(errors, [] as [String; 0], "{minor}: {}: {document:#}", made.what);
            }
            all.len()
        };
        checked(made_with("talos", &options).iter().map(one), 20);
        // Separate documents are new; `machine` no longer accepts their fields.
        let old = json!({ "machine": { "sysctls": { "kernel.numa_balancing": "0" } } });
        assert_eq!(validator.is_valid(&old), minor != "1.14", "{minor}");
    }
}
