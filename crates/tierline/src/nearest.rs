// SPDX-License-Identifier: Apache-2.0
//! Finds the name that was probably meant.

/// The candidate nearest to `word`, if it is near enough to be a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |name: &str| strsim::damerau_levenshtein(word, name);
    let best = candidates.into_iter().min_by_key(|name| slips(name))?;
    (slips(best) <= 1 + word.len() / 4).then_some(best)
}

/// A hint for a wrong `word` if one of `candidates` was expected.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    match nearest(word, all.iter().copied()) {
        Some(name) => format!("did you mean {name}?"),
        None => format!("there are {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised_and_another_word_is_not() {
        let names = ["policy", "tracker", "max_rate"];
        assert_eq!(nearest("polcy", names), Some("policy"));
        assert_eq!(nearest("maxrate", names), Some("max_rate"));
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(suggest("zebra", names), "there are policy, tracker, max_rate");
    }
}
