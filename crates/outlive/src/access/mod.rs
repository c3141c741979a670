//! Who may do what. Everything that decides about a request before its handler sees it.
//!
//! ```text
//! request ─▶ door.rs: Host and Origin          (a web page must not talk to us, by whatever name)
//!         ─▶ credentials.rs: where this surface's clients carry what they show
//!         ─▶ Access::admit: credential ─▶ Grant (token.rs, ticket.rs; failures.rs counts the wrong ones)
//!         ─▶ the route's scope (front/guard.rs)
//! ```
//!
//! Tokens are known by their SHA-256 alone: what is kept at the holder, or dumped by accident, opens nothing.

pub(crate) mod credentials;
pub(crate) mod door;
mod failures;
pub(crate) mod scope;
pub(crate) mod ticket;
pub(crate) mod token;

use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use outlive_core::attach::Role;
use outlive_core::log::Flow;

use self::door::Door;
use self::failures::Failures;
pub(crate) use self::scope::Scope;
use self::ticket::{Ticket, Tickets};
use self::token::{Digest, Token};
use crate::peer::Peer;
use crate::settings::Settings;

/// What a request shows to be let in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    Token(String),
    Ticket(String),
}

/// What somebody may do, and what to call them in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) who: Arc<str>,
    pub(crate) scope: Scope,
    /// The token that was shown, if it was one.
    pub(crate) token: Option<Digest>,
    /// Only this: attach to one process in one role.
    pub(crate) ticket: Option<Ticket>,
}

impl Grant {
    fn of(who: impl Into<Arc<str>>, scope: Scope) -> Self {
        Self { who: who.into(), scope, token: None, ticket: None }
    }

    /// How bytes flow to them. A program waits only for those who may stop it anyway.
    pub(crate) fn flow(&self, wanted: Option<Flow>, usual: Flow) -> Result<Flow, Refusal> {
        match wanted {
            _ if self.scope >= Scope::Write => Ok(wanted.unwrap_or(usual)),
            Some(Flow::Lossless) => Err(Refusal::Scope { has: self.scope, needs: Scope::Write }),
            _ => Ok(Flow::Live),
        }
    }

    /// The role that this grant gives at a process; `wanted` is what the client asked for, if it did.
    pub(crate) fn role_at(&self, process: &str, wanted: Option<Role>) -> Result<Role, Refusal> {
        let role = match &self.ticket {
            Some(ticket) if ticket.process != process => return Err(Refusal::TicketForAnother),
            Some(ticket) => wanted.unwrap_or(ticket.role),
            None => wanted.unwrap_or_default(),
        };
        let may_write = match &self.ticket {
            Some(ticket) => ticket.role == Role::Writer,
            None => self.scope >= Scope::Write,
        };
        if role == Role::Writer && !may_write {
            return Err(Refusal::Scope { has: Scope::Read, needs: Scope::Write });
        }
        Ok(role)
    }
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Missing,
    WrongToken,
    WrongTicket,
    TicketForAnother,
    /// Known, but not for this.
    Scope {
        has: Scope,
        needs: Scope,
    },
    TooManyFailures {
        retry_after: Duration,
    },
}

pub(crate) struct Access {
    /// `None`: everybody who reaches us is let in.
    tokens: Option<RwLock<Tokens>>,
    pub(crate) tickets: Tickets,
    failures: Failures,
    pub(crate) door: Door,
}

#[derive(Default)]
struct Tokens {
    /// Given by flag or environment, or made at the start.
    fixed: Vec<Token>,
    from_file: Vec<Token>,
    /// Made by an admin while running.
    issued: Vec<Token>,
}

impl Tokens {
    fn all(&self) -> impl Iterator<Item = &Token> {
        self.fixed.iter().chain(&self.from_file).chain(&self.issued)
    }
}

impl Access {
    pub(crate) fn new(settings: &Settings, issued: Vec<Token>) -> Self {
        let tokens = Tokens { fixed: settings.tokens.clone(), from_file: Vec::new(), issued };
        Self {
            tokens: (!settings.no_token).then(|| RwLock::new(tokens)),
            tickets: Tickets::default(),
            failures: Failures::new(settings.limits.max_failed_auth_per_minute),
            door: Door::new(&settings.allow_hosts, &settings.allow_origins).with_tls(settings.tls.is_some()),
        }
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.tokens.is_some()
    }

