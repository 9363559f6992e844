//! Documents as YAML, in the shape that people know from Kubernetes: two spaces, one item a line, nothing folded.

use serde::Serialize;
use serde_saphyr::{ser_options, to_string_with_options};

use super::RenderError;

/// Writes a document; `name` is what errors call it.
pub(super) fn document(
    name: &'static str,
    content: &impl Serialize,
) -> Result<String, RenderError> {
    // Long arguments and data URLs stay on one line: a folded scalar hides them from grep and from review.
    let options = ser_options! { indent_step: 2, prefer_block_scalars: false };
    to_string_with_options(content, options)
        .map_err(|source| RenderError::Yaml { document: name, source: Box::new(source) })
}
