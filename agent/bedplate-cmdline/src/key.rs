//! The units of a command line that a profile can own, and the parser for the profile's entries.

use std::fmt;

use serde::Serialize;

use bedplate_base::Arch;

use super::lex::Token;
use super::line::CommandLine;
use super::shape::{OptionList, PASSTHROUGH, Sequence, Shape, kernel_bool, shape_of};

/// A unit of ownership. Its owner decides every occurrence on the line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// A parameter, by folded name. `iommu.passthrough` covers both of its spellings.
    Param(String),
    /// One option of a comma list: a `pci=` suboption, or a group of options that exclude each other
    /// (`on` and `off` of `intel_iommu=`).
    Option {
        /// Folded parameter name.
        param: String,
        /// The options that exclude each other, in table order.
        group: Vec<String>,
    },
    /// One item of a collection (`modprobe.blacklist=nouveau`).
    Item {
        /// Folded parameter name.
        param: String,
        /// The item, normalized for comparison.
        item: String,
    },
    /// All occurrences of parameters that are read in order (`hugepagesz=`, `hugepages=`).
    Sequence(Vec<String>),
    /// Some units of a parameter whose occurrences are read in order (one output of `video=`).
    Units {
        /// Folded parameter name.
        param: String,
        /// The units, in profile order.
        units: Vec<String>,
    },
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Param(name) => f.write_str(name),
            Key::Option { param, group } => write!(f, "{param}={}", group.join("|")),
            Key::Item { param, item } => write!(f, "{param}={item}"),
            Key::Sequence(params) => f.write_str(&params.join(", ")),
            Key::Units { param, .. } => f.write_str(param),
        }
    }
}

/// Effect of an occurrence, for comparison with the desired one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A value as the kernel sees it (`None` for a bare name), or an option as the kernel reads it.
    Text(Option<String>),
    /// A truth value.
    Bool(bool),
    /// The kernel refuses the value: it has no effect, but must be removed.
    Nothing,
}

/// Spelling in which a required argument is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// An argument of its own.
    Token(Token),
    /// An option or item within the value of a parameter.
    Within {
        /// Folded parameter name.
        param: String,
        /// The option or item.
        text: String,
    },
    /// Several arguments in this order.
    Tokens(Vec<Token>),
}

/// A required argument, option, item or sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedArgument {
    pub(super) key: Key,
    pub(super) meaning: Meaning,
    pub(super) form: Form,
    /// The profile's arguments that it was parsed from.
    pub(super) tokens: Vec<Token>,
}

impl WantedArgument {
    /// Returns the key that it owns.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the profile's arguments that it was parsed from, in the profile's order and spelling.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns the arguments that express it and nothing else.
    pub(super) fn rendered(&self) -> Vec<Token> {
        match &self.form {
            Form::Token(token) => vec![token.clone()],
            Form::Tokens(tokens) => tokens.clone(),
            // The text was cut out of a valid argument, so it fits into one.
            Form::Within { param, text } => {
                Token::from_parts(param, Some(text)).into_iter().collect()
            }
        }
    }
}

/// An argument, option or item that must not be on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnwantedArgument {
    pub(super) form: UnwantedPattern,
    /// The profile's entry.
    pub(super) token: Token,
}

/// Pattern that matches an unwanted argument, option or item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnwantedPattern {
    /// Every argument of this (folded) name.
    Name(String),
    /// An argument with this name and meaning.
    Value { name: String, meaning: Meaning },
    /// An option or item of a list.
    Within { param: String, what: ListScope },
}

/// Selects options or items of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListScope {
    /// The option or item of this name, with any value.
    Named(String),
    /// Exactly this meaning.
    Meaning(String),
}

/// Parses one argument of a profile's `set` list. Sequences are returned one argument at a time; [`super::Edit::new`]
/// joins them.
pub(super) fn wanted_of(token: &Token, arch: Arch) -> Vec<WantedArgument> {
    let name = token.folded_name();
    let value = token.value().map(|value| value.into_owned());
    let tokens = vec![token.clone()];
    let whole = |key, meaning| WantedArgument {
        key,
        meaning,
        form: Form::Token(token.clone()),
        tokens: tokens.clone(),
    };
    match (shape_of(&name, arch), value) {
        (Shape::Options(list), Some(value)) => {
            let wanted = |option: &str| {
                let (key, meaning) = option_key(list, option);
                let form = Form::Within { param: list.param.to_owned(), text: option.to_owned() };
                WantedArgument { key, meaning, form, tokens: tokens.clone() }
            };
            OptionList::options(&value).map(wanted).collect()
        }
        (Shape::Items(list), Some(value)) => {
            let wanted = |item: &&str| WantedArgument {
                key: Key::Item { param: name.clone(), item: list.meaning(item) },
                meaning: Meaning::Text(Some(list.meaning(item))),
                form: Form::Within { param: name.clone(), text: (*item).to_owned() },
                tokens: tokens.clone(),
            };
            list.items(&value).iter().map(wanted).collect()
        }
        (Shape::Sequence(sequence), _) => {
            let form = Form::Tokens(vec![token.clone()]);
            let key = sequence_key(sequence, &[], token);
            vec![WantedArgument { key, meaning: Meaning::Nothing, form, tokens }]
        }
        (Shape::Bool, value) => vec![whole(Key::Param(name), bool_meaning(value.as_deref()))],
        (_, value) => vec![whole(Key::Param(name), Meaning::Text(value))],
    }
}

