//! `render --check`: compares a directory with the rendered files.

use std::path::Path;

use super::super::{CliError, Context as _};
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_base::unified_diff;
use bedplate_host::DirReader;
use bedplate_host::Reader as _;
use bedplate_render::{OutFile, RenderResult};

/// Returns the differences as a unified diff, with modes in git's format. Covers rendered files, and leftovers: files
/// of bedplate at one of the target's `paths` that are no longer rendered. Ignores the rest of the directory.
pub(super) fn differences(
    dir: &Path,
    paths: &[String],
    rendered: &RenderResult,
) -> Result<String, CliError> {
    Directory::read(dir, |directory| directory.all(paths, rendered))
}

/// Files in the output directory of a rendering.
pub(super) struct OldFiles {
    /// Files in the place of rendered ones that bedplate did not render and whose content differs.
    pub foreign: Vec<String>,
    /// Files that bedplate rendered for this target earlier and that are no longer rendered.
    pub stale: Vec<String>,
}

/// Inspects an output directory that may not exist yet.
pub(super) fn found(
    dir: &Path,
    paths: &[String],
    rendered: &RenderResult,
) -> Result<OldFiles, CliError> {
    if !dir.is_dir() {
        return Ok(OldFiles { foreign: Vec::new(), stale: Vec::new() });
    }
    Directory::read(dir, |directory| directory.found(paths, rendered))
}

struct Directory<'a> {
    reader: DirReader,
    dir: &'a Path,
}

impl<'a> Directory<'a> {
    /// Runs `look` on the directory. As for writing, links in it must not lead outside.
    fn read<T>(
        dir: &'a Path,
        look: impl FnOnce(&Self) -> Result<T, ReadError>,
    ) -> Result<T, CliError> {
        let cannot = format!("cannot read {}", dir.display());
        let reader = DirReader::image(dir).context(&cannot)?;
        look(&Directory { reader, dir }).context(cannot)
    }

    fn all(&self, paths: &[String], rendered: &RenderResult) -> Result<String, ReadError> {
        let mut all = String::new();
        for file in &rendered.files {
            all.push_str(&self.of_file(file)?);
        }
        for path in self.existing_paths(paths)? {
            if rendered.file(&path).is_none() && !bedplate_render::SHARED.contains(&path.as_str()) {
                all.push_str(&self.left_over(&path)?);
            }
        }
        Ok(all)
    }

    fn found(&self, paths: &[String], rendered: &RenderResult) -> Result<OldFiles, ReadError> {
        let mut found = OldFiles { foreign: Vec::new(), stale: Vec::new() };
        for file in &rendered.files {
            let is_foreign = self.content(&file.path)?.is_some_and(|bytes| {
                let text = String::from_utf8_lossy(&bytes);
                bytes != file.text.as_bytes() && !bedplate_render::is_ours(&file.path, &text)
            });
            if is_foreign && !(file.path.starts_with("schematic.") && self.is_own_schematic()) {
                found.foreign.push(file.path.clone());
            }
        }
        for path in self.existing_paths(paths)? {
            let may_be_stale =
                rendered.file(&path).is_none() && !bedplate_render::SHARED.contains(&path.as_str());
            if may_be_stale && !self.left_over(&path)?.is_empty() {
                found.stale.push(path);
            }
        }
        Ok(found)
    }

    fn of_file(&self, file: &OutFile) -> Result<String, ReadError> {
        let shown = self.display_path(&file.path);
        let Some(found) = self.content(&file.path)? else {
            return Ok(unified_diff("", &file.text, "/dev/null", &format!("{shown} (rendered)")));
        };
        let mut all = self.of_mode(file, &shown)?;
        if found != file.text.as_bytes() {
            let old = String::from_utf8_lossy(&found);
            let diff = unified_diff(&old, &file.text, &shown, &format!("{shown} (rendered)"));
            all.push_str(&diff);
            // Invalid UTF-8 may differ although its replacement characters are equal.
            if diff.is_empty() {
                all.push_str(&format!("{shown} is not text and differs\n"));
            }
        }
        Ok(all)
    }

    /// Compares only whether the owner may execute the file: git and a umask do not retain more of a mode.
    fn of_mode(&self, file: &OutFile, shown: &str) -> Result<String, ReadError> {
        let found = self.reader.is_executable(&format!("/{}", file.path))?;
        let wanted = file.mode & 0o100 != 0;
        let mode = |executable| if executable { "100755" } else { "100644" };
        Ok(match found == wanted {
            true => String::new(),
            false => {
                format!("{shown}\nold mode {}\nnew mode {}\n", mode(found), mode(wanted))
            }
        })
    }

    fn left_over(&self, path: &str) -> Result<String, ReadError> {
        let Some(found) = self.content(path)? else { return Ok(String::new()) };
        let text = String::from_utf8_lossy(&found);
        Ok(match bedplate_render::is_ours(path, &text) {
            true => unified_diff(&text, "", &self.display_path(path), "/dev/null"),
            false => String::new(),
        })
    }

    /// Expands a `*` in the paths to existing files.
    fn existing_paths(&self, paths: &[String]) -> Result<Vec<String>, ReadError> {
        let mut all = Vec::new();
        for path in paths {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            let Some((before, after)) = name.split_once('*') else {
                all.push(path.clone());
                continue;
            };
            let Some(names) = self.reader.list(&format!("/{directory}")).optional()? else {
                continue;
            };
            let fits = |name: &&String| name.starts_with(before) && name.ends_with(after);
            all.extend(names.iter().filter(fits).map(|name| format!("{directory}/{name}")));
        }
        Ok(all)
    }

    fn is_own_schematic(&self) -> bool {
        let text = |path| {
            let bytes = self.content(path).ok()??;
            String::from_utf8(bytes).ok()
        };
        match (text("schematic.yaml"), text("schematic.id")) {
            (Some(schematic), Some(id)) => bedplate_render::is_with_its_id(&schematic, &id),
            _ => false,
        }
    }

    fn content(&self, path: &str) -> Result<Option<Vec<u8>>, ReadError> {
        self.reader.read(&format!("/{path}")).optional()
    }

    fn display_path(&self, path: &str) -> String {
        self.dir.join(path).display().to_string()
    }
}
