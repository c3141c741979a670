//! `outlive serve`: look at the flags, open the listeners, become the holder.

mod dialects;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use outlive_holder::Initial;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use self::dialects::DialectAt;
use crate::access::Scope;
use crate::access::token::{self, Token};
use crate::cli::Connection;
use crate::local::{self, Local};
use crate::server::{ListenAt, kept_as};
use crate::settings::{self, Settings};
use crate::unix_socket;

/// Connections that may wait while a server is being replaced or restarted.
const BACKLOG: i32 = 4096;

#[derive(Args)]
pub(crate) struct Options {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:2468")]
    listen: String,
    /// Give a dialect an address of its own, where its clients find it at the root: TCP or unix:PATH
    #[arg(long, value_name = "NAME=ADDR", value_parser = dialects::parse)]
    dialect: Vec<DialectAt>,
    /// Listen on a Unix socket too; root, the own user and --allow-uid may use it without a token
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Permissions of Unix sockets, in octal
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_mode)]
    socket_mode: u32,
    /// A further user who may use Unix sockets
    #[arg(long, value_name = "UID")]
    allow_uid: Vec<u32>,
    /// File with tokens, one per line: TOKEN [read|write|admin [NAME]]; read again when it changes
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Accept everybody who reaches the address
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
    /// Allow --no-token on an address that others can reach
    #[arg(long)]
    insecure: bool,
    /// Host name by which outlive may be called, besides addresses and localhost; * for any
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Origin whose pages may talk to outlive, such as https://app.example
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    allow_origin: Vec<String>,
    /// Certificate chain (PEM) to speak TLS with; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Set a limit, such as maxConnections=100 (docs/security.md lists them)
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<String>,
    /// Time between TERM and KILL when outlive is stopped, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    grace_ms: u64,
    /// error, warn, info, debug or trace (or a filter as of tracing)
    #[arg(long, env = "OUTLIVE_LOG", default_value = "info", value_parser = parse_log_level)]
    log_level: String,
    /// text, or json for one object per line
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// A server that keeps dying is started again after at most this long, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    max_restart_delay_ms: u64,
    /// Hold trees in cgroups of their own: auto, or off
    #[arg(long, default_value = "auto", value_parser = ["auto", "off"])]
    cgroups: String,
}

fn parse_log_level(text: &str) -> Result<String, String> {
    let is_word = text.chars().all(char::is_alphanumeric);
    let is_level = ["error", "warn", "info", "debug", "trace", "off"].contains(&text.to_ascii_lowercase().as_str());
    match tracing_subscriber::EnvFilter::try_new(text) {
        // A single word that is no level would be taken for the name of a part.
        Ok(_) if !is_word || is_level => Ok(text.to_owned()),
        _ => Err("expected error, warn, info, debug or trace".into()),
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| "expected octal, such as 600".into())
}

fn parse_origin(text: &str) -> Result<String, String> {
    let place = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match place {
        Some(place) if !place.is_empty() && !place.contains(['/', '*', ' ']) => Ok(text.to_owned()),
        _ => Err("expected scheme and host, such as https://app.example (there is no wildcard)".into()),
    }
}

/// Returns only if it fails.
pub(crate) fn serve(options: &Options, connection: &Connection) -> i32 {
    match become_holder(options, connection) {
        Ok(never) => match never {},
        Err((code, message)) => {
            let _ = writeln!(io::stderr(), "outlive: {message}");
            code
        }
    }
}

enum Never {}

type Failed = (i32, String);

fn become_holder(options: &Options, connection: &Connection) -> Result<Never, Failed> {
    let address = resolve(&options.listen).map_err(|error| {
        (2, format!("cannot understand --listen {}: {error}; give HOST:PORT, such as 127.0.0.1:2468", options.listen))
    })?;
    let (settings, secret) = settings(options, connection)?;
    let open_to_all = settings.no_token && !options.insecure;
    let (listener, address) = listen_safely(address, open_to_all)?;
    let own = options.dialect.iter().map(|dialect| dialect.listen(open_to_all, options.socket_mode));
    let own = own.collect::<Result<Vec<_>, _>>()?;
    let failed = |error: io::Error| (1, format!("cannot start: {error}"));
    ensure_standard_streams().map_err(failed)?;
    let kept = |name: String, fd: OwnedFd| (name.into_bytes(), fd);
    let mut keep = vec![
        kept(kept_as(None, &ListenAt::Tcp(address.to_string())), listener.into()),
        kept(settings::KEPT_AS.to_owned(), settings.write().map_err(failed)?),
    ];
    if let Some(path) = &options.socket {
        let socket = unix_socket::listen(path, options.socket_mode)
            .map_err(|error| (1, format!("cannot listen on {}: {error}", path.display())))?;
        keep.push(kept(kept_as(None, &ListenAt::Unix(path.display().to_string())), socket));
    }
    let announced: Vec<String> = own.iter().map(|own| own.announcement(settings.tls.is_some())).collect();
    keep.extend(own.into_iter().map(|own| kept(own.name, own.fd)));
    let initial = Initial { settings: holder_settings(options), boot_id: random(), keep };
    let state = initial.into_state().map_err(failed)?;
    // Who has read that we listen may already tell us to stop: the holder will hear it.
    outlive_holder::block_signals().map_err(failed)?;
    let is_new = connection.token.as_ref().is_none_or(String::is_empty);
    announce(address, &settings, secret.as_deref(), is_new, connection.state_dir.as_deref());
    for line in announced {
        let _ = writeln!(io::stdout(), "{line}");
    }
    Err(failed(exec(&state)))
}

