//! Programs that a stage needs and that are not part of the repository: where one is missing, root gets Debian's.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::repo;
use crate::run;

/// Some hundred megabytes over a slow network.
const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// A package, and the programs of which one has to be there.
pub(crate) struct Need {
    pub(crate) package: &'static str,
    pub(crate) programs: &'static [&'static str],
}

/// Sees to it that all of them are there. An error says which are not, and what to do.
pub(crate) fn provide(needs: &[Need]) -> Result<()> {
    let is_missing = |need: &&Need| !need.programs.iter().any(|program| repo::in_path(program).is_some());
    let missing: Vec<&str> = needs.iter().filter(is_missing).map(|need| need.package).collect();
    match Way::of(missing.is_empty(), is_root(), repo::in_path("apt-get").is_some()) {
        Way::Ready => Ok(()),
        Way::CanBeInstalled => install(&missing),
        Way::Missing => {
            let names = missing.join(", ");
            Err(format!("not here: {names}; install them, or run this as root on Debian").into())
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    Ready,
    CanBeInstalled,
    Missing,
}

impl Way {
    fn of(is_there: bool, is_root: bool, has_apt: bool) -> Self {
        match (is_there, is_root && has_apt) {
            (true, _) => Self::Ready,
            (false, true) => Self::CanBeInstalled,
            (false, false) => Self::Missing,
        }
    }
}

fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}, which may take a minute once", packages.join(", "));
    for arguments in [vec!["update"], [&["install", "-y"], packages].concat()] {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run::check(&mut apt, INSTALL_LIMIT)?;
    }
    Ok(())
}

/// A process owns its own folder in /proc.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_taken() {
        for (is_root, has_apt) in [(false, false), (true, true)] {
            assert_eq!(Way::of(true, is_root, has_apt), Way::Ready);
        }
        provide(&[Need { package: "coreutils", programs: &["no such program", "ls"] }]).unwrap();
    }

    #[test]
    fn only_root_on_debian_gets_it_installed() {
        assert_eq!(Way::of(false, true, true), Way::CanBeInstalled);
        assert_eq!(Way::of(false, false, true), Way::Missing);
        assert_eq!(Way::of(false, true, false), Way::Missing);
    }
}
