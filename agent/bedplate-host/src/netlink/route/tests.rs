//! Tests with bytes in the layout of net/ipv4/fib_semantics.c (fib_dump_info) and net/ipv6/route.c (rt6_fill_node).

use super::super::attribute;
use super::*;

fn route(family: u8, prefix: u8, kind: u8, rest: &[Vec<u8>]) -> Vec<u8> {
    let head = vec![family, prefix, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0];
    [head, rest.concat()].concat()
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

fn next_hop(interface: u32) -> Vec<u8> {
    let gateway = attribute(5, &[192, 168, 0, 1]);
    let length = u16::try_from(RTNEXTHOP + gateway.len()).unwrap();
    [&length.to_ne_bytes()[..], &[0, 0], &interface.to_ne_bytes(), &gateway].concat()
}

#[test]
fn all_next_hops_of_default_route_are_returned() {
    let both = attribute(RTA_MULTIPATH, &[next_hop(3), next_hop(7)].concat());
    for family in [AF_INET, AF_INET6] {
        let table = number(RTA_TABLE, 254);
        assert_eq!(
            hops(&route(family, 0, 1, &[table.clone(), both.clone()])),
            Ok(vec![3, 7]),
            "{family}"
        );
        assert_eq!(
            hops(&route(family, 0, 1, &[table.clone(), number(RTA_OIF, 9)])),
            Ok(vec![9]),
            "{family}"
        );
        // In compatibility mode, the kernel reports both.
        let object = number(RTA_NH_ID, 5);
        assert_eq!(hops(&route(family, 0, 1, &[object, both.clone()])), Ok(vec![3, 7]), "{family}");
    }
}

#[test]
fn other_routes_are_ignored() {
    let one = number(RTA_OIF, 9);
    for (what, body) in [
        ("a network", route(AF_INET, 24, 1, std::slice::from_ref(&one))),
        ("unreachable", route(AF_INET6, 0, 7, std::slice::from_ref(&one))),
        ("another table", route(AF_INET, 0, 1, &[number(RTA_TABLE, 100), one.clone()])),
        ("MPLS", route(28, 0, 1, std::slice::from_ref(&one))),
    ] {
        assert_eq!(hops(&body), Ok(vec![]), "{what}");
    }
}

#[test]
fn route_without_interfaces_is_rejected() {
    let refusal = hops(&route(AF_INET, 0, 1, &[number(RTA_NH_ID, 5)])).unwrap_err();
    assert!(refusal.words.unwrap().contains("next-hop object 5"));
    assert_eq!(hops(&[2, 0, 0]), Err(Refusal::garbled()));
    assert_eq!(of_multipath(&next_hop(3)[..6]), Ok(vec![]));
    // A length of 0 must not cause an endless loop.
    assert_eq!(of_multipath(&[0; 16]), Ok(vec![0, 0]));
}

/// Queries the running kernel: its answers must be parseable.
#[test]
fn running_kernel_answers_are_parsed() {
    assert!(defaults().is_ok());
}

/// A missing interface says nothing about the routes: they must be read again, or be unknown.
#[test]
fn removed_interface_causes_new_query() {
    let gone = || Refusal { errno: Errno::ENODEV, words: None };
    let asked = std::cell::Cell::new(0);
    let numbers = || {
        asked.set(asked.get() + 1);
        Ok(BTreeSet::from([if asked.get() == 1 { 7 } else { 8 }]))
    };
    let name = |number| if number == 8 { Ok("eth8".to_owned()) } else { Err(gone()) };
    assert_eq!(named(numbers, name), Ok(BTreeSet::from(["eth8".to_owned()])));
    let never = named(|| Ok(BTreeSet::from([7])), name).unwrap_err();
    assert_ne!(never.errno, Errno::ENODEV, "it would be taken for a host without the answer");
}
