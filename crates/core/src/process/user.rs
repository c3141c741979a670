//! Unix users from /etc/passwd and /etc/group. No NSS: a static binary cannot load its modules.

use outlive_holder::wire::Identity;

use crate::{Error, Result};

pub(crate) struct User {
    pub(super) identity: Identity,
    name: Option<String>,
    home: Option<String>,
    shell: Option<String>,
}

struct PasswdEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
    shell: &'a str,
}

fn parse_passwd_line(line: &str) -> Option<PasswdEntry<'_>> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?;
    let shell = fields.next().unwrap_or("");
    Some(PasswdEntry { name, uid, gid, home, shell })
}

impl User {
    /// The uid and gid.
    pub(crate) fn ids(&self) -> (u32, u32) {
        (self.identity.uid, self.identity.gid)
    }

    /// Finds a user by `name`, `uid`, `name:group` or `uid:gid`. Numeric ids need no entry in any file.
    pub(crate) fn find(text: &str) -> Result<Self> {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let group = std::fs::read_to_string("/etc/group").unwrap_or_default();
        Self::find_in(text, &passwd, &group)
    }

    fn find_in(text: &str, passwd_file: &str, group_file: &str) -> Result<Self> {
        let unknown = |subject: &str| Error::Spawn {
            code: "user_unknown",
            message: format!("{subject} does not exist; give a name from /etc/passwd, or uid:gid"),
        };
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let number: Option<u32> = user.parse().ok();
        let entry = passwd_file
            .lines()
            .filter_map(parse_passwd_line)
            .find(|entry| entry.name == user || number == Some(entry.uid));
        let uid = match (&entry, number) {
            (Some(entry), _) => entry.uid,
            (None, Some(uid)) => uid,
            (None, None) => return Err(unknown(&format!("user {user:?}"))),
        };
        let gid = match group {
            None => entry.as_ref().map_or(uid, |entry| entry.gid),
            Some(group) => match group.parse() {
                Ok(gid) => gid,
                Err(_) => group_id(group, group_file).ok_or_else(|| unknown(&format!("group {group:?}")))?,
            },
        };
        let name = entry.as_ref().map(|entry| entry.name.to_owned());
        let mut groups = name.as_deref().map(|name| supplementary_groups(name, group_file)).unwrap_or_default();
        if !groups.contains(&gid) {
            groups.push(gid);
        }
        Ok(Self {
            identity: Identity { uid, gid, groups },
            home: entry.as_ref().map(|entry| entry.home.to_owned()),
            shell: entry.as_ref().map(|entry| entry.shell.to_owned()).filter(|shell| !shell.is_empty()),
            name,
        })
    }

    /// The user that the server runs as.
    pub(super) fn current() -> Result<Self> {
        Self::find(&rustix::process::geteuid().as_raw().to_string())
    }

    /// The identity to switch to; `None` if the server runs as this user and is not root.
    pub(super) fn into_identity(self) -> Option<Identity> {
        let euid = rustix::process::geteuid();
        let is_current = self.identity.uid == euid.as_raw() && self.identity.gid == rustix::process::getegid().as_raw();
        (!is_current || euid.is_root()).then_some(self.identity)
    }

    /// Replaces `~` and `~/…` by the user's home directory.
    pub(super) fn expand(&self, path: &str) -> String {
        let home = self.home.as_deref().unwrap_or("/");
        match path.strip_prefix('~') {
            Some("") => home.to_owned(),
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", home.trim_end_matches('/')),
            _ => path.to_owned(),
        }
    }

    /// HOME, USER, LOGNAME and SHELL.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        let name = self.name.clone().unwrap_or_else(|| self.identity.uid.to_string());
        let home = self.home.clone().unwrap_or_else(|| "/".to_owned());
        let shell = self.shell.clone().unwrap_or_else(|| "/bin/sh".to_owned());
        [("HOME", home), ("USER", name.clone()), ("LOGNAME", name), ("SHELL", shell)]
            .into_iter()
            .map(|(variable, value)| (variable, value.into_bytes()))
    }
}

fn group_id(name: &str, group_file: &str) -> Option<u32> {
    group_file.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

fn supplementary_groups(user: &str, group_file: &str) -> Vec<u32> {
    group_file
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let gid = fields.nth(2)?.parse().ok()?;
            fields.next()?.split(',').any(|member| member.trim() == user).then_some(gid)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:100::/home/ann:/bin/zsh\nbroken\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:\nwheel:x:10:bob,ann\n";

    fn identity(text: &str) -> Option<(u32, u32, Vec<u32>)> {
        User::find_in(text, PASSWD, GROUP).ok().map(|user| (user.identity.uid, user.identity.gid, user.identity.groups))
    }

    #[test]
    fn a_tilde_expands_to_the_home_directory() {
        let ann = User::find_in("ann", PASSWD, GROUP).unwrap();
        for (path, expected) in
            [("~", "/home/ann"), ("~/x", "/home/ann/x"), ("/~", "/~"), ("~bob", "~bob"), ("x/~", "x/~")]
        {
            assert_eq!(ann.expand(path), expected);
        }
        assert_eq!(User::find_in("4242", PASSWD, GROUP).unwrap().expand("~/x"), "/x");
    }

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        assert_eq!(identity("ann"), Some((1000, 100, vec![10, 100])));
        assert_eq!(identity("1000"), Some((1000, 100, vec![10, 100])));
        assert_eq!(identity("ann:wheel"), Some((1000, 10, vec![10])));
        assert_eq!(identity("4242"), Some((4242, 4242, vec![4242])));
        assert_eq!(identity("4242:7"), Some((4242, 7, vec![7])));
        assert_eq!(identity("no-such-user"), None);
        assert_eq!(identity("ann:no-group"), None);
        assert_eq!(identity(""), None);
    }
}
