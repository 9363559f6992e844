//! Enums whose variants have one name each, declared once.

/// Declares an enum whose variants have names: the text that serde, a JSON Schema, [`std::fmt::Display`] and the method
/// `name` use. `ALL` lists every variant in order.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident {
        $($(#[$about:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$about])* #[serde(rename = $name)] $variant,)+
        }

        impl $type {
            /// All variants, in order.
            #[allow(dead_code, reason = "of few enums all are listed")]
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in JSON, reports and profiles.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
