//! bedplate
fn main() {}
