//! Text of an error and its causes. An error's own text must not repeat its cause, so that each cause appears once.

use std::error::Error;

/// Returns the error and its causes in one line, the nearest cause first.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

/// Returns the causes of an error, the nearest first.
pub fn causes<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("no profile")]
    struct Middle(#[source] std::io::Error);

    #[test]
    fn each_cause_appears_once_nearest_first() {
        let error = Outer(Middle(std::io::Error::other("the disk is gone")));
        assert_eq!(chain(&error), "cannot start: no profile: the disk is gone");
        assert_eq!(chain(&error.0.0), "the disk is gone");
    }
}
