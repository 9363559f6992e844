//! The type of a render target.

use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::limits::target::LimitTarget;

use super::{Options, RenderError, RenderResult};

type Render = fn(&ImageConfig, &Options) -> Result<RenderResult, RenderError>;

/// A file format of other tools.
pub struct Target {
    /// Name, as on the command line.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Every path that this target may write. `*` is any name, `{role}` the role, `{service}` each service with limits.
    paths: &'static [&'static str],
    /// Whether its files differ by the family of distributions ([`Options::grub_family`]).
    pub differs_by_family: bool,
    /// Whether it renders only VFs.
    pub is_for_vfs: bool,
    /// Renders the files. Settings that are not in them must be in [`RenderResult::inexpressible`].
    pub render: Render,
}

impl Target {
    /// Creates a target for every family of distributions and for whole profiles. `paths` lists every path that it may
    /// write; `*` is any name, `{role}` the role, `{service}` each service with limits.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        paths: &'static [&'static str],
        render: Render,
    ) -> Self {
        Target { name, about, paths, differs_by_family: false, is_for_vfs: false, render }
    }

    /// Marks its files as different by family.
    pub(crate) const fn by_family(self) -> Self {
        Target { differs_by_family: true, ..self }
    }

    /// Restricts it to VFs.
    pub(crate) const fn for_vfs(self) -> Self {
        Target { is_for_vfs: true, ..self }
    }

    /// Returns every path below the output directory that this target may write for any profile. `*` in a last
    /// component is any name.
    pub fn paths(&self, options: &Options) -> Vec<String> {
        let of_services = |path: &str| -> Vec<String> {
            match path.contains("{service}") {
                true => {
                    LimitTarget::services().map(|name| path.replace("{service}", name)).collect()
                }
                false => vec![path.replace("{role}", &options.role)],
            }
        };
        self.paths.iter().flat_map(|path| of_services(path)).collect()
    }
}

/// Paths that several targets write into one image, so that no single target may remove them as leftovers.
pub const SHARED: [&str; 2] =
    ["etc/bedplate/profile.toml", "etc/systemd/system/multi-user.target.d/50-bedplate.conf"];
