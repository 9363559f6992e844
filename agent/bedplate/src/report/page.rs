//! Standalone HTML pages. Their policy prevents loading and running anything, whatever text the page contains. Pure.

use super::markup::Markup;

/// Rules of every page: colors by the reader's preference, light when printed.
const STYLE: &str = include_str!("page.css");
/// Forbids external content and scripts (Content Security Policy, level 2).
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Starts a page with a title; the caller adds its sections.
pub(crate) fn open(title: &str) -> Markup {
    let mut page = Markup::page();
    page.open("html", &[("lang", &"en")]);
    page.open("head", &[]);
    page.empty("meta", &[("charset", &"utf-8")]);
    page.empty("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &POLICY)]);
    page.empty("meta", &[("name", &"viewport"), ("content", &"width=device-width")]);
    page.element("title", &[], title);
    page.style(STYLE);
    page.close();
    page.open("body", &[]);
    page.open("main", &[]);
    page
}

/// Adds a table. Each cell has a class and a text.
pub(crate) fn table<'t>(
    page: &mut Markup,
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<(&'t str, String)>>,
) {
    page.open("table", &[]);
    if !head.is_empty() {
        page.open("thead", &[]);
        page.open("tr", &[]);
        head.iter().for_each(|cell| page.element("th", &[("scope", &"col")], cell));
        page.close();
        page.close();
    }
    page.open("tbody", &[]);
    for row in rows {
        page.open("tr", &[]);
        for (nth, (class, cell)) in row.into_iter().enumerate() {
            let name = if nth == 0 { "th" } else { "td" };
            match (nth, class) {
                (0, _) => page.element(name, &[("scope", &"row")], &cell),
                (_, "") => page.element(name, &[], &cell),
                _ => page.element(name, &[("class", &class)], &cell),
            }
        }
        page.close();
    }
    page.close();
    page.close();
}
