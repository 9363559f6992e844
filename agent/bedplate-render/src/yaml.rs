//! Writes documents as YAML in the usual Kubernetes style: two spaces, one item per line, no folding.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::{LitStr, ser_options, to_string_with_options};

use super::RenderError;

/// Writes a document; `name` is its name in errors.
pub(super) fn document(
    name: &'static str,
    content: &impl Serialize,
) -> Result<String, RenderError> {
    // Long arguments and data URLs stay on one line: a folded scalar hides them from grep and from review.
    let options = ser_options! { indent_step: 2, prefer_block_scalars: false };
    to_string_with_options(content, options)
        .map_err(|source| RenderError::Yaml { document: name, source: Box::new(source) })
}

/// Writes a JSON value in readable form: the name of an object first, and multi-line texts verbatim.
pub(super) fn value(name: &'static str, content: &Value) -> Result<String, RenderError> {
    let text = document(name, &Readable(content))?;
    // The library indents empty lines of a block.
    let line =
        |line: &str| if line.trim().is_empty() { "\n".to_owned() } else { format!("{line}\n") };
    Ok(text.lines().map(line).collect())
}

struct Readable<'a>(&'a Value);

impl Serialize for Readable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if is_block(text) => LitStr(text).serialize(serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Readable)),
            Value::Object(fields) => {
                let (name, rest): (Vec<_>, Vec<_>) =
                    fields.iter().partition(|(key, _)| *key == "name");
                let ordered = name.into_iter().chain(rest);
                serializer.collect_map(ordered.map(|(key, value)| (key, Readable(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

/// Whether a text has several lines, none of them with only blanks.
fn is_block(text: &str) -> bool {
    text.contains('\n') && text.lines().all(|line| line.is_empty() || !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_come_first_and_multiline_text_is_kept() {
        let content = json!([{ "a": "# x: \"y\"\n\n  - z\n", "name": "nn" }, { "b": "a\n \nb" }]);
        let text = value("test", &content).unwrap();
        assert_eq!(text, "- name: nn\n  a: |\n    # x: \"y\"\n\n      - z\n- b: \"a\\n \\nb\"\n");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), content);
    }
}
