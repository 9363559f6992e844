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
    /// What messages call it.
    pub fn path(&self) -> String {
        format!("shipped:{}.toml", self.name)
    }
}

/// One row a file in `profiles/`.
macro_rules! table {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../../../profiles/", $name, ".toml")) }),*]
    };
}

static SHIPPED: &[Shipped] = table![
    "hgx-h100",
    "b200",
    "mi300x",
    "grace",
    "generic-intel",
    "generic-amd",
    "generic-arm",
    "vfio"
];

/// All shipped profiles, in the order they are listed to people.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}
