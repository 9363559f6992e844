//! Enums whose variants have one name each, written once.

/// Declares an enum of which each variant has a name: the text that serde, a JSON Schema, [`std::fmt::Display`] and the
/// method `name` give. `ALL` has every variant, in order.
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
            /// Every one, in order.
            #[allow(dead_code, reason = "of few enums all are listed")]
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// As JSON, reports and profiles spell it.
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
