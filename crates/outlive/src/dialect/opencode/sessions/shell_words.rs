//! Splits a line into words as a shell does, without expansion.
//!
//! Hand-written because the crates for this (`shlex`, `shell-words`) read a word that starts with `#` as a comment up to
//! the end of the line. Here the line is the arguments of a command, and `fix #5` means two of them.

/// `None` if a quote is not closed or the line ends with a backslash.
pub(super) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            '\n' => {}
                            other => word.extend(['\\', other]),
                        },
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => match chars.next()? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// Words that are quoted again are split into the same words.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(line: &str) {
    let Some(words) = split(line) else { return };
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    assert_eq!(split(&quoted.join(" ")), Some(words));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let joined = |line: &str| split(line).map(|words| words.join("|"));
        for (line, expected) in [
            ("", ""),
            ("  a  b\tc\n", "a|b|c"),
            ("'a b' \"c d\" e\\ f", "a b|c d|e f"),
            (r#""\"\$x\n" '\n' a'b'"c""#, r#""$x\n|\n|abc"#),
            ("'' x \"\"", "|x|"),
            ("$HOME `id` *", "$HOME|`id`|*"),
            ("fix #5 now", "fix|#5|now"),
            ("é 😀", "é|😀"),
        ] {
            assert_eq!(joined(line).as_deref(), Some(expected), "{line}");
        }
        for unclosed in ["'", "\"", "a 'b", "\"\\", "\\"] {
            assert_eq!(joined(unclosed), None, "{unclosed}");
        }
    }
}
