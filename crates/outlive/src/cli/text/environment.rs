//! `-e` and `--unset`: which variables a program gets on top of the server's.

use std::collections::BTreeMap;

/// One `-e`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set(String, String),
    Unset(String),
    /// As it is here.
    Pass(String),
}

/// `K=V` sets, `K-` unsets, `K` alone passes the value that it has here.
pub(crate) fn change(text: &str) -> Result<Change, String> {
    let (name, made) = match text.split_once('=') {
        Some((name, value)) => (name, Change::Set(name.into(), value.into())),
        None => match text.strip_suffix('-') {
            Some(name) => (name, Change::Unset(name.into())),
            None => (text, Change::Pass(text.into())),
        },
    };
    if name.is_empty() || text.contains('\0') {
        return Err(format!("{text:?} is not K=V (set), K- (unset) or K (pass on)"));
    }
    Ok(made)
}

/// The `env` of a spec; later changes win. `own` looks into our own environment.
pub(crate) fn merge(
    changes: &[Change],
    unset: &[String],
    own: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Option<String>>, String> {
    let mut env: BTreeMap<String, Option<String>> = unset.iter().map(|name| (name.clone(), None)).collect();
    for change in changes {
        match change {
            Change::Set(name, value) => env.insert(name.clone(), Some(value.clone())),
            Change::Unset(name) => env.insert(name.clone(), None),
            Change::Pass(name) => {
                let value = own(name).ok_or_else(|| format!("-e {name}: not set here; give {name}=VALUE"))?;
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
    fn each_form() {
        assert_eq!(change("A=1"), Ok(Change::Set("A".into(), "1".into())));
        assert_eq!(change("A=x=y"), Ok(Change::Set("A".into(), "x=y".into())));
        assert_eq!(change("A="), Ok(Change::Set("A".into(), String::new())));
        assert_eq!(change("A=-"), Ok(Change::Set("A".into(), "-".into())));
        assert_eq!(change("A-"), Ok(Change::Unset("A".into())));
        assert_eq!(change("A"), Ok(Change::Pass("A".into())));
        for text in ["", "=1", "-", "A=\0"] {
            assert!(change(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn later_wins_and_missing_is_told() {
        let own = |name: &str| (name == "HERE").then(|| "yes".to_owned());
        let changes: Vec<_> = ["A=1", "B-", "A=2", "HERE", "C=3"].iter().filter_map(|text| change(text).ok()).collect();
        let env = merge(&changes, &["C".into(), "D".into()], own).unwrap();
        let wanted = [("A", Some("2")), ("B", None), ("C", Some("3")), ("D", None), ("HERE", Some("yes"))];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(env, BTreeMap::from(wanted));
        let error = merge(&[Change::Pass("GONE".into())], &[], own).unwrap_err();
        assert!(error.contains("GONE"));
    }
}
