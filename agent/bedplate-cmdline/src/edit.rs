//! The arguments that a profile requires or forbids, checked for consistency, and their application to a line.
//! Arguments that the profile does not own keep their place and spelling. Applying an edit twice changes nothing more.

use bedplate_base::Arch;

use super::error::{ApplyError, EditError, unwritable};
use super::key::{Form, Key, Meaning, UnwantedArgument, UnwantedPattern, WantedArgument};
use super::key::{sequence_key, unwanted_of, wanted_of};
use super::lex::Token;
use super::line::CommandLine;
use super::list::{list_positions, merge_arguments, push_part, replace_part, take_out};
use super::occurrences::{Occurrence, occurrences};
use super::shape::{OptionList, Sequence, Shape, shape_of};
use super::unwanted::{first_unwanted, remove_unwanted};

/// The arguments that a profile owns on a command line, and their desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub(super) arch: Arch,
    pub(super) set: Vec<WantedArgument>,
    pub(super) absent: Vec<UnwantedArgument>,
}

impl Edit {
    /// Creates an edit that puts these arguments on a line.
    ///
    /// # Errors
    /// [`EditError`] if an argument names no option or has an unreadable truth value, or when two contradict each
    /// other.
    pub fn new<T: AsRef<Token>>(
        arch: Arch,
        set: impl IntoIterator<Item = T>,
    ) -> Result<Edit, EditError> {
        let set: Vec<T> = set.into_iter().collect();
        let set: Vec<&Token> = set.iter().map(AsRef::as_ref).collect();
        let mut edit = Edit { arch, set: Vec::new(), absent: Vec::new() };
        for wanted in gather(&set, arch)? {
            edit.add_wanted(wanted)?;
        }
        Ok(edit)
    }

    /// Adds arguments that the edit removes. A bare name, also `pci=NAME`, matches any value.
    ///
    /// # Errors
    /// [`EditError`] if an argument names no option, or would remove one that the edit sets.
    pub fn without<T: AsRef<Token>>(
        mut self,
        absent: impl IntoIterator<Item = T>,
    ) -> Result<Edit, EditError> {
        for token in absent {
            let unwanted = unwanted_of(token.as_ref(), self.arch);
            if unwanted.is_empty() {
                return Err(EditError::NoOption { text: token.as_ref().to_string() });
            }
            self.absent.extend(unwanted);
        }
        self.check_against_absent()?;
        Ok(self)
    }

    /// Returns the required arguments, in profile order.
    pub fn wanted(&self) -> &[WantedArgument] {
        &self.set
    }

    /// Returns the unwanted arguments, in profile order.
    pub fn unwanted(&self) -> &[UnwantedArgument] {
        &self.absent
    }

    /// Returns the line in the desired state. Arguments that the profile does not own keep their place and spelling.
    ///
    /// # Errors
    /// [`ApplyError`] if the line cannot be edited safely, or the result would be too long.
    pub fn apply(&self, line: &CommandLine) -> Result<CommandLine, ApplyError> {
        line.try_map(|line| self.apply_to_one(line))
    }

    fn apply_to_one(&self, mut out: CommandLine) -> Result<CommandLine, ApplyError> {
        out.check_characters()?;
        for unwanted in &self.absent {
            remove_unwanted(&mut out, unwanted, self.arch)?;
        }
        for wanted in &self.set {
            settle(&mut out, wanted, self.arch)?;
        }
        if self.touches_pci() {
            merge_arguments(&mut out, "pci")?;
        }
        out.check()?;
        Ok(out)
    }

    /// Returns the required arguments alone, as written on an empty line: `pci=` merged, sequences in order.
    ///
    /// # Errors
    /// [`ApplyError`] if the arguments are too long together.
    pub fn rendered(&self) -> Result<CommandLine, ApplyError> {
        self.apply(&CommandLine::default())
    }

    /// Returns the first argument on the line that still contains something the edit removes.
    pub fn first_unwanted(&self, line: &CommandLine) -> Option<String> {
        let on = |line| self.unwanted().iter().find_map(|one| first_unwanted(line, one, self.arch));
        line.possible_lines().find_map(on)
    }

