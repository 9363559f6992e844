//! Pictures and pages as rendered by Debian's headless Chromium. Each test starts it once.

mod chromium;
mod look;

use std::path::{Path, PathBuf};

use bedplate_testhosts as demo;
use bedplate_tests::program;
use serde_json::Value;

use chromium::Browser;
use look::{flaws, measure, pages, strays, ways_out};

/// Window size of a page, about that of a small laptop.
const WINDOW: (u32, u32) = (1500, 900);
/// Window sizes of a report: a laptop and a phone.
const REPORT_WINDOWS: [(u32, u32); 2] = [(1400, 900), (390, 844)];
/// A4, landscape, in points.
const A4: (u32, u32) = (842, 595);

/// Saves a screenshot for inspection if `BEDPLATE_SHOTS=DIR` is set.
fn keep(browser: &mut Browser, name: &str) {
    if let Some(directory) = std::env::var_os("BEDPLATE_SHOTS") {
        let file = Path::new(&directory).join(format!("{name}.png"));
        std::fs::write(file, browser.shot()).expect("a directory for screenshots");
    }
}

/// Writes the program's output to a file. Returns the file and the text.
fn written(directory: &Path, name: &str, args: &[&str]) -> (PathBuf, String) {
    let text = program::stdout(args);
    let file = directory.join(name);
    std::fs::write(&file, &text).expect("ours");
    (file, text)
}

/// Checks the light and dark schemes: no flaws, and different backgrounds.
fn schemes(browser: &mut Browser, name: &str, width: u32) {
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        // The window shows the whole page, so that the background of every text can be measured.
        let tall = measure(browser).tall;
        browser.window((width, tall as u32));
        let measured = measure(browser);
        let flaws = flaws(&measured);
        assert!(flaws.is_empty(), "{name}, {scheme}:\n{}", flaws.join("\n"));
        assert!(measured.texts.len() > 20, "{name}: {} texts", measured.texts.len());
        papers.push(measured.paper);
        keep(browser, &format!("{name}-{scheme}"));
    }
    assert_ne!(papers[0], papers[1], "{name}");
    browser.prefer("light");
}

