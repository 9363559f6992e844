//! Files rendered for Talos and OpenShift, checked against the schemas that those projects publish.

mod render_cases;

use bedplate_render::Options;
use bedplate_tests::fixtures::{document, find, unknown_fields};
use render_cases::{cases, render};
use serde_json::{Value, json};

const TALOS: [(&str, &str); 5] = [
    ("1.9", "talos-v1.9.6.schema.json"),
    ("1.10", "talos-v1.10.9.schema.json"),
    ("1.11", "talos-v1.11.6.schema.json"),
    ("1.12", "talos-v1.12.11.schema.json"),
    ("1.13", "talos-v1.13.9.schema.json"),
];

fn schema(name: &str) -> Value {
    let text = std::fs::read_to_string(find(&format!("schemas/{name}"))).unwrap();
    document(&text)
}

/// Returns all schema errors, for the message of a failing test.
fn complaints(schema: &Value, value: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn talos_patches_match_the_schema_of_their_release() {
    for (version, name) in TALOS {
        let schema = schema(name);
        let options = Options { talos_version: Some(version.to_owned()), ..Options::default() };
        let mut patches = 0;
        for case in cases() {
            let rendered = render("talos", &case, &options);
            let Some(file) = rendered.file("machine-patch.yaml") else { continue };
            let patch = document(&file.text);
            assert_eq!(
                complaints(&schema, &patch),
                [] as [String; 0],
                "{version} {}: {patch:#}",
                case.name
            );
            patches += 1;
        }
        assert!(patches >= 4, "{version}: only {patches} cases made a patch");
    }
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn talos_schemas_reject_a_key_of_another_release() {
    let old = json!({"machine": {"install": {"extraKernelArgs": ["iommu=pt"]}}});
    let new = json!({"machine": {"install": {"grubUseUKICmdline": true}}});
    for (version, name) in TALOS {
        let schema = schema(name);
        let takes_old = matches!(version, "1.9" | "1.10" | "1.11");
        assert_eq!(complaints(&schema, &old).is_empty(), takes_old, "{version}");
        assert_eq!(complaints(&schema, &new).is_empty(), !takes_old, "{version}");
    }
}

#[test]
fn schematics_have_the_arguments_of_the_patch() {
    let options = Options { talos_version: Some("1.11".to_owned()), ..Options::default() };
    for case in cases() {
        let rendered = render("talos", &case, &options);
        let schematic = document(&rendered.file("schematic.yaml").unwrap().text);
        let patch = rendered
            .file("machine-patch.yaml")
            .map(|file| document(&file.text))
            .unwrap_or_default();
        let in_schematic = schematic.pointer("/customization/extraKernelArgs");
        assert_eq!(
            in_schematic,
            patch.pointer("/machine/install/extraKernelArgs"),
            "{}",
            case.name
        );
    }
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn machineconfigs_match_the_crd_and_ignition() {
    let definition = schema("openshift-machineconfig.crd.yaml");
    let ignition = schema("ignition-v3_4.json");
    let resource = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    let mut objects = 0;
    for case in cases() {
        let rendered = render("machineconfig", &case, &Options::default());
        let Some(file) = rendered.files.first() else { continue };
        let object = document(&file.text);
        assert_eq!(complaints(resource, &object), [] as [String; 0], "{}: {object:#}", case.name);
        assert_eq!(unknown_fields(resource, resource, &object), [] as [String; 0], "{}", case.name);
        let config = object.pointer("/spec/config").unwrap();
        assert_eq!(complaints(&ignition, config), [] as [String; 0], "{}: {config:#}", case.name);
        assert_eq!(
            unknown_fields(&ignition, &ignition, config),
            [] as [String; 0],
            "{}",
            case.name
        );
        objects += 1;
    }
    assert!(objects >= 4, "only {objects} cases made an object");
}

#[test]
#[cfg_attr(not(has = "schemas"), ignore = "needs schemas")]
fn field_check_finds_a_misspelt_field() {
    let definition = schema("openshift-machineconfig.crd.yaml");
    let ignition = schema("ignition-v3_4.json");
    let resource = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    let object = json!({"spec": {"kernelArgs": ["x"], "config": {"anything": 1}}});
    assert_eq!(unknown_fields(resource, resource, &object), ["/spec/kernelArgs"]);
    let config =
        json!({"storage": {"files": [{"path": "/x", "perm": 420, "contents": {"src": "data:,"}}]}});
    assert_eq!(
        unknown_fields(&ignition, &ignition, &config),
        ["/storage/files/0/contents/src", "/storage/files/0/perm"]
    );
}

/// The files inside the MachineConfig equal those of other targets byte for byte.
#[test]
fn embedded_files_decode_to_the_plain_files() {
    for case in cases() {
        let rendered = render("machineconfig", &case, &Options::default());
        let plain = render("grub", &case, &Options::default());
        let embedded = rendered.files.first().map(|file| document(&file.text)).unwrap_or_default();
        let files = embedded.pointer("/spec/config/storage/files").and_then(Value::as_array);
        let expected: Vec<_> = plain
            .files
            .iter()
            .filter(|file| file.path.contains(".d/") && !file.path.contains("grub"))
            .collect();
        assert_eq!(files.map_or(0, Vec::len), expected.len(), "{}", case.name);
        for (file, expected) in files.into_iter().flatten().zip(expected) {
            assert_eq!(file["path"], format!("/{}", expected.path));
            assert_eq!(file["mode"], expected.mode);
            let source = file.pointer("/contents/source").and_then(Value::as_str).unwrap();
            assert_eq!(decode(source.strip_prefix("data:,").unwrap()), expected.text);
        }
    }
}

fn decode(percent_encoded: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = percent_encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).unwrap()
}
