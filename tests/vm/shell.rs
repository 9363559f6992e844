//! A shell on a virtual GPU node.
fn main() {}