fn holder_settings(options: &Options) -> outlive_holder::Settings {
    let program = std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into());
    let text = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    outlive_holder::Settings {
        program: program.as_os_str().as_bytes().to_vec(),
        server_arguments: text(&[
            "outlive",
            "server",
            "--log-level",
            &options.log_level,
            "--log-format",
            &options.log_format,
        ]),
        holder_arguments: text(&["outlive", "hold"]),
        grace_ms: options.grace_ms,
        use_cgroups: options.cgroups == "auto",
        longest_backoff_ms: options.max_restart_delay_ms,
    }
}

/// What the servers are to know, and the token in clear for the local CLI, if there is one that may be told.
fn settings(options: &Options, connection: &Connection) -> Result<(Settings, Option<String>), Failed> {
    let mut settings = Settings {
        token_file: options.token_file.as_ref().map(|file| absolute(file)),
        no_token: options.no_token,
        allow_hosts: options.allow_host.clone(),
        allow_origins: options.allow_origin.clone(),
        allow_uids: options.allow_uid.clone(),
        tls: options
            .tls_cert
            .as_ref()
            .zip(options.tls_key.as_ref())
            .map(|(certificate, key)| settings::Tls { certificate: absolute(certificate), key: absolute(key) }),
        ..Settings::default()
    };
    for limit in &options.limit {
        settings.set_limit(limit).map_err(|why| (2, format!("--limit {limit}: {why}")))?;
    }
    if let Some(tls) = &settings.tls {
        crate::server::Tls::load(tls.clone()).map_err(|error| (1, format!("cannot speak TLS: {error}")))?;
    }
    if let Some(file) = &settings.token_file {
        token::read_file(file).map_err(|error| (1, format!("cannot use --token-file {}: {error}", file.display())))?;
    }
    let given = connection.token.clone().filter(|token| !token.is_empty());
    let secret = match given {
        Some(_) if options.no_token => {
            return Err((2, "--no-token contradicts --token (or OUTLIVE_TOKEN, which is set)".to_owned()));
        }
        Some(given) => Some(given),
        None if options.no_token || settings.token_file.is_some() => None,
        None => Some(token::random_secret().map_err(|error| (1, format!("no random numbers: {error}")))?),
    };
    settings.tokens.extend(secret.as_ref().map(|secret| Token::new("startup", Scope::Admin, secret)));
    Ok((settings, secret))
}

/// The holder will not stay where `serve` was called.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Connections are accepted from now on, even if they have to wait a moment for the server.
fn announce(address: SocketAddr, settings: &Settings, secret: Option<&str>, is_new: bool, state_dir: Option<&Path>) {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let local = Local {
        url,
        token: secret.map(str::to_owned),
        token_file: settings.token_file.clone(),
        certificate: settings.tls.as_ref().map(|tls| tls.certificate.clone()),
        holder_pid: std::process::id(),
        started_at_ms: outlive_holder::clock::wall_ms(),
    };
    let dir = local::state_dir(state_dir);
    if let Err(error) = local::publish(&dir, address.port(), &local) {
        let _ = writeln!(
            io::stderr(),
            "outlive: the CLI will need --url and --token, {} cannot be written: {error}",
            dir.display()
        );
    }
    let mut stdout = io::stdout();
    let _ = writeln!(stdout, "listening on {}", local.url);
    // One that was given is known to whoever gave it, and need not be in anybody's log.
    if let Some(secret) = secret.filter(|_| is_new) {
        let _ = writeln!(stdout, "open {}/#token={secret}", reachable(&local.url, address));
    }
    if settings.no_token && !address.ip().is_loopback() {
        let _ = writeln!(io::stderr(), "outlive: without a token, whoever reaches {address} can run commands");
    }
}

/// Nobody can open 0.0.0.0 from elsewhere, but here it can be tried.
fn reachable(url: &str, address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return url.to_owned();
    }
    let scheme = url.split(':').next().unwrap_or("http");
    format!("{scheme}://localhost:{}", address.port())
}

fn resolve(text: &str) -> io::Result<SocketAddr> {
    text.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such address"))
}

/// Whoever reaches an address that is open to all can run commands, so that has to be meant.
fn listen_safely(address: SocketAddr, open_to_all: bool) -> Result<(TcpListener, SocketAddr), Failed> {
    if open_to_all && !address.ip().is_loopback() {
        let message = format!(
            "{address} is not a loopback address: without a token whoever reaches it can run commands; \
             leave out --no-token, or say --insecure if that is meant"
        );
        return Err((2, message));
    }
    let listener = listen(address)
        .map_err(|error| (1, format!("cannot listen on {address}: {error}; is another outlive running there?")))?;
    let address = listener.local_addr().map_err(|error| (1, format!("cannot listen: {error}")))?;
    Ok((listener, address))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The holder gives descriptors 1 and 2 to servers, and children get their own in place of 0 to 2.
fn ensure_standard_streams() -> io::Result<()> {
    loop {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        match null {
            Ok(fd) if fd.as_raw_fd() < 3 => std::mem::forget(fd),
            // Not found in an empty chroot: the streams are open already, or there is nothing to open.
            Ok(_) | Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(bytes).max(1),
        // Only has to differ from one start to the next.
        Err(_) => outlive_holder::clock::wall_ms(),
    }
}

/// A fresh image: the holder keeps none of the memory that reading flags took, and shows no token that was in them.
fn exec(state: &OwnedFd) -> io::Error {
    let number = state.as_raw_fd().to_string();
    let image = |path: &std::ffi::OsStr| {
        Command::new(path).arg0("outlive").arg("hold").arg(&number).env_remove("OUTLIVE_TOKEN").exec()
    };
    let error = image("/proc/self/exe".as_ref());
    // A chroot without /proc.
    match std::env::args_os().next().filter(|_| error.kind() == io::ErrorKind::NotFound) {
        Some(path) => image(&path),
        None => error,
    }
}
