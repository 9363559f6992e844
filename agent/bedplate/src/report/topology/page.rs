//! `bedplate topology --html`: the picture, the matrix, the pairs with reasons, and details of every box, linked from
//! the picture. Pure.

use super::labels::{self, Heads};
use super::{Options, TopologyView, matrix, notes, picture, remarks};
use crate::report::markup::Markup;
use crate::report::page;
use bedplate_facts::topology::Distance;
use bedplate_facts::topology::devices::Device;

/// Generates the page.
pub(crate) fn html(shown: &TopologyView) -> String {
    let title = format!("PCIe topology of {}", shown.facts.label());
    let mut page = page::open(&title);
    page.element("h1", &[], &title);
    let details = draw(shown, &mut page);
    tables(shown, details, &mut page);
    page.finish()
}

/// Id and lines of the details of a box.
pub(in crate::report) type BoxDetails = (String, Vec<String>);

/// Adds the picture, and returns the details that its boxes link to. In a narrow window the picture scrolls.
pub(in crate::report) fn draw(shown: &TopologyView, page: &mut Markup) -> Vec<BoxDetails> {
    page.open("div", &[("class", &"picture")]);
    let details = picture::draw_with_links(shown, page);
    page.close();
    details
}

/// Adds distances, pairs and the details of the picture's boxes.
pub(in crate::report) fn tables(shown: &TopologyView, details: Vec<BoxDetails>, page: &mut Markup) {
    let rows = shown.rows(Options::default());
    if rows.is_empty() {
        page.element("p", &[("class", &"wrong")], super::NOTHING);
        return;
    }
    if let Some(dead) = super::dead(shown) {
        page.element("p", &[("class", &"wrong")], &dead);
    }
    let heads = matrix::heads(shown);
    page.element("h2", &[], "Distances");
    table(shown, &rows, &heads, page);
    page.open("pre", &[("class", &"dim screen")]);
    page.lines(notes(shown, &rows).iter().map(String::as_str));
    page.close();
    pairs(shown, page);
    page.open("section", &[("class", &"screen")]);
    page.element("h2", &[], "Details");
    page.open("div", &[("class", &"cards")]);
    for (id, lines) in details {
        page.open("pre", &[("id", &id)]);
        page.lines(lines.iter().map(String::as_str));
        page.close();
    }
    page.close();
    page.close();
}

fn table(shown: &TopologyView, rows: &[&Device], heads: &Heads, page: &mut Markup) {
    let columns = matrix::columns(shown, rows, heads);
    let mut head = vec![""];
    head.extend(columns.iter().map(|column| column.head.as_str()));
    let near = [labels::cell(Distance::Pix), labels::cell(Distance::Pxb)];
    let far = [labels::cell(Distance::Sys), "X"];
    let body = rows.iter().enumerate().map(|(nth, row)| {
        let cells = columns.iter().filter_map(|column| column.cells.get(nth));
        let cells = cells.map(|cell| match cell.as_ref() {
            cell if near.contains(&cell) => ("near", cell.to_owned()),
            cell if far.contains(&cell) => ("far", cell.to_owned()),
            cell => ("", cell.to_owned()),
        });
        [("", heads(row))].into_iter().chain(cells).collect()
    });
    page.open("div", &[("class", &"wide")]);
    page::table(page, &head, body);
    page.close();
}

fn pairs(shown: &TopologyView, page: &mut Markup) {
    page.open("div", &[("class", &"side")]);
    for (title, what) in super::LISTS {
        let rows = super::paired(shown, what);
        page.open("section", &[]);
        page.element("h2", &[], title);
        match rows.is_empty() {
            true => page.element("p", &[], &format!("None: no {} on this host.", what.0)),
            false => {
                let rows =
                    rows.into_iter().map(|row| row.into_iter().map(|cell| ("", cell)).collect());
                page::table(page, &["GPU", what.0, "distance", "why"], rows);
            }
        }
        if what == labels::NIC {
            remarks(shown)
                .iter()
                .for_each(|remark| page.element("p", &[("class", &"dim")], remark));
        }
        page.close();
    }
    page.close();
}
