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

/// One row a file in `profiles/`.
macro_rules! table {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../../profiles/", $name, ".toml")) }),*]
    };
}

static SHIPPED: &[Shipped] = table![
    "hgx-a100",
    "a100-pcie",
    "hgx-h100",
    "h100-pcie",
    "l40s",
    "b200",
    "b300",
    "grace",
    "gb200",
    "gb300",
    "vera-rubin",
    "dgx-spark",
    "mi300x",
    "mi325x",
    "mi350x",
    "generic-intel",
    "generic-amd",
    "generic-arm",
    "vfio",
];

/// All shipped profiles, in the order they are listed to people.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}
