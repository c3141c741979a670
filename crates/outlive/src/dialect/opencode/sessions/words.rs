//! Splits a line into words as a shell does, without running anything.

/// `None`: a quote is not closed.
pub(super) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(letter) = rest.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            '\n' => {}
                            other => word.extend(['\\', other]),
                        },
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => match rest.next()? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_a_shell_sees_them() {
        let of = |line: &str| split(line).map(|words| words.join("|"));
        for (line, expected) in [
            ("", ""),
            ("  a  b\tc\n", "a|b|c"),
            ("'a b' \"c d\" e\\ f", "a b|c d|e f"),
            (r#""\"\$x\n" '\n' a'b'"c""#, r#""$x\n|\n|abc"#),
            ("'' x \"\"", "|x|"),
            ("$HOME `id` *", "$HOME|`id`|*"),
            ("é 😀", "é|😀"),
        ] {
            assert_eq!(of(line).as_deref(), Some(expected), "{line}");
        }
        for open in ["'", "\"", "a 'b", "\"\\", "\\"] {
            assert_eq!(of(open), None, "{open}");
        }
    }
}
