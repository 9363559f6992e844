//! The profiles that come with bedplate, as texts inside the program.

/// A shipped profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Its name: what `extends` and `--profile` take.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl Shipped {
    /// Name in messages.
    pub fn path(&self) -> String {
        format!("shipped:{}.toml", self.name)
    }
}

/// One row a file in `profiles/`, made by `build.rs`.
static SHIPPED: &[Shipped] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// All shipped profiles, by name.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}
