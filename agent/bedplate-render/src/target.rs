//! The type of a render target.

use bedplate_core::image_config::ImageConfig;

use super::{Options, RenderError, RenderResult};

type Render = fn(&ImageConfig, &Options) -> Result<RenderResult, RenderError>;

/// Takes the files of other programs.
pub struct Target {
    /// Name, as on the command line.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Every path that this target ever writes. `*` is any name, `{role}` the role.
    paths: &'static [&'static str],
    /// Whether its files differ by the family of distributions ([`Options::grub_family`]).
    pub differs_by_family: bool,
    /// Whether it is about VFs alone.
    pub is_for_vfs: bool,
    /// Writes the files. What cannot be said in them must be in [`RenderResult::inexpressible`].
    pub render: Render,
}

impl Target {
    /// A target for every family of distributions and for whole profiles. `paths`: every path that it ever writes; `*` is any name,
    /// `{role}` the role.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        paths: &'static [&'static str],
        render: Render,
    ) -> Self {
        Target { name, about, paths, differs_by_family: false, is_for_vfs: false, render }
    }

    /// Its files differ by the family.
    pub(crate) const fn by_family(self) -> Self {
        Target { differs_by_family: true, ..self }
    }

    /// It is about VFs alone.
    pub(crate) const fn for_vfs(self) -> Self {
        Target { is_for_vfs: true, ..self }
    }

    /// Every path below the output directory that this target ever writes, whatever the profile. `*` in a last component is
    /// any name.
    pub fn paths(&self, options: &Options) -> Vec<String> {
        self.paths.iter().map(|path| path.replace("{role}", &options.role)).collect()
    }
}

/// Paths that several targets write into one image: of none of them alone are they left over.
pub const SHARED: [&str; 2] =
    ["etc/bedplate/profile.toml", "etc/systemd/system/multi-user.target.d/50-bedplate.conf"];
