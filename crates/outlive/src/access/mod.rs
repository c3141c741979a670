//! Access control: everything that decides about a request before its handler runs.
//!
//! ```text
//! request ─▶ origin.rs: Host and Origin           (no web page of a foreign origin, under any name)
//!         ─▶ credentials.rs: where the clients of this surface carry their credential
//!         ─▶ Access::authenticate: credential ─▶ Grant   (token.rs, ticket.rs; failures.rs limits wrong guesses)
//!         ─▶ the scope that the route requires     (http/authenticate.rs)
//! ```
//!
//! Tokens and tickets are stored only as SHA-256 digests, so that a copy of the journal or a core dump gives no access.

pub(crate) mod credentials;
mod failures;
pub(crate) mod origin;
pub(crate) mod ticket;
pub(crate) mod token;
pub(crate) mod token_store;

use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use outlive_core::attach::Role;
use outlive_core::log::Flow;
use outlive_core::{Core, Error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::failures::Failures;
use self::origin::OriginPolicy;
use self::ticket::{IssuedTicket, Ticket, Tickets, Validity};
use self::token::{Digest, Token};
use crate::http::peer::Peer;
use crate::settings::Settings;

/// A permission. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// Read-only: list, logs, output, events, watch a terminal.
    Read,
    /// Change: run, start, type, stop, delete.
    Write,
    /// Administer: limits, tokens, upgrade.
    Admin,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Admin].into_iter().find(|scope| scope.name() == text)
    }
}

/// What a client presents to authenticate.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    Token(String),
    Ticket(String),
}

/// The permissions of an authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The client's name in the audit log.
    pub(crate) principal: Arc<str>,
    pub(crate) scope: Scope,
    /// The token of the client, if it has presented one.
    pub(crate) token: Option<Digest>,
    /// Restricts the grant to attaching to one process in one role.
    pub(crate) ticket: Option<Ticket>,
}

impl Grant {
    fn new(principal: impl Into<Arc<str>>, scope: Scope) -> Self {
        Self { principal: principal.into(), scope, token: None, ticket: None }
    }

    /// The flow control of this client's output. A program waits only for clients that could stop it anyway.
    pub(crate) fn flow(&self, wanted: Option<Flow>, default: Flow) -> Result<Flow, AuthRejection> {
        match wanted {
            _ if self.scope >= Scope::Write => Ok(wanted.unwrap_or(default)),
            Some(Flow::Lossless) => Err(AuthRejection::Scope { has: self.scope, required: Scope::Write }),
            _ => Ok(Flow::Live),
        }
    }

    /// Whether this client may see and revoke a ticket: its issuer and admins may.
    fn may_manage(&self, ticket: &Ticket) -> bool {
        self.scope >= Scope::Admin || (self.token.is_some() && self.token == ticket.token)
    }

    /// The role in which this client may attach to a process; `wanted` is the role that it requested.
    pub(crate) fn role_for(&self, process: &str, wanted: Option<Role>) -> Result<Role, AuthRejection> {
        let role = match &self.ticket {
            Some(ticket) if ticket.process != process => return Err(AuthRejection::TicketForAnother),
            Some(ticket) => wanted.unwrap_or(ticket.role),
            None => wanted.unwrap_or_default(),
        };
        let may_write = match &self.ticket {
            Some(ticket) => ticket.role == Role::Writer,
            None => self.scope >= Scope::Write,
        };
        if role == Role::Writer && !may_write {
            return Err(AuthRejection::Scope { has: Scope::Read, required: Scope::Write });
        }
        Ok(role)
    }
}

/// Why a client is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthRejection {
    Missing,
    WrongToken,
    WrongTicket,
    TicketForAnother,
    /// The client is authenticated, but its scope does not suffice.
    Scope {
        has: Scope,
        required: Scope,
    },
    TooManyFailures {
        retry_after: Duration,
    },
    /// The use of a ticket cannot be stored.
    Unavailable(Error),
}

