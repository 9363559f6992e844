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
        table_head(page, head);
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

fn table_head(page: &mut Markup, head: &[&str]) {
    page.open("thead", &[]);
    page.open("tr", &[]);
    head.iter().for_each(|cell| page.element("th", &[("scope", &"col")], cell));
    page.close();
    page.close();
}

/// Starts a table whose rows become blocks of labelled cells in a narrow window. The caller adds bodies of rows with
/// [`cell`], and closes the table.
pub(super) fn open_stacked(page: &mut Markup, class: &str, head: &[&str]) {
    page.open("table", &[("class", &format_args!("stacked {class}"))]);
    table_head(page, head);
}

/// Adds a cell of a stacked table that spans `rows` rows.
pub(super) fn cell(page: &mut Markup, label: &str, rows: usize, content: impl FnOnce(&mut Markup)) {
    match rows {
        1 => page.open("td", &[("data-label", &label)]),
        _ => page.open("td", &[("data-label", &label), ("rowspan", &rows)]),
    }
    content(page);
    page.close();
}

/// Adds a stacked table of texts with code between backticks.
pub(super) fn stacked(
    page: &mut Markup,
    class: &str,
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) {
    open_stacked(page, class, head);
    for row in rows {
        page.open("tbody", &[]);
        page.open("tr", &[]);
        for (label, text) in head.iter().zip(row) {
            cell(page, label, 1, |page| page.prose(&text));
        }
        page.close();
        page.close();
    }
    page.close();
}

/// Adds content that the reader unfolds. Works without scripts; printed pages show it.
pub(super) fn fold(page: &mut Markup, summary: &str, content: impl FnOnce(&mut Markup)) {
    page.open("details", &[]);
    page.element("summary", &[], summary);
    content(page);
    page.close();
}

/// Adds a list. Lines beyond the first `most` are folded.
pub(super) fn list<T>(page: &mut Markup, lines: &[T], most: usize, line: impl Fn(&mut Markup, &T)) {
    let (shown, folded) = lines.split_at(lines.len().min(most));
    let add = |page: &mut Markup, lines: &[T]| {
        page.open("ul", &[]);
        for one in lines {
            page.open("li", &[]);
            line(page, one);
            page.close();
        }
        page.close();
    };
    if !shown.is_empty() {
        add(page, shown);
    }
    if !folded.is_empty() {
        fold(page, &format!("{} more", folded.len()), |page| add(page, folded));
    }
}
