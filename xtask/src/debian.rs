//! Programs that a stage needs and the repository does not contain. Root on Debian gets the missing ones installed.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::repo;
use crate::run;

/// Some hundred megabytes over a slow network.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A Debian package. It counts as installed when one of its programs is in the path.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) programs: &'static [&'static str],
}

impl Package {
    fn is_missing(&self) -> bool {
        !self.programs.iter().any(|program| repo::in_path(program).is_some())
    }
}

/// The names of the packages that are not installed, each once.
pub(crate) fn missing<'a>(packages: impl IntoIterator<Item = &'a Package>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> =
        packages.into_iter().filter(|package| package.is_missing()).map(|package| package.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// One line for the start of a run, so that an installation surprises no user.
pub(crate) fn announcement(missing: &[&str]) -> Option<String> {
    let names = missing.join(", ");
    match InstallPlan::new(missing.is_empty(), is_root(), repo::in_path("apt-get").is_some()) {
        InstallPlan::Nothing => None,
        InstallPlan::AptGet => Some(format!("missing Debian packages, to be installed by apt-get: {names}")),
        InstallPlan::Impossible => Some(format!("missing: {names}; the stages that need them will fail")),
    }
}

/// Installs the missing ones of these packages.
pub(crate) fn provide(packages: &[Package]) -> Result<()> {
    let missing = missing(packages);
    match InstallPlan::new(missing.is_empty(), is_root(), repo::in_path("apt-get").is_some()) {
        InstallPlan::Nothing => Ok(()),
        InstallPlan::AptGet => install(&missing),
        InstallPlan::Impossible => {
            let names = missing.join(", ");
            Err(format!("missing: {names}; install them, or run this as root on Debian").into())
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum InstallPlan {
    Nothing,
    AptGet,
    Impossible,
}

impl InstallPlan {
    fn new(is_installed: bool, is_root: bool, has_apt: bool) -> Self {
        match (is_installed, is_root && has_apt) {
            (true, _) => Self::Nothing,
            (false, true) => Self::AptGet,
            (false, false) => Self::Impossible,
        }
    }
}

fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(", "));
    for arguments in [vec!["update"], [&["install", "-y"], packages].concat()] {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run::check(&mut apt, INSTALL_TIMEOUT)?;
    }
    Ok(())
}

/// A process owns its own directory in /proc.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_package_needs_no_installation() {
        for (is_root, has_apt) in [(false, false), (true, true)] {
            assert_eq!(InstallPlan::new(true, is_root, has_apt), InstallPlan::Nothing);
        }
        provide(&[Package { name: "coreutils", programs: &["no such program", "ls"] }]).unwrap();
    }

    #[test]
    fn only_root_on_debian_installs_packages() {
        assert_eq!(InstallPlan::new(false, true, true), InstallPlan::AptGet);
        assert_eq!(InstallPlan::new(false, false, true), InstallPlan::Impossible);
        assert_eq!(InstallPlan::new(false, true, false), InstallPlan::Impossible);
    }

    #[test]
    fn missing_packages_are_named_once() {
        let absent = Package { name: "absent", programs: &["no such program"] };
        let present = Package { name: "coreutils", programs: &["ls"] };
        assert_eq!(missing(&[absent, present, absent]), ["absent"]);
        assert_eq!(announcement(&[]), None);
        assert!(announcement(&["absent"]).unwrap().contains("absent"));
    }
}
