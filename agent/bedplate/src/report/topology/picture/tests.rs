use super::svg;
use crate::report::topology::{Options, TopologyView};
use bedplate_core::engine::observe;
use bedplate_facts::names::Names;
use bedplate_facts::{Depth, placement};
use bedplate_testhosts::HostSpec;

/// Returns the output of `show` for a host.
fn shown(host: &HostSpec, show: fn(&TopologyView) -> String) -> String {
    let host = host.build();
    let facts = observe(&host, Depth::Thorough);
    let tree = facts.pci.known().unwrap();
    let placement = placement::observe(&host, tree);
    let names = Names::new(&host, &facts);
    show(&TopologyView::new(&facts, tree, &placement, &names, Options::default()))
}

fn drawn(description: &str) -> String {
    shown(&HostSpec::from_toml(description).unwrap(), svg)
}

fn has(picture: &str, wanted: &[&str]) {
    for text in wanted {
        assert!(picture.contains(text), "{text} is not in\n{picture}");
    }
}

#[test]
fn degraded_links_are_marked_and_counted() {
    let picture = drawn(
        "machine = \"hgx\"\nacs = false\n\
         [[pci]]\nat = \"0000:18:00.0\"\nlink-now = [5, 8]\n\
         [[pci]]\nat = \"0000:19:00.0\"\nlink-now = [3, 16]\n\
         [[pci]]\nat = \"0000:1a:00.0\"\nlink-now = [1, 16]\n",
    );
    has(
        &picture,
        &[
            "2 links degraded; 1 link slower at a GPU that may be idle; 4 links unreadable<",
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
    has(&drawn("machine = \"epyc-l40s\""), &["no link is degraded or redirected by ACS"]);
}

#[test]
fn acs_redirect_is_marked() {
    has(
        &drawn("machine = \"hgx\""),
        &["16 links redirected by ACS", ">RR CR<", "ACS of port 0000:17:00.0: SV RR CR UF"],
    );
    let guests = drawn("machine = \"hgx\"\nvfio = [\"0000:18:00.0\"]\n");
    has(
        &guests,
        &[
            "15 links redirected by ACS; 1 link redirected for VMs",
            ">VM<",
            "required for a VM below",
        ],
    );
    let unread = drawn("machine = \"hgx\"\nunprivileged = true\n");
    has(&unread, &["28 links below a port with unknown ACS", ">ACS ?<"]);
    assert!(!unread.contains("no link is degraded"), "{unread}");
}

#[test]
fn host_text_is_escaped() {
    let evil = "<script>&\"'\u{202e}x";
    let mut host = HostSpec::from_toml("machine = \"hgx\"").unwrap();
    let at = "/sys/class/dmi/id/product_name";
    host.files.insert(at.into(), format!("{evil}\n"));
    let text = shown(&host, svg);
    has(&text, &["&lt;script&gt;&amp;&quot;&#39;\\u{202e}x"]);
    assert!(!text.contains("<script"), "{text}");
}

#[test]
fn unnumbered_nodes_and_empty_hosts_have_a_picture() {
    let flat = "machine = \"bare\"\n[[pci]]\nat = \"0000:00:05.0\"\nis = \"gpu\"\nnuma = -1\n";
    has(&drawn(flat), &["NUMA node unknown", "CPUs unknown", "GPU0"]);
    let none = drawn("machine = \"bare\"\n[[pci]]\nat = \"0000:00:05.0\"\nis = \"other\"\n");
    assert!(roxmltree::Document::parse(&none).is_ok(), "{none}");
}

#[test]
fn every_box_links_to_its_details() {
    let host = HostSpec::from_toml("machine = \"gb300\"").unwrap();
    let page = shown(&host, crate::report::topology::html);
    let targets: Vec<&str> =
        page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(targets.len() > 40, "{targets:?}");
    for target in targets {
        assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "{target}");
    }
    has(
        &page,
        &[
            "Content-Security-Policy",
            "through its Data Direct function mlx5_1_dma",
            "IOMMU group: ",
        ],
    );
}

/// Returns a host with a GPU on each of these NUMA nodes, in these sockets.
fn divided(sockets: &[Option<u32>]) -> String {
    let mut spec = "machine = \"bare\"\n[files]\n".to_owned();
    let mut functions = String::new();
    for (node, socket) in sockets.iter().enumerate() {
        let (cpu, socket) = (4 * node, socket.map_or(-1, i64::from));
        let list = format!("/sys/devices/system/node/node{node}/cpulist");
        let package = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        spec +=
            &format!("\"{list}\" = \"{cpu}-{}\\n\"\n\"{package}\" = \"{socket}\\n\"\n", cpu + 3);
        functions += &format!(
            "[[pci]]\nat = \"0000:{node}0:01.0\"\nis = \"root-port\"\nnuma = {node}\n\
             [[pci]]\nat = \"0000:{node}1:00.0\"\nis = \"gpu\"\nunder = \"0000:{node}0:01.0\"\n"
        );
    }
    spec + &functions
}

/// Returns left, top, right and bottom edges of socket frames, nodes or their headings.
fn rects(picture: &str, class: &str) -> Vec<[i32; 4]> {
    let picture = roxmltree::Document::parse(picture).unwrap();
    let rects = picture.descendants().filter(|node| node.attribute("class") == Some(class));
    let number =
        |node: &roxmltree::Node, name| node.attribute(name).unwrap().parse::<i32>().unwrap();
    rects
        .map(|node| {
            let (x, y) = (number(&node, "x"), number(&node, "y"));
            [x, y, x + number(&node, "width"), y + number(&node, "height")]
        })
        .collect()
}

/// Counts the nodes in each frame; fails if a node is only partly inside.
fn held(picture: &str) -> Vec<usize> {
    let panels = rects(picture, "panel");
    let frames = rects(picture, "socket");
    let holds = |frame: &[i32; 4], panel: &[i32; 4]| {
        let apart = panel[2] <= frame[0]
            || frame[2] <= panel[0]
            || panel[3] <= frame[1]
            || frame[3] <= panel[1];
        let inside = frame[0] < panel[0]
            && frame[1] < panel[1]
            && panel[2] < frame[2]
            && panel[3] < frame[3];
        assert!(apart || inside, "{frame:?} {panel:?}");
        inside
    };
    frames.iter().map(|frame| panels.iter().filter(|panel| holds(frame, panel)).count()).collect()
}

#[test]
fn socket_frames_surround_known_nodes() {
    // NPS4; two sockets of two nodes each, with a node of an unknown socket; one node per socket; no known socket.
    let nps4 = drawn(&divided(&[Some(0); 4]));
    has(&nps4, &[">socket 0<", "NUMA nodes with devices: 0, 1, 2, 3"]);
    assert_eq!(held(&nps4), [4]);
    let two = drawn(&divided(&[Some(0), Some(0), Some(1), Some(1), None]));
    has(&two, &[">socket 0<", ">socket 1<", "NUMA nodes with devices: 2, 3"]);
    assert_eq!(held(&two), [2, 2]);
    assert_eq!(held(&drawn(&divided(&[Some(3), Some(36)]))), [1, 1]);
    let unknown = drawn(&divided(&[None, None]));
    assert!(held(&unknown).is_empty() && !unknown.contains(">socket "), "{unknown}");
    assert_eq!(rects(&unknown, "panel").len(), 2);
}