/// Parses one entry of a profile's `absent` list. A bare name, also of a `pci=` suboption, matches any value.
pub(super) fn unwanted_of(token: &Token, arch: Arch) -> Vec<UnwantedArgument> {
    let name = token.folded_name();
    let one = |form| vec![UnwantedArgument { form, token: token.clone() }];
    let Some(value) = token.value() else {
        return one(UnwantedPattern::Name(name));
    };
    let within = |what| UnwantedArgument {
        form: UnwantedPattern::Within { param: name.clone(), what },
        token: token.clone(),
    };
    match shape_of(&name, arch) {
        Shape::Options(list) => OptionList::options(&value)
            .map(|option| match list.param == "pci" && !option.contains('=') {
                true => within(ListScope::Named(option.to_owned())),
                false => within(ListScope::Meaning(list.meaning(option))),
            })
            .collect(),
        Shape::Items(list) => list
            .items(&value)
            .iter()
            .map(|item| within(ListScope::Meaning(list.meaning(item))))
            .collect(),
        Shape::Bool => one(UnwantedPattern::Value { name, meaning: bool_meaning(Some(&value)) }),
        _ => one(UnwantedPattern::Value { name, meaning: Meaning::Text(Some(value.into_owned())) }),
    }
}

/// Returns the key of an option, and the option's meaning for that key.
pub(super) fn option_key(list: &OptionList, option: &str) -> (Key, Meaning) {
    let group = list.group(option);
    let meaning = list.meaning(option);
    if list.param == "iommu" && group.iter().any(|member| member == "pt") {
        return (Key::Param(PASSTHROUGH.to_owned()), Meaning::Bool(meaning == "pt"));
    }
    (Key::Option { param: list.param.to_owned(), group }, Meaning::Text(Some(meaning)))
}

/// Returns the key of a sequence member. `joined` lists the optional members that the profile sets too.
pub(super) fn sequence_key(sequence: &Sequence, joined: &[String], token: &Token) -> Key {
    if let Some(units) = sequence.units {
        let units = units.units(&token.value().unwrap_or_default());
        return Key::Units { param: token.folded_name(), units };
    }
    let core = sequence.params.iter().map(|param| (*param).to_owned());
    Key::Sequence(core.chain(joined.iter().cloned()).collect())
}

/// Returns the meaning of a truth value.
pub(super) fn bool_meaning(value: Option<&str>) -> Meaning {
    kernel_bool(value).map_or(Meaning::Nothing, Meaning::Bool)
}

/// Whether `listed` selects this option.
pub(super) fn names_option(listed: &ListScope, list: &OptionList, option: &str) -> bool {
    match listed {
        ListScope::Meaning(meaning) => list.meaning(option) == *meaning,
        ListScope::Named(name) => {
            let own = option.split_once('=').map_or(option, |(name, _)| name);
            own == name || list.meaning(option) == list.meaning(name)
        }
    }
}

impl Key {
    /// Whether an argument belongs to the sequence of this key. Always false for other keys.
    pub(super) fn is_in_sequence(&self, token: &Token) -> bool {
        match self {
            Key::Sequence(params) => params.contains(&token.folded_name()),
            Key::Units { param, units } => {
                token.folded_name() == *param
                    && unit_of(token).is_some_and(|unit| units.contains(&unit))
            }
            Key::Param(_) | Key::Option { .. } | Key::Item { .. } => false,
        }
    }

    /// Whether an argument has the parameter of this key but belongs to another unit.
    pub(super) fn is_unowned(&self, token: &Token) -> bool {
        matches!(self, Key::Units { param, .. } if token.folded_name() == *param)
            && !self.is_in_sequence(token)
    }

    /// Whether the line has exactly these arguments in this order. If the last occurrence takes effect, they must also
    /// follow all other arguments of the parameter.
    pub(super) fn is_met(&self, line: &CommandLine, wanted: &[Token], arch: Arch) -> bool {
        let own: Vec<&Token> = line.tokens().filter(|token| self.is_in_sequence(token)).collect();
        own.len() == wanted.len()
            && own.iter().zip(wanted).all(|(a, b)| a.same_for_kernel(b))
            && !self.is_overtaken(line, arch)
    }

    /// Whether an unmanaged argument is the last one, if the last one takes effect.
    pub(super) fn is_overtaken(&self, line: &CommandLine, arch: Arch) -> bool {
        let Key::Units { param, .. } = self else { return false };
        let last_counts =
            matches!(shape_of(param, arch), Shape::Sequence(sequence) if sequence.last_counts);
        last_counts
            && line.tokens().any(|token| self.is_in_sequence(token))
            && line.named(param).next_back().is_some_and(|last| self.is_unowned(last))
    }
}

/// Returns the unit of an argument, if its parameter has units.
fn unit_of(token: &Token) -> Option<String> {
    // Parameters with units have the same entries on every architecture.
    let Shape::Sequence(sequence) = shape_of(&token.folded_name(), Arch::X86_64) else {
        return None;
    };
    sequence.units?.units(&token.value().unwrap_or_default()).into_iter().next()
}
