//! Bedplate's own profile and units, for images where files cannot hold every setting.

use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::modules;
use bedplate_facts::systemd_units::{OWN, OWN_DROP_IN};

use super::common::{heading, live_only};
use super::{Deferred, Inexpressible, Options, OutFile, RenderResult, vf_rules};

const PROFILE: &str = "etc/bedplate/profile.toml";

/// Returns shell lines that enable [`OWN`] if bedplate is installed, and print a message if not. `root` precedes every
/// path, `otherwise` ends the lines.
pub(super) fn enable(root: &str, options: &str, otherwise: &str) -> String {
    let units = OWN.join(" ");
    format!(
        "if [ -e {root}/usr/lib/systemd/system/{} ]; then systemctl {options}enable {units}; \
         else echo 'bedplate is not installed: settings deferred to it are not applied' >&2; {otherwise}fi",
        OWN[1]
    )
}

/// Makes an image build fail: a missing part would go unnoticed later.
pub(super) const FAIL: &str = "exit 1; ";

const NOTE: &str = "install bedplate in the image: on the machine, it applies the deferred settings from \
                    /etc/bedplate/profile.toml (units bedplate-boot and bedplate)";

/// Bedplate's part of an image.
#[derive(Debug, Default)]
pub(super) struct Agent {
    /// The profile; `None` if nothing is deferred to bedplate.
    pub profile: Option<OutFile>,
    /// Items deferred to bedplate; without a profile they are not expressible. No files.
    pub rest: RenderResult,
}

impl Agent {
    /// Defers `left` to bedplate.
    pub(crate) fn with_rest(
        build: &ImageConfig,
        options: &Options,
        left: Vec<Inexpressible>,
    ) -> Self {
        let Some(text) = options.profile_text.as_ref().filter(|_| !left.is_empty()) else {
            let rest = RenderResult { inexpressible: left, ..RenderResult::default() };
            return Agent { profile: None, rest };
        };
        let text = format!("{}{text}", heading(build, "# "));
        let deferred =
            left.into_iter().map(|Inexpressible { id, what, why, .. }| Deferred { id, what, why });
        let rest = RenderResult {
            deferred: deferred.collect(),
            notes: vec![NOTE.to_owned()],
            ..RenderResult::default()
        };
        Agent { profile: Some(OutFile::new(PROFILE, text)), rest }
    }

    /// Returns the profile, and a drop-in that starts the units where no tool enables them.
    pub(crate) fn files(&self, build: &ImageConfig) -> Vec<OutFile> {
        let wants = self.profile.as_ref().map(|_| {
            let text = format!("{}[Unit]\nWants={}\n", heading(build, "# "), OWN.join(" "));
            // Replaces the links of `systemctl enable`; missing units are harmless.
            OutFile::new(OWN_DROP_IN.trim_start_matches('/'), text)
        });
        self.profile.iter().cloned().chain(wants).collect()
    }
}

/// Returns the settings of all resource types that need the machine, without VFs.
pub(super) fn of_machine(build: &ImageConfig) -> impl Iterator<Item = Inexpressible> {
    vf_rules::vf_attributes(build, "run `bedplate apply` at every boot of the host")
        .into_iter()
        .chain(undecided_registration(build))
        .chain(live_only(build, |live| &live.with_agent))
}

/// Returns the GPU memory registration, if only the machine can decide it.
pub(super) fn undecided_registration(build: &ImageConfig) -> Option<Inexpressible> {
    let open = build.gpudirect.is_some_and(|asked| !asked.is_decided);
    open.then(|| Inexpressible {
        id: format!("{}/gpudirect", modules::NAME),
        what: "GPUDirect memory registration (`gpudirect = \"auto\"`)".to_owned(),
        why: "DMA-BUF or nvidia_peermem: depends on the machine's driver and kernel".to_owned(),
        instead: "set `gpudirect = \"dmabuf\"` or `\"peermem\"` in [modules], or run bedplate on the host".to_owned(),
    })
}