    /// Tells who is there by what they show, or by the socket they came through.
    pub(crate) fn admit(&self, peer: &Peer, credential: Option<&Credential>) -> Result<Grant, Refusal> {
        if let Some(Credential::Ticket(secret)) = credential {
            self.failures.may_try(peer)?;
            let scope = |ticket: &Ticket| if ticket.role == Role::Writer { Scope::Write } else { Scope::Read };
            let taken = self.tickets.take(secret).filter(|ticket| self.still_opens(ticket.token, scope(ticket)));
            let ticket = taken.ok_or_else(|| self.failed(peer, Refusal::WrongTicket))?;
            let who = format!("ticket of {}", ticket.who).into();
            return Ok(Grant { who, scope: scope(&ticket), token: ticket.token, ticket: Some(ticket) });
        }
        // The kernel has told who they are, and the listener has asked it.
        if let Peer::Unix { uid, .. } = peer {
            return Ok(Grant::of(format!("uid {uid}"), Scope::Admin));
        }
        let Some(tokens) = &self.tokens else { return Ok(Grant::of("anybody", Scope::Admin)) };
        let Some(Credential::Token(secret)) = credential else { return Err(Refusal::Missing) };
        self.failures.may_try(peer)?;
        let digest = Digest::of(secret);
        let tokens = tokens.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        // All are looked at, so that the time tells nothing about which one it was.
        let found = tokens.all().filter(|token| token.digest.is(&digest) & token.is_valid()).last();
        match found {
            Some(token) => Ok(Grant { token: Some(digest), ..Grant::of(token.name.as_str(), token.scope) }),
            None => Err(self.failed(peer, Refusal::WrongToken)),
        }
    }

    /// Whether what was given out by a token still counts: not longer than the token itself.
    pub(crate) fn still_opens(&self, token: Option<Digest>, needed: Scope) -> bool {
        let (Some(digest), Some(tokens)) = (token, &self.tokens) else { return true };
        let tokens = tokens.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        tokens.all().any(|token| token.digest == digest && token.is_valid() && token.scope >= needed)
    }

    fn failed(&self, peer: &Peer, refusal: Refusal) -> Refusal {
        self.failures.count(peer);
        refusal
    }

