//! Target `ignition`: kernel arguments, files and the unit as an Ignition configuration.

use serde::Serialize;
use serde_json::{Map, Value, json};

use bedplate_core::image_config::ImageConfig;
use bedplate_facts::systemd_units::OWN;

use super::agent::Agent;
use super::common::{files, grub_words, kernel_arguments, removals};
use super::data_url::data_url;
use super::{Options, OutFile, RenderError, RenderResult, Target, udev};

/// The first specification with kernel arguments.
const VERSION: &str = "3.3.0";

/// One entry of `storage.files`.
#[derive(Debug, Serialize)]
pub(super) struct File {
    path: String,
    /// Ignition's JSON has no octal: 420 is 0644.
    mode: u32,
    overwrite: bool,
    contents: Contents,
}

#[derive(Debug, Serialize)]
struct Contents {
    source: String,
}

impl File {
    /// Creates the entry for a rendered file, at its path on the host.
    pub(crate) fn from_file(file: &OutFile) -> Self {
        File {
            path: format!("/{}", file.path),
            mode: file.mode,
            overwrite: true,
            contents: Contents { source: data_url(&file.text) },
        }
    }
}

/// Content shared by Ignition and Butane.
pub(super) struct Machine {
    /// Required arguments.
    pub should_exist: Vec<String>,
    /// Forbidden arguments.
    pub should_not_exist: Vec<String>,
    /// Files.
    pub files: Vec<OutFile>,
    /// The units to enable.
    pub units: &'static [&'static str],
    /// Items and notes that are not in the files; has no files.
    pub rest: RenderResult,
}

impl Machine {
    pub(crate) fn from_build(build: &ImageConfig, options: &Options) -> Result<Self, RenderError> {
        let tokens = kernel_arguments(build, options.arch)?;
        let (should_not_exist, parts) = removals(build);
        let agent = Agent::of_image(build, options);
        let units: &[&str] = if agent.profile.is_some() { &OWN } else { &[] };
        let mut notes = vec![
            "Ignition runs only at the first boot; for changes, provision the machine again or use another target".to_owned(),
        ];
        if !tokens.is_empty() {
            notes.push(
                "arguments with special characters are quoted for GRUB, which reads boot entries as script; remove \
                the quotes on hosts with another boot loader (handbook §10.1)"
                    .to_owned(),
            );
        }
        if should_not_exist.iter().any(|token| !token.contains('=')) {
            notes.push(
                "an argument given by name alone is removed only if it has no value".to_owned(),
            );
        }
        let files: Vec<OutFile> =
            files(build).chain(udev::rules(build, options)).chain(agent.profile).collect();
        if tokens.is_empty() && should_not_exist.is_empty() && files.is_empty() {
            notes.clear();
        }
        notes.extend(parts);
        notes.extend(build.notes.iter().cloned());
        let mut rest = RenderResult { notes, ..RenderResult::default() };
        rest.add(agent.rest);
        // rpm-ostree stores each text verbatim, and GRUB reads the boot entry as script (handbook §10.1).
        let should_exist = grub_words(&tokens)?;
        Ok(Machine { should_exist, should_not_exist, files, units, rest })
    }

    /// Whether there is nothing to render.
    pub(crate) fn is_empty(&self) -> bool {
        self.should_exist.is_empty() && self.should_not_exist.is_empty() && self.files.is_empty()
    }

    /// Returns required and forbidden arguments under these names, if there are any.
    pub(crate) fn arguments(&self, [to_have, not_to_have]: [&str; 2]) -> Option<Value> {
        let lists = [(to_have, &self.should_exist), (not_to_have, &self.should_not_exist)];
        let said = lists.iter().filter(|(_, list)| !list.is_empty());
        let said: Map<String, Value> =
            said.map(|(key, list)| ((*key).to_owned(), json!(list))).collect();
        (!said.is_empty()).then_some(Value::Object(said))
    }

    /// Returns `systemd.units`, if there are any.
    pub(crate) fn systemd(&self) -> Option<Value> {
        let units: Vec<Value> =
            self.units.iter().map(|name| json!({ "name": name, "enabled": true })).collect();
        (!units.is_empty()).then(|| json!({ "units": units }))
    }

    /// Returns the result with these files.
    pub(crate) fn rendered(self, files: Vec<OutFile>) -> RenderResult {
        RenderResult { files, ..self.rest }
    }
}

pub(crate) const TARGET: Target = Target::new(
    "ignition",
    "Ignition configuration (3.3) with kernel arguments, files and unit",
    &["bedplate.ign"],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let machine = Machine::from_build(build, options)?;
    if machine.is_empty() {
        return Ok(machine.rendered(Vec::new()));
    }
    let files: Vec<File> = machine.files.iter().map(File::from_file).collect();
    let mut config = json!({ "ignition": { "version": VERSION } });
    if let Some(arguments) = machine.arguments(["shouldExist", "shouldNotExist"]) {
        config["kernelArguments"] = arguments;
    }
    if !files.is_empty() {
        config["storage"] = json!({ "files": files });
    }
    if let Some(systemd) = machine.systemd() {
        config["systemd"] = systemd;
    }
    let text = format!("{config:#}\n");
    Ok(machine.rendered(vec![OutFile::new("bedplate.ign", text)]))
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{arg, build, empty_desired};
    use super::*;

    #[test]
    fn required_and_forbidden_arguments_are_rendered() {
        let mut desired = empty_desired();
        desired.cmdline.set =
            vec![arg("iommu=pt"), arg("pci=config_acs=1@0000:17:00.0;0@0000:3a:00.0")];
        desired.cmdline.absent = vec![arg("iommu=off"), arg("pci=noats")];
        let rendered = render(&build(&desired), &Options::default()).unwrap();
        let config: Value = serde_json::from_str(&rendered.files[0].text).unwrap();
        assert_eq!(
            config,
            json!({
                "ignition": { "version": "3.3.0" },
                "kernelArguments": {
                    "shouldExist": ["iommu=pt", "pci=config_acs=\"1@0000:17:00.0;0@0000:3a:00.0\""],
                    "shouldNotExist": ["iommu=off"],
                },
            })
        );
        assert!(rendered.notes.iter().any(|note| note.contains("`pci=noats`")));
    }
}
