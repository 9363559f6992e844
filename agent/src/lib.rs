//! bedplate