    fn change(&self, change: impl FnOnce(&mut Tokens)) {
        if let Some(tokens) = &self.tokens {
            change(&mut tokens.write().unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    /// Whether this secret is a token of another name: two of one secret would contradict each other.
    pub(crate) fn knows_otherwise(&self, name: &str, secret: &str) -> bool {
        let digest = Digest::of(secret);
        self.tokens().iter().any(|(token, _)| token.name != name && token.digest == digest)
    }

    /// The token file was read (again).
    pub(crate) fn set_from_file(&self, tokens: Vec<Token>) {
        self.change(|all| all.from_file = tokens);
    }

    pub(crate) fn issue(&self, token: Token) {
        self.change(|all| {
            all.issued.retain(|other| other.name != token.name);
            all.issued.push(token);
        });
    }

    /// True if there was one of that name.
    pub(crate) fn revoke(&self, name: &str) -> bool {
        let mut found = false;
        self.change(|all| {
            let before = all.issued.len();
            all.issued.retain(|token| token.name != name);
            found = all.issued.len() < before;
        });
        found
    }

    /// Every token with where it comes from.
    pub(crate) fn tokens(&self) -> Vec<(Token, &'static str)> {
        let Some(tokens) = &self.tokens else { return Vec::new() };
        let tokens = tokens.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let of = |tokens: &[Token], source: &'static str| -> Vec<_> {
            tokens.iter().map(|token| (token.clone(), source)).collect()
        };
        [of(&tokens.fixed, "start"), of(&tokens.from_file, "file"), of(&tokens.issued, "issued")].concat()
    }
}

/// Whose failures are counted together: an address, or for IPv6 the network that one customer gets.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        },
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(settings: Settings) -> Access {
        Access::new(&settings, Vec::new())
    }

    fn remote() -> Peer {
        Peer::Tcp("203.0.113.9:4000".parse().unwrap())
    }

    fn token(text: &str) -> Credential {
        Credential::Token(text.to_owned())
    }

    #[test]
    fn tokens_open_what_they_are_for() {
        let settings = Settings {
            tokens: vec![Token::new("boss", Scope::Admin, "b"), Token::new("eye", Scope::Read, "r")],
            ..Settings::default()
        };
        let access = access(settings);
        let scope = |text: &str| access.admit(&remote(), Some(&token(text))).map(|grant| grant.scope);
        assert_eq!(scope("b"), Ok(Scope::Admin));
        assert_eq!(scope("r"), Ok(Scope::Read));
        assert_eq!(scope(""), Err(Refusal::WrongToken));
        assert_eq!(scope("bb"), Err(Refusal::WrongToken));
        assert_eq!(access.admit(&remote(), None), Err(Refusal::Missing));
        access.issue(Token::new("new", Scope::Write, "n"));
        assert_eq!(scope("n"), Ok(Scope::Write));
        assert!(access.revoke("new") && !access.revoke("boss"));
        assert_eq!(scope("n"), Err(Refusal::WrongToken));
    }

    #[test]
    fn without_tokens_nobody_is_let_in_unless_that_was_said() {
        assert_eq!(access(Settings::default()).admit(&remote(), None), Err(Refusal::Missing));
        assert_eq!(access(Settings::default()).admit(&remote(), Some(&token(""))), Err(Refusal::WrongToken));
        let open = access(Settings { no_token: true, ..Settings::default() });
        assert_eq!(open.admit(&remote(), None).map(|grant| grant.scope), Ok(Scope::Admin));
    }

    #[test]
    fn a_ticket_opens_one_door_once() {
        let access = access(Settings { no_token: true, ..Settings::default() });
        let ticket = Ticket { process: "p".into(), role: Role::Viewer, who: "me".into(), token: None };
        let (secret, _) = access.tickets.issue(ticket).unwrap();
        let shown = Some(Credential::Ticket(secret));
        let grant = access.admit(&remote(), shown.as_ref()).unwrap();
        assert_eq!(grant.role_at("p", None), Ok(Role::Viewer));
        assert_eq!(grant.role_at("q", None), Err(Refusal::TicketForAnother));
        assert!(grant.role_at("p", Some(Role::Writer)).is_err());
        assert_eq!(access.admit(&remote(), shown.as_ref()), Err(Refusal::WrongTicket), "it is used up");
    }

    #[test]
    fn a_ticket_outlived_its_token() {
        let access = access(Settings::default());
        let grants = |name: &str| {
            access.issue(Token::new(name, Scope::Write, name));
            let token = access.admit(&remote(), Some(&token(name))).unwrap().token;
            assert!(token.is_some());
            let ticket = Ticket { process: "p".into(), role: Role::Writer, who: name.into(), token };
            Some(Credential::Ticket(access.tickets.issue(ticket).unwrap().0))
        };
        let (good, revoked, lowered) = (grants("good"), grants("revoked"), grants("lowered"));
        access.revoke("revoked");
        access.issue(Token::new("lowered", Scope::Read, "lowered"));
        assert_eq!(access.admit(&remote(), revoked.as_ref()), Err(Refusal::WrongTicket));
        assert_eq!(access.admit(&remote(), lowered.as_ref()), Err(Refusal::WrongTicket));
        assert!(access.admit(&remote(), good.as_ref()).is_ok());
    }

    #[test]
    fn a_reader_held_a_program_up() {
        let (reader, writer) = (Grant::of("eye", Scope::Read), Grant::of("hand", Scope::Write));
        assert!(reader.flow(Some(Flow::Lossless), Flow::Live).is_err());
        assert_eq!(reader.flow(None, Flow::Lossless), Ok(Flow::Live));
        assert_eq!(writer.flow(None, Flow::Lossless), Ok(Flow::Lossless));
        assert_eq!(writer.flow(Some(Flow::Live), Flow::Lossless), Ok(Flow::Live));
    }

    #[test]
    fn a_reader_attaches_as_a_viewer_only() {
        let grant = Grant::of("eye", Scope::Read);
        assert_eq!(grant.role_at("p", Some(Role::Viewer)), Ok(Role::Viewer));
        assert!(grant.role_at("p", None).is_err(), "a writer unless it says otherwise");
    }
}