    fn add_wanted(&mut self, wanted: WantedArgument) -> Result<(), EditError> {
        let Some(earlier) = self.set.iter_mut().find(|earlier| earlier.key == wanted.key) else {
            self.set.push(wanted);
            return Ok(());
        };
        if earlier.meaning != wanted.meaning {
            let first = earlier.tokens.clone();
            return Err(EditError::Contradiction { first, second: wanted.tokens });
        }
        for token in wanted.tokens {
            if !earlier.tokens.contains(&token) {
                earlier.tokens.push(token);
            }
        }
        Ok(())
    }

    fn check_against_absent(&self) -> Result<(), EditError> {
        for wanted in &self.set {
            let alone = CommandLine::from_tokens(wanted.rendered());
            for unwanted in &self.absent {
                if first_unwanted(&alone, unwanted, self.arch).is_some() {
                    let (wanted, unwanted) = (wanted.tokens.clone(), unwanted.token.clone());
                    return Err(EditError::WantedAndAbsent { wanted, unwanted });
                }
            }
        }
        Ok(())
    }

    fn touches_pci(&self) -> bool {
        let wanted = self
            .set
            .iter()
            .any(|w| matches!(&w.form, Form::Within { param, .. } if param == "pci"));
        wanted
            || self
                .absent
                .iter()
                .any(|u| matches!(&u.form, UnwantedPattern::Within { param, .. } if param == "pci"))
    }
}

/// Parses the entries of `set`. Members of one sequence are joined into one, at the place of the first.
fn gather(tokens: &[&Token], arch: Arch) -> Result<Vec<WantedArgument>, EditError> {
    let sequences: Vec<&'static Sequence> = tokens
        .iter()
        .filter_map(|token| match shape_of(&token.folded_name(), arch) {
            Shape::Sequence(sequence) => Some(sequence),
            _ => None,
        })
        .collect();
    let mut gathered: Vec<WantedArgument> = Vec::new();
    for token in tokens {
        let name = token.folded_name();
        let own = match shape_of(&name, arch) {
            Shape::Sequence(sequence) => Some(sequence),
            _ => None,
        };
        let joins = |sequence: &&&Sequence| sequence.joined.contains(&name.as_str());
        if let Some(sequence) = own.or_else(|| sequences.iter().find(joins).copied()) {
            let given =
                |joined: &&&str| tokens.iter().any(|token| token.folded_name() == ***joined);
            let joined: Vec<String> =
                sequence.joined.iter().filter(given).map(|j| (*j).to_owned()).collect();
            join(&mut gathered, sequence_key(sequence, &joined, token), token);
            continue;
        }
        let wanted = wanted_of(token, arch);
        let bare_list = matches!(shape_of(&name, arch), Shape::Options(_) | Shape::Items(_));
        if wanted.is_empty() || (bare_list && token.value().is_none()) {
            return Err(EditError::NoOption { text: token.to_string() });
        }
        if wanted.iter().any(|wanted| wanted.meaning == Meaning::Nothing) {
            return Err(EditError::NoTruthValue { text: token.to_string() });
        }
        gathered.extend(wanted);
    }
    Ok(gathered)
}

fn join(gathered: &mut Vec<WantedArgument>, key: Key, token: &Token) {
    let same = |wanted: &&mut WantedArgument| match (&wanted.key, &key) {
        (Key::Units { param, .. }, Key::Units { param: own, .. }) => param == own,
        (one, other) => one == other,
    };
    let Some(wanted) = gathered.iter_mut().find(same) else {
        let form = Form::Tokens(vec![token.clone()]);
        return gathered.push(WantedArgument {
            key,
            meaning: Meaning::Nothing,
            form,
            tokens: vec![token.clone()],
        });
    };
    if let Form::Tokens(tokens) = &mut wanted.form {
        tokens.push(token.clone());
    }
    wanted.tokens.push(token.clone());
    if let (Key::Units { units, .. }, Key::Units { units: more, .. }) = (&mut wanted.key, key) {
        units.extend(more);
    }
}