pub(crate) struct Access {
    /// `None` with `--no-token`: every client is admitted.
    tokens: Option<RwLock<Tokens>>,
    tickets: Tickets,
    failures: Failures,
    pub(crate) origins: OriginPolicy,
}

#[derive(Default)]
struct Tokens {
    /// Given by flag or environment, or generated at the start.
    fixed: Vec<Token>,
    from_file: Vec<Token>,
    /// Issued by an admin at run time.
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
            origins: OriginPolicy::new(&settings.allow_hosts, &settings.allow_origins).with_tls(settings.tls.is_some()),
        }
    }

    /// Stores long-lived tickets in `core`, and continues with those that earlier servers have stored there.
    pub(crate) fn with_stored_tickets(self, core: Core) -> Self {
        Self { tickets: Tickets::load(core), ..self }
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.tokens.is_some()
    }

    /// Exchanges a credential, or the user of a Unix socket, for a grant.
    pub(crate) fn authenticate(&self, peer: &Peer, credential: Option<&Credential>) -> Result<Grant, AuthRejection> {
        if let Some(Credential::Ticket(secret)) = credential {
            self.failures.check(peer)?;
            let redeemed = self.tickets.redeem(secret).map_err(AuthRejection::Unavailable)?;
            let ticket = redeemed
                .filter(|ticket| self.is_issuer_valid(ticket))
                .ok_or_else(|| self.failed(peer, AuthRejection::WrongTicket))?;
            let principal = format!("ticket of {}", ticket.issuer).into();
            return Ok(Grant { principal, scope: ticket.scope(), token: ticket.token, ticket: Some(ticket) });
        }
        // The kernel has reported the user, and the listener has checked it against the allowed ones.
        if let Peer::Unix { uid, .. } = peer {
            return Ok(Grant::new(format!("uid {uid}"), Scope::Admin));
        }
        let Some(tokens) = &self.tokens else { return Ok(Grant::new("anybody", Scope::Admin)) };
        let Some(Credential::Token(secret)) = credential else { return Err(AuthRejection::Missing) };
        self.failures.check(peer)?;
        let digest = Digest::new(secret);
        let tokens = tokens.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Every token is compared, so that the time does not reveal which one matched.
        let found = tokens.all().filter(|token| token.digest.matches(&digest) & token.is_valid()).last();
        match found {
            Some(token) => Ok(Grant { token: Some(digest), ..Grant::new(token.name.as_str(), token.scope) }),
            None => Err(self.failed(peer, AuthRejection::WrongToken)),
        }
    }

    /// Whether a token still exists with at least this scope. What was issued by a token, such as a ticket, is valid
    /// only that long.
    pub(crate) fn is_token_valid_for(&self, token: Option<Digest>, required: Scope) -> bool {
        let (Some(digest), Some(tokens)) = (token, &self.tokens) else { return true };
        let tokens = tokens.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        tokens.all().any(|token| token.digest == digest && token.is_valid() && token.scope >= required)
    }

    /// Whether the token of the ticket's issuer still grants what the ticket grants.
    fn is_issuer_valid(&self, ticket: &Ticket) -> bool {
        self.is_token_valid_for(ticket.token, ticket.scope())
    }

    /// Issues a ticket in the name of this client; returns it with its secret. The caller has checked the role.
    pub(crate) fn issue_ticket(
        &self,
        grant: &Grant,
        process: &str,
        role: Role,
        validity: Validity,
    ) -> outlive_core::Result<(IssuedTicket, String)> {
        let (process, issuer) = (process.to_owned(), grant.principal.to_string());
        let ticket = Ticket { process, role, issuer, token: grant.token };
        self.tickets.issue(ticket, validity, |other| self.is_issuer_valid(other))
    }

    /// The valid tickets that this client has issued; all of them for an admin.
    pub(crate) fn tickets(&self, grant: &Grant) -> Vec<IssuedTicket> {
        let mut tickets = self.tickets.list();
        tickets.retain(|issued| grant.may_manage(&issued.ticket) && self.is_issuer_valid(&issued.ticket));
        tickets
    }

    /// Revokes a ticket; false if there is none with this id among those that the client may manage.
    pub(crate) fn revoke_ticket(&self, grant: &Grant, id: &str) -> outlive_core::Result<bool> {
        self.tickets.revoke(id, |ticket| grant.may_manage(ticket))
    }

    fn failed(&self, peer: &Peer, rejection: AuthRejection) -> AuthRejection {
        self.failures.record(peer);
        rejection
    }

    fn change(&self, change: impl FnOnce(&mut Tokens)) {
        if let Some(tokens) = &self.tokens {
            change(&mut tokens.write().unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    /// Whether this secret belongs to a token of another name. Two tokens with one secret could contradict each other.
    pub(crate) fn has_token_under_another_name(&self, name: &str, secret: &str) -> bool {
        let digest = Digest::new(secret);
        self.tokens().iter().any(|(token, _)| token.name != name && token.digest == digest)
    }

    /// Replaces the tokens of the token file.
    pub(crate) fn set_from_file(&self, tokens: Vec<Token>) {
        self.change(|all| all.from_file = tokens);
    }

    /// Adds an issued token, in place of one with the same name.
    pub(crate) fn issue(&self, token: Token) {
        self.change(|all| {
            all.issued.retain(|other| other.name != token.name);
            all.issued.push(token);
        });
    }

    /// Removes an issued token; false if there is none of that name.
    pub(crate) fn revoke(&self, name: &str) -> bool {
        let mut found = false;
        self.change(|all| {
            let before = all.issued.len();
            all.issued.retain(|token| token.name != name);
            found = all.issued.len() < before;
        });
        found
    }

    /// Every token with its source.
    pub(crate) fn tokens(&self) -> Vec<(Token, &'static str)> {
        let Some(tokens) = &self.tokens else { return Vec::new() };
        let tokens = tokens.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sources = [(&tokens.fixed, "start"), (&tokens.from_file, "file"), (&tokens.issued, "issued")];
        sources
            .into_iter()
            .flat_map(|(tokens, source)| tokens.iter().map(move |token| (token.clone(), source)))
            .collect()
    }
}

/// The network whose failures are counted together: an IPv4 address, or the IPv6 /64 that one customer gets.
fn source_network(address: IpAddr) -> IpAddr {
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
    fn a_token_grants_its_scope() {
        let settings = Settings {
            tokens: vec![Token::new("boss", Scope::Admin, "b"), Token::new("eye", Scope::Read, "r")],
            ..Settings::default()
        };
        let access = access(settings);
        let scope = |text: &str| access.authenticate(&remote(), Some(&token(text))).map(|grant| grant.scope);
        assert_eq!(scope("b"), Ok(Scope::Admin));
        assert_eq!(scope("r"), Ok(Scope::Read));
        assert_eq!(scope(""), Err(AuthRejection::WrongToken));
        assert_eq!(scope("bb"), Err(AuthRejection::WrongToken));
        assert_eq!(access.authenticate(&remote(), None), Err(AuthRejection::Missing));
        access.issue(Token::new("new", Scope::Write, "n"));
        assert_eq!(scope("n"), Ok(Scope::Write));
        assert!(access.revoke("new") && !access.revoke("boss"));
        assert_eq!(scope("n"), Err(AuthRejection::WrongToken));
    }

    #[test]
    fn without_tokens_every_client_is_rejected_unless_no_token_is_set() {
        assert_eq!(access(Settings::default()).authenticate(&remote(), None), Err(AuthRejection::Missing));
        assert_eq!(
            access(Settings::default()).authenticate(&remote(), Some(&token(""))),
            Err(AuthRejection::WrongToken)
        );
        let open = access(Settings { no_token: true, ..Settings::default() });
        assert_eq!(open.authenticate(&remote(), None).map(|grant| grant.scope), Ok(Scope::Admin));
    }

    #[test]
    fn a_ticket_admits_to_one_process_once() {
        let access = access(Settings { no_token: true, ..Settings::default() });
        let issuer = Grant::new("me", Scope::Admin);
        let (_, secret) = access.issue_ticket(&issuer, "p", Role::Viewer, Validity::default()).unwrap();
        let credential = Some(Credential::Ticket(secret));
        let grant = access.authenticate(&remote(), credential.as_ref()).unwrap();
        assert_eq!(grant.role_for("p", None), Ok(Role::Viewer));
        assert_eq!(grant.role_for("q", None), Err(AuthRejection::TicketForAnother));
        assert!(grant.role_for("p", Some(Role::Writer)).is_err());
        assert_eq!(
            access.authenticate(&remote(), credential.as_ref()),
            Err(AuthRejection::WrongTicket),
            "it is used up"
        );
    }

    #[test]
    fn a_ticket_expires_with_its_token() {
        let access = access(Settings::default());
        let ticket_of = |name: &str| {
            access.issue(Token::new(name, Scope::Write, name));
            let issuer = access.authenticate(&remote(), Some(&token(name))).unwrap();
            assert!(issuer.token.is_some());
            let (_, secret) = access.issue_ticket(&issuer, "p", Role::Writer, Validity::default()).unwrap();
            Some(Credential::Ticket(secret))
        };
        let (good, revoked, lowered) = (ticket_of("good"), ticket_of("revoked"), ticket_of("lowered"));
        access.revoke("revoked");
        access.issue(Token::new("lowered", Scope::Read, "lowered"));
        assert_eq!(access.authenticate(&remote(), revoked.as_ref()), Err(AuthRejection::WrongTicket));
        assert_eq!(access.authenticate(&remote(), lowered.as_ref()), Err(AuthRejection::WrongTicket));
        assert!(access.authenticate(&remote(), good.as_ref()).is_ok());
    }

    #[test]
    fn a_client_manages_its_own_tickets_and_an_admin_all() {
        let access = access(Settings::default());
        let client = |name: &str, scope| {
            access.issue(Token::new(name, scope, name));
            access.authenticate(&remote(), Some(&token(name))).unwrap()
        };
        let [one, other, admin] =
            [("a", Scope::Read), ("b", Scope::Write), ("c", Scope::Admin)].map(|(name, scope)| client(name, scope));
        let (issued, _) = access.issue_ticket(&one, "p", Role::Viewer, Validity::default()).unwrap();
        let count = |grant: &Grant| access.tickets(grant).len();
        assert_eq!((count(&one), count(&other), count(&admin)), (1, 0, 1));
        assert_eq!(access.revoke_ticket(&other, &issued.id), Ok(false));
        assert_eq!(access.revoke_ticket(&one, &issued.id), Ok(true));
        let (issued, _) = access.issue_ticket(&one, "p", Role::Viewer, Validity::default()).unwrap();
        access.issue_ticket(&one, "p", Role::Viewer, Validity::default()).unwrap();
        assert_eq!(access.revoke_ticket(&admin, &issued.id), Ok(true));
        access.revoke("a");
        assert_eq!(count(&admin), 0, "the ticket of a revoked token is not valid");
    }

    #[test]
    fn a_reader_cannot_make_a_program_wait() {
        let (reader, writer) = (Grant::new("eye", Scope::Read), Grant::new("hand", Scope::Write));
        assert!(reader.flow(Some(Flow::Lossless), Flow::Live).is_err());
        assert_eq!(reader.flow(None, Flow::Lossless), Ok(Flow::Live));
        assert_eq!(writer.flow(None, Flow::Lossless), Ok(Flow::Lossless));
        assert_eq!(writer.flow(Some(Flow::Live), Flow::Lossless), Ok(Flow::Live));
    }

    #[test]
    fn a_reader_attaches_only_as_a_viewer() {
        let grant = Grant::new("eye", Scope::Read);
        assert_eq!(grant.role_for("p", Some(Role::Viewer)), Ok(Role::Viewer));
        assert!(grant.role_for("p", None).is_err(), "the default role is writer");
    }
}
