use super::svg;
use crate::demo::HostSpec;
use crate::engine::observe;
use crate::facts::names::Names;
use crate::facts::{Depth, placement};
use crate::report::topology::{Options, Shown};

fn drawn(description: &str) -> String {
    let host = HostSpec::from_toml(description).unwrap().build();
    let facts = observe(&host, Depth::Thorough);
    let tree = facts.pci.known().unwrap();
    let placement = placement::observe(&host, tree);
    let names = Names::new(&host, &facts);
    svg(&Shown::new(&facts, tree, &placement, &names, Options::default()))
}

fn has(picture: &str, wanted: &[&str]) {
    for text in wanted {
        assert!(picture.contains(text), "{text} is not in\n{picture}");
    }
}

#[test]
fn links_that_are_not_at_their_best_are_marked_and_counted() {
    let picture = drawn(
        "machine = \"hgx\"\nacs = false\n\
         [[pci]]\nat = \"0000:18:00.0\"\nlink-now = [5, 8]\n\
         [[pci]]\nat = \"0000:19:00.0\"\nlink-now = [3, 16]\n\
         [[pci]]\nat = \"0000:1a:00.0\"\nlink-now = [1, 16]\n",
    );
    has(
        &picture,
        &[
            "2 links degraded; 1 link slower at a GPU that may be idle; 4 links not to be read<",
            ">x8 of x16<",
            ">8 of 32 GT/s<",
            ">2.5 of 32 GT/s<",
            "speed: 8 GT/s of 32 GT/s",
            "degraded: slower or narrower",
            "\"wire pix degraded\"",
            "\"wire pix idle\"",
        ],
    );
    assert!(!picture.contains(" redirected by"), "{picture}");
    has(&drawn("machine = \"epyc-l40s\""), &["no link is degraded, and none redirected by ACS"]);
}

#[test]
fn what_acs_does_is_marked() {
    has(
        &drawn("machine = \"hgx\""),
        &["16 links redirected by ACS", ">RR CR<", "ACS of port 0000:17:00.0: SV RR CR UF"],
    );
    let guests = drawn("machine = \"hgx\"\nvfio = [\"0000:18:00.0\"]\n");
    has(
        &guests,
        &[
            "15 links redirected by ACS; 1 link redirected for guests",
            ">guest<",
            "as a guest below needs it",
        ],
    );
    let unread = drawn("machine = \"hgx\"\nunprivileged = true\n");
    has(&unread, &["28 links below a port whose ACS is not known", ">ACS ?<"]);
    assert!(!unread.contains("none redirected"), "{unread}");
}

#[test]
fn texts_of_hosts_are_texts() {
    let evil = "<script>&\"'\u{202e}x";
    let mut host = HostSpec::from_toml("machine = \"hgx\"").unwrap();
    let at = "/sys/class/dmi/id/product_name";
    host.files.insert(at.into(), format!("{evil}\n"));
    let text = {
        let host = host.build();
        let facts = observe(&host, Depth::Thorough);
        let tree = facts.pci.known().unwrap();
        let placement = placement::observe(&host, tree);
        let names = Names::none(&facts);
        svg(&Shown::new(&facts, tree, &placement, &names, Options::default()))
    };
    has(&text, &["&lt;script&gt;&amp;&quot;&#39;\\u{202e}x"]);
    assert!(!text.contains("<script"), "{text}");
}

#[test]
fn nodes_without_a_number_and_a_host_without_devices_have_a_picture() {
    let flat = "machine = \"bare\"\n[[pci]]\nat = \"0000:00:05.0\"\nis = \"gpu\"\nnuma = -1\n";
    has(&drawn(flat), &["NUMA node not named", "CPUs not known", "GPU0"]);
    let none = drawn("machine = \"bare\"\n[[pci]]\nat = \"0000:00:05.0\"\nis = \"other\"\n");
    assert!(roxmltree::Document::parse(&none).is_ok(), "{none}");
}

#[test]
fn every_box_of_a_page_leads_to_what_was_read_of_it() {
    let host = HostSpec::from_toml("machine = \"gb300\"").unwrap().build();
    let facts = observe(&host, Depth::Thorough);
    let tree = facts.pci.known().unwrap();
    let placement = placement::observe(&host, tree);
    let names = Names::new(&host, &facts);
    let shown = Shown::new(&facts, tree, &placement, &names, Options::default());
    let page = crate::report::topology::html(&shown);
    let targets: Vec<&str> =
        page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(targets.len() > 40, "{targets:?}");
    for target in targets {
        assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
    }
    has(
        &page,
        &["Content-Security-Policy", "by its Data Direct function mlx5_1_dma", "IOMMU group: "],
    );
}