/// Checks that a click on a box leads to the facts read about it, and that pointing at it or at a link shows them.
fn shows_what_was_read(browser: &mut Browser, name: &str, box_class: &str) {
    let middle = |browser: &mut Browser, selector: &str| {
        let script = format!(
            "(() => {{ const at = document.querySelector('{selector}'); at.scrollIntoView({{ block: 'center' }}); \
             const box = at.getBoundingClientRect(); return [box.left + box.width / 2, box.top + 6]; }})()"
        );
        let place = browser.evaluate(&script);
        (place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"))
    };
    let title = |browser: &mut Browser, (x, y): (f64, f64)| {
        let script = format!(
            "document.elementFromPoint({x}, {y}).closest('a, g').querySelector('title').textContent"
        );
        browser.evaluate(&script).as_str().unwrap_or_default().to_owned()
    };
    let stroke = format!("getComputedStyle(document.querySelector('svg .{box_class}')).stroke");
    let place = middle(browser, &format!("svg .{box_class}"));
    let before = browser.evaluate(&stroke);
    browser.mouse(place, false);
    assert_ne!(browser.evaluate(&stroke), before, "{name}: pointing at a box does not show");
    let read = title(browser, place);
    for what in ["driver: ", "link: ", "NUMA node: ", "NIC to use: "] {
        assert!(read.contains(what), "{name}: {what} is not in {read}");
    }
    browser.mouse(place, true);
    let target = browser.evaluate("document.querySelector(':target')?.textContent");
    assert_eq!(target, Value::from(read), "{name}: what a click leads to");
    let seen = browser.evaluate(
        "(() => { const box = document.querySelector(':target').getBoundingClientRect(); \
         return box.top >= 0 && box.bottom <= innerHeight; })()",
    );
    assert_eq!(seen, Value::from(true), "{name}: it is in the window");
    let place = middle(browser, "svg .hit");
    let wire = title(browser, (place.0, place.1 - 6.0));
    assert!(wire.contains("speed: ") && wire.contains("ACS of port"), "{name}: {wire}");
}

#[test]
#[cfg_attr(not(has = "chromium"), ignore = "needs chromium")]
fn topologies_are_drawn_without_flaws() {
    let mut browser = Browser::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut large = 0;
    // No demo has four NUMA nodes in one socket.
    let divided = directory.path().join("nps4.bp").display().to_string();
    let spec = include_str!("../../data/topology/nps4-one-socket/host.toml");
    let spec = demo::HostSpec::from_toml(spec).expect("a description");
    std::fs::write(&divided, spec.build().to_text()).expect("ours");
    let demos = demo::names().map(|name| (name, ["--demo", name]));
    for (name, host) in demos.chain([("nps4", ["--snapshot", divided.as_str()])]) {
        let html = format!("{name}.html");
        let (file, text) =
            written(directory.path(), &html, &[&["topology", "--html"], &host[..]].concat());
        assert_eq!(ways_out(&text), Vec::<String>::new(), "{name}");
        assert!(text.contains("Content-Security-Policy"), "{name}");
        browser.open(&file, WINDOW);
        schemes(&mut browser, name, WINDOW.0);
        browser.window(WINDOW);
        if text.contains("GPU7") {
            large += 1;
            shows_what_was_read(&mut browser, name, "gpu");
        }
        let (count, sizes) = pages(&browser.print());
        assert_eq!((count, sizes.as_slice()), (1, &[A4][..]), "{name}: printed");
        assert_eq!(strays(&mut browser, &file), Vec::<String>::new(), "{name}");
        // The picture as a separate file.
        let (file, text) = written(
            directory.path(),
            &format!("{name}.svg"),
            &[&["topology", "--svg"], &host[..]].concat(),
        );
        assert_eq!(ways_out(&text), Vec::<String>::new(), "{name}");
        browser.open(&file, WINDOW);
        let measured = measure(&mut browser);
        assert!(measured.texts.len() > 10, "{name}: {} texts", measured.texts.len());
        assert_eq!(strays(&mut browser, &file), Vec::<String>::new(), "{name}");
    }
    assert!(large >= 5, "{large} demo hosts of 8 GPUs");
}

#[test]
#[cfg_attr(not(has = "chromium"), ignore = "needs chromium")]
fn reports_are_laid_out_without_flaws() {
    let mut browser = Browser::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let profile = directory.path().join("with-profile.bp");
    let mut host = demo::snapshot("hgx").expect("a demo");
    let text = b"schema = 1\nname = \"site\"\nextends = \"hgx-h100\"\n".to_vec();
    host.insert("/etc/bedplate/profile.toml", bedplate_host::snapshot::Node::File(text));
    host.complete();
    std::fs::write(&profile, host.to_text()).expect("ours");
    let profile = profile.display().to_string();
    let hosts = [
        ("hgx", ["--demo", "hgx"]),
        ("mi300x", ["--demo", "mi300x"]),
        ("gb300", ["--demo", "gb300"]),
        ("with-profile", ["--snapshot", &profile]),
    ];
    for (name, host) in hosts {
        let args = [&["report", "-o", "-"][..], &host].concat();
        let (file, text) = written(directory.path(), &format!("{name}.html"), &args);
        assert_eq!(ways_out(&text), Vec::<String>::new(), "{name}");
        assert!(text.contains("Content-Security-Policy"), "{name}");
        for window in REPORT_WINDOWS {
            let name = format!("report-{name}-{}", window.0);
            browser.open(&file, window);
            keep(&mut browser, &name);
            let folded = measure(&mut browser);
            let flaws = flaws(&folded);
            assert!(flaws.is_empty(), "{name}:\n{}", flaws.join("\n"));
            browser.evaluate(
                "document.querySelectorAll('details').forEach((fold) => { fold.open = true; })",
            );
            let unfolded = measure(&mut browser);
            assert!(unfolded.texts.len() > folded.texts.len(), "{name}: nothing is folded");
            schemes(&mut browser, &format!("{name}-unfolded"), window.0);
        }
        browser.open(&file, WINDOW);
        let (count, sizes) = pages(&browser.print());
        assert!((2..=20).contains(&count), "{name}: {count} sheets");
        assert!(sizes.iter().all(|size| *size == A4), "{name}: {sizes:?}");
        assert_eq!(strays(&mut browser, &file), Vec::<String>::new(), "{name}");
        let shows_diff = text.contains("<summary>Diff</summary>") && text.contains("+0000:");
        assert_eq!(shows_diff, name == "with-profile", "{name}");
    }
}

/// Script that describes the structure of a report. An element is named by tag and classes.
const STRUCTURE: &str = include_str!("structure.js");

/// A report starts with banner, tiles, picture and cards, and folds what needs no action.
#[test]
#[cfg_attr(not(has = "chromium"), ignore = "needs chromium")]
fn reports_have_banner_tiles_cards_and_folds() {
    let mut browser = Browser::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in demo::names() {
        let args = ["report", "-o", "-", "--demo", name];
        let (file, _) = written(directory.path(), &format!("{name}.html"), &args);
        browser.open(&file, REPORT_WINDOWS[0]);
        let page = browser.evaluate(STRUCTURE);
        let text = |key: &str| page[key].as_str().unwrap_or_default().to_owned();
        let list = |key: &str| -> Vec<String> {
            let list = page[key].as_array().expect(key).iter();
            list.map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
        };
        let number = |key: &str| page[key].as_u64().expect(key);
        assert_eq!(list("order"), ["banner", "tiles", "picture", "cards", "folds"], "{name}");
        assert!(["READY", "NOT READY", "UNKNOWN"].contains(&text("state").as_str()), "{name}");
        assert!(!text("host").is_empty(), "{name}");
        assert_eq!(list("facts"), ["Recorded", "Profile"], "{name}");
        assert_eq!(list("tiles"), ["GPUs", "NICs", "IOMMU", "ACS", "Firmware", "Reboot"], "{name}");
        assert!(number("cards") > 0, "{name}");
        assert_eq!(number("cards"), number("fixes"), "{name}: cards without a fix");
        assert_eq!(number("cards"), number("links"), "{name}: links of the banner to cards");
        assert!(number("longest") <= 5, "{name}: lines of evidence");
        assert!(list("open").is_empty(), "{name}: {:?} start unfolded", list("open"));
        let folds = list("folds");
        for title in ["Passed", "Not applicable"] {
            assert!(folds.iter().any(|fold| fold.starts_with(title)), "{name}: {folds:?}");
        }
        assert_eq!(text("backticks"), "", "{name}: code in backticks");
    }
}

/// Each flaw that these tests look for is found in a page that has it.
#[test]
#[cfg_attr(not(has = "chromium"), ignore = "needs chromium")]
fn flaws_of_a_page_are_found() {
    let mut browser = Browser::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("wrong.html");
    let lines = "<p>line</p>".repeat(200);
    let page = format!(
        "<!DOCTYPE html><style>svg {{ width: 400px }} text {{ font-size: 11px }}</style>\
         <svg viewBox='0 0 400 100'><rect class='paper' width='400' height='100' fill='#fff'/>\
         <g><rect x='10' y='10' width='20' height='20' fill='#fff'/><text x='12' y='22'>out of its box</text></g>\
         <text x='20' y='24'>over it</text><text x='390' y='80'>out of the picture</text>\
         <text x='10' y='90' fill='#eee'>pale</text></svg>\
         <div style='width: 3000px'>wide</div><img src='http://127.0.0.1:9/x.png'>{lines}<script>1</script>"
    );
    std::fs::write(&file, &page).expect("ours");
    browser.open(&file, WINDOW);
    let found = flaws(&measure(&mut browser)).join("\n");
    for flaw in [
        "pixels wide in a window of 1500",
        "1 scripts",
        "leaves its box",
        "leaves the picture",
        "overlap",
        "\"pale\" has a contrast of",
    ] {
        assert!(found.contains(flaw), "{flaw} is not in\n{found}");
    }
    let strays = strays(&mut browser, &file).join("\n");
    assert!(strays.contains("http://127.0.0.1:9/x.png"), "{strays}");
    assert!(pages(&browser.print()).0 > 1, "it takes several sheets");
    let out = ways_out(&page).join("\n");
    assert!(["://127", "<script", " src='http"].iter().all(|what| out.contains(what)), "{out}");
}
