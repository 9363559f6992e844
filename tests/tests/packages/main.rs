//! What bedplate is handed out as: the packed crate.

mod packed_crate;