/// Puts `wanted` on the line unless the line already has it.
fn settle(line: &mut CommandLine, wanted: &WantedArgument, arch: Arch) -> Result<(), ApplyError> {
    if let Form::Tokens(tokens) = &wanted.form {
        settle_sequence(line, &wanted.key, tokens, arch);
        return Ok(());
    }
    let all = occurrences(line, &wanted.key, arch);
    let agrees = |speaker: &Occurrence| speaker.heard && speaker.meaning == wanted.meaning;
    let settled = match &wanted.key {
        // Other tools' occurrences of the same item are harmless and stay.
        Key::Item { .. } => all.iter().any(agrees),
        _ => all.len() == 1 && all.iter().all(agrees),
    };
    if settled {
        return Ok(());
    }
    match (&wanted.form, shape_of_form(&wanted.form, arch)) {
        (Form::Within { param, text }, Some(Shape::Items(list))) => {
            let last = list_positions(line, param).last().copied().filter(|_| list.last_wins);
            push_part(line, last, param, text)
        }
        (Form::Within { param, text }, Some(Shape::Options(list))) => {
            settle_option(line, list, param, text, &all)
        }
        (Form::Token(token), _) => settle_token(line, token, &all),
        _ => Ok(()),
    }
}

fn shape_of_form(form: &Form, arch: Arch) -> Option<Shape> {
    match form {
        Form::Within { param, .. } => Some(shape_of(param, arch)),
        _ => None,
    }
}

/// Writes all members of a sequence, contiguous, where the first one was.
fn settle_sequence(line: &mut CommandLine, key: &Key, tokens: &[Token], arch: Arch) {
    if key.is_met(line, tokens, arch) {
        return;
    }
    let positions = |line: &CommandLine, member: &dyn Fn(&Token) -> bool| -> Vec<usize> {
        (0..line.len()).filter(|at| line.token(*at).is_some_and(member)).collect()
    };
    let there = positions(line, &|token| key.is_in_sequence(token));
    if key.is_overtaken(line, arch) {
        for at in there.iter().rev() {
            line.remove(*at);
        }
        let behind =
            positions(line, &|token| key.is_unowned(token)).last().map_or(line.len(), |at| at + 1);
        for (offset, token) in tokens.iter().enumerate() {
            line.insert(behind + offset, token.clone());
        }
        return;
    }
    // The first argument keeps its blanks. The other old ones are removed, and the other new ones follow it.
    let first = there.first().copied();
    for at in there.iter().skip(1).rev() {
        line.remove(*at);
    }
    for (offset, token) in tokens.iter().enumerate() {
        match (first, offset) {
            (Some(at), 0) => line.replace(at, token.clone()),
            (Some(at), offset) => line.insert(at + offset, token.clone()),
            (None, _) => line.push(token.clone()),
        }
    }
}

/// Puts a whole argument in place of the first occurrence of its key, and removes the other occurrences.
fn settle_token(
    line: &mut CommandLine,
    token: &Token,
    all: &[Occurrence],
) -> Result<(), ApplyError> {
    let Some((first, others)) = all.split_first() else {
        line.push(token.clone());
        return Ok(());
    };
    // Back to front, so that the remaining positions stay valid.
    for speaker in others.iter().rev() {
        take_out(line, speaker, None)?;
    }
    if !take_out(line, first, Some(token))? {
        line.insert(first.token + 1, token.clone());
    }
    Ok(())
}

/// Writes an option into its list:
/// - where an option of its group is;
/// - else at the end of the last list that the kernel reads to its end;
/// - else as a separate argument, in place of another spelling or at the end of the line.
fn settle_option(
    line: &mut CommandLine,
    list: &OptionList,
    param: &str,
    text: &str,
    all: &[Occurrence],
) -> Result<(), ApplyError> {
    let in_list = |speaker: &&Occurrence| speaker.part.is_some() && speaker.heard;
    if let Some(target) = all.iter().find(in_list) {
        replace_part(line, target, text)?;
        for speaker in all.iter().rev().filter(|speaker| *speaker != target) {
            take_out(line, speaker, None)?;
        }
        return Ok(());
    }
    let open = |line: &CommandLine| {
        let reads_on = |at: &&usize| {
            let value = line.token(**at).and_then(|token| token.value());
            value.is_some_and(|value| {
                !OptionList::options(&value).any(|option| list.stops_at(option))
            })
        };
        list_positions(line, param).iter().rev().find(reads_on).copied()
    };
    let alone = Token::from_parts(param, Some(text)).map_err(|source| unwritable(param, source))?;
    if open(line).is_none() && !all.is_empty() {
        return settle_token(line, &alone, all);
    }
    for speaker in all.iter().rev() {
        take_out(line, speaker, None)?;
    }
    push_part(line, open(line), param, text)
}
