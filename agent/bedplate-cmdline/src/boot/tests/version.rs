//! Version orders.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use super::super::version::{rpm_file_order, rpm_order, uapi_order};

fn check(order: fn(&str, &str) -> Ordering, cases: &[(&str, Ordering, &str)]) {
    for (left, expected, right) in cases {
        assert_eq!(order(left, right), *expected, "{left} against {right}");
        assert_eq!(order(right, left), expected.reverse(), "{right} against {left}");
    }
}

#[test]
fn rpm() {
    check(
        rpm_order,
        &[
            ("1.0", Equal, "1.0"),
            ("1.0", Less, "2.0"),
            ("2.0.1", Greater, "2.0"),
            ("5.14.0", Greater, "5.9.0"),
            ("5.05", Equal, "5.5"),
            ("1.0~rc1", Less, "1.0"),
            ("1.0~rc1", Less, "1.0~rc2"),
            ("1a", Less, "1.1"),
            ("a", Less, "1"),
            ("1_0", Equal, "1.0"),
            ("10000000000000000000001", Greater, "9"),
        ],
    );
}

#[test]
fn rpm_files() {
    let machine = "0123456789abcdef0123456789abcdef";
    let name = |rest: &str| format!("{machine}-{rest}");
    let newer = name("5.14.0-503.11.1.el9_5.x86_64");
    let older = name("5.14.0-362.24.1.el9_3.x86_64");
    let rescue = name("0-rescue");
    check(
        rpm_file_order,
        &[
            (&newer, Greater, &older),
            (&rescue, Less, &older),
            ("kernel", Less, "kernel-1"),
            (&newer, Equal, &newer),
        ],
    );
}

#[test]
fn uapi() {
    // The examples of the specification, oldest first.
    let order = [
        "122.1",
        "123~rc1-1",
        "123",
        "123-a",
        "123-a.1",
        "123-1",
        "123-1.1",
        "123^post1",
        "123.a-1",
        "123.1-1",
        "123a-1",
        "124-1",
    ];
    for (at, older) in order.iter().enumerate() {
        for newer in &order[at + 1..] {
            assert_eq!(uapi_order(older, newer), Less, "{older} against {newer}");
            assert_eq!(uapi_order(newer, older), Greater, "{newer} against {older}");
        }
    }
    check(
        uapi_order,
        &[
            ("", Equal, ""),
            ("B", Less, "a"),
            ("abc", Less, "abcd"),
            ("6.8.0", Greater, "6.8"),
            ("6.10.0", Greater, "6.9.0"),
            ("00123", Equal, "123"),
            ("1_2", Equal, "1+2"),
        ],
    );
}
