//! `-e` and `--unset`: changes to the environment that a process inherits from the server.

use std::collections::BTreeMap;

/// One `-e` option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvChange {
    Set(String, String),
    Unset(String),
    /// Use the value in the environment of the CLI.
    Pass(String),
}

/// Parses `NAME=VALUE` (set), `NAME-` (unset) or `NAME` (pass).
pub(crate) fn parse_change(text: &str) -> Result<EnvChange, String> {
    let (name, change) = match text.split_once('=') {
        Some((name, value)) => (name, EnvChange::Set(name.into(), value.into())),
        None => match text.strip_suffix('-') {
            Some(name) => (name, EnvChange::Unset(name.into())),
            None => (text, EnvChange::Pass(text.into())),
        },
    };
    if name.is_empty() || text.contains('\0') {
        return Err(format!("{text:?} is not NAME=VALUE (set), NAME- (unset) or NAME (pass)"));
    }
    Ok(change)
}

/// Builds the `env` of a request; later changes win. `lookup` reads the environment of the CLI.
pub(crate) fn merge(
    changes: &[EnvChange],
    unset: &[String],
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Option<String>>, String> {
    let mut env: BTreeMap<String, Option<String>> = unset.iter().map(|name| (name.clone(), None)).collect();
    for change in changes {
        match change {
            EnvChange::Set(name, value) => env.insert(name.clone(), Some(value.clone())),
            EnvChange::Unset(name) => env.insert(name.clone(), None),
            EnvChange::Pass(name) => {
                let value = lookup(name).ok_or_else(|| format!("-e {name}: {name} is not set; use -e {name}=VALUE"))?;
                env.insert(name.clone(), Some(value))
            }
        };
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed() {
        assert_eq!(parse_change("A=1"), Ok(EnvChange::Set("A".into(), "1".into())));
        assert_eq!(parse_change("A=x=y"), Ok(EnvChange::Set("A".into(), "x=y".into())));
        assert_eq!(parse_change("A="), Ok(EnvChange::Set("A".into(), String::new())));
        assert_eq!(parse_change("A=-"), Ok(EnvChange::Set("A".into(), "-".into())));
        assert_eq!(parse_change("A-"), Ok(EnvChange::Unset("A".into())));
        assert_eq!(parse_change("A"), Ok(EnvChange::Pass("A".into())));
        for text in ["", "=1", "-", "A=\0"] {
            assert!(parse_change(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn later_changes_win_and_missing_variables_are_errors() {
        let lookup = |name: &str| (name == "HERE").then(|| "yes".to_owned());
        let changes: Vec<_> =
            ["A=1", "B-", "A=2", "HERE", "C=3"].iter().filter_map(|text| parse_change(text).ok()).collect();
        let env = merge(&changes, &["C".into(), "D".into()], lookup).unwrap();
        let expected = [("A", Some("2")), ("B", None), ("C", Some("3")), ("D", None), ("HERE", Some("yes"))];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(env, BTreeMap::from(expected));
        let error = merge(&[EnvChange::Pass("GONE".into())], &[], lookup).unwrap_err();
        assert!(error.contains("GONE"));
    }
}
