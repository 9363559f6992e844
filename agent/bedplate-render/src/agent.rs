//! The profile and the units of bedplate, for images whose files cannot hold every setting.

use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::modules;
use bedplate_facts::systemd_units::{OWN, OWN_DROP_IN};

use super::common::{heading, live_only};
use super::{Deferred, Inexpressible, Options, OutFile, RenderResult, vf_rules};

const PROFILE: &str = "etc/bedplate/profile.toml";

/// Enables [`OWN`] where bedplate is installed, and says so where it is not: lines of a shell, `root` before every path,
/// `otherwise` at their end.
pub(super) fn enable(root: &str, options: &str, otherwise: &str) -> String {
    let units = OWN.join(" ");
    format!(
        "if [ -e {root}/usr/lib/systemd/system/{} ]; then systemctl {options}enable {units}; \
         else echo 'bedplate is not installed here: settings that the profile leaves to it stay undone' >&2; {otherwise}fi",
        OWN[1]
    )
}

/// Ends an image build: nobody would notice later what is missing.
pub(super) const FAIL: &str = "exit 1; ";

const NOTE: &str = "bedplate has to be installed in the image: what the files do not hold it does on the machine, by the profile in \
                    /etc/bedplate/profile.toml (units bedplate-boot and bedplate)";

/// bedplate's part of an image.
#[derive(Debug, Default)]
pub(super) struct Agent {
    /// The profile; `None`: nothing is left to bedplate.
    pub profile: Option<OutFile>,
    /// Items that are left to it; without a profile they are not expressible. No files.
    pub rest: RenderResult,
}

impl Agent {
    /// Leaves `left` to it.
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

    /// The profile, and what starts the units where no tool enables them.
    pub(crate) fn files(&self, build: &ImageConfig) -> Vec<OutFile> {
        let wants = self.profile.as_ref().map(|_| {
            let text = format!("{}[Unit]\nWants={}\n", heading(build, "# "), OWN.join(" "));
            // In place of the links of `systemctl enable`; units that are not there do no harm.
            OutFile::new(OWN_DROP_IN.trim_start_matches('/'), text)
        });
        self.profile.iter().cloned().chain(wants).collect()
    }
}

/// Settings of all kinds that only the machine takes or decides, without VFs.
pub(super) fn of_machine(build: &ImageConfig) -> impl Iterator<Item = Inexpressible> {
    vf_rules::vf_attributes(build, "run `bedplate apply` at every boot of the host")
        .into_iter()
        .chain(undecided_registration(build))
        .chain(live_only(build, |live| &live.with_agent))
}

/// Which way GPU memory is registered, where the machine decides.
pub(super) fn undecided_registration(build: &ImageConfig) -> Option<Inexpressible> {
    let open = build.gpudirect.is_some_and(|asked| !asked.is_decided);
    open.then(|| Inexpressible {
        id: format!("{}/gpudirect", modules::NAME),
        what: "GPUDirect memory registration (`gpudirect = \"auto\"`)".to_owned(),
        why: "DMA-BUF or nvidia_peermem: that depends on the machine's driver and kernel".to_owned(),
        instead: "say `gpudirect = \"dmabuf\"` or `\"peermem\"` in [modules], or run bedplate on the host".to_owned(),
    })
}
