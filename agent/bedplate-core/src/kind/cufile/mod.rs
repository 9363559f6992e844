//! Configuration of GPUDirect Storage's library: the profile's keys in /etc/cufile.json. Everything else in the file stays,
//! including comments. Sources: handbook §6.4.

mod document;
mod file;
mod owned_keys;
pub mod section;
mod splice;

use super::{
    Context, Kind, OwnFile, Privacy, RecordMode, Watch, WriteScope, no_labels, nothing_to_resolve,
};
use crate::desired::Desired;
use crate::file_heading::HEADING;
use crate::image_config::{ConfigFile, ContributeError, ImageConfig};
use crate::plan::{KindId, KindPlan};
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use bedplate_facts::cufile::PATH;
use document::Document;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "keys of /etc/cufile.json, for GPUDirect Storage",
    resolve: nothing_to_resolve,
    plan,
    contribute,
    watch,
    recorded: &[(PATH, RecordMode::Whole)],
    owns: WriteScope { files: &[PATH], ..WriteScope::NONE },
    files: &[OwnFile::part(PATH, HEADING)],
    privacy: Privacy { bare_values: true, quotes_files: true },
    labels: no_labels,
};

const NAME: KindId = KindId::Cufile;

fn plan(context: &Context) -> KindPlan {
    let mut out = KindPlan::default();
    file::plan(context, &context.profile.cufile.set, &mut out);
    out
}

fn watch(profile: &Profile, _: &Facts) -> Watch {
    match profile.cufile.set.is_empty() {
        true => Watch::default(),
        false => Watch::directories(&["/etc"]),
    }
}

/// Contributes a file of these keys alone, because the image's own file is unknown.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let wanted = &profile.cufile.set;
    if wanted.is_empty() {
        return Ok(());
    }
    let mut document = Document::new(&profile.name);
    for setting in wanted {
        document
            .set(&setting.key, &splice::source(&setting.value))
            .map_err(|error| ContributeError::new("cufile.json", error))?;
    }
    let text = document.text().to_owned();
    out.files.push(ConfigFile { path: PATH, text, settings: Vec::new() });
    out.notes.push(format!(
        "{PATH} replaces the image's file and contains only the profile's keys. Does the image's file have more? Run \
         `bedplate apply --root` on the image instead"
    ));
    Ok(())
}
