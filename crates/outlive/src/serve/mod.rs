//! `outlive serve`: checks the flags, opens the listeners, publishes the daemon for the local CLI, and becomes the
//! holder by executing this program again as `outlive hold`.

mod dialects;
mod history;
mod listen;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use outlive_holder::InitialState;

use self::dialects::DialectListen;
use self::listen::{listen_tcp, listen_unix, resolve};
use crate::access::Scope;
use crate::access::token::{self, Token};
use crate::cli::ConnectionArgs;
use crate::local_daemon::{self, LocalDaemon};
use crate::server::{ListenAddress, listener_fd_name};
use crate::settings::{self, Settings};

#[derive(Args)]
pub(crate) struct Options {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:2468")]
    listen: String,
    /// Serve one dialect at the root of its own address: HOST:PORT or unix:PATH
    #[arg(long, value_name = "NAME=ADDR", value_parser = dialects::parse)]
    dialect: Vec<DialectListen>,
    /// Also listen on a Unix socket; root, this user and --allow-uid need no token
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Permissions of Unix sockets, in octal
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_mode)]
    socket_mode: u32,
    /// Allow another user on Unix sockets
    #[arg(long, value_name = "UID")]
    allow_uid: Vec<u32>,
    /// Read tokens from a file, one per line: TOKEN [read|write|admin [NAME]]; reloaded when it changes
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Disable authentication
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
    /// Allow --no-token on an address that is not loopback
    #[arg(long)]
    insecure: bool,
    /// Allow a host name in URLs, besides IP addresses and localhost; * allows any
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Allow web pages of an origin, such as https://app.example
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    allow_origin: Vec<String>,
    /// Enable TLS with this certificate chain (PEM); reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the TLS certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Set a limit, such as maxConnections=100 (docs/reference/limits.md lists them)
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<String>,
    /// Store output and records in this directory, or do not store them [default: /var/lib/outlive/PORT for root,
    /// ~/.local/state/outlive/PORT otherwise]
    #[arg(long, value_name = "DIR|off", env = "OUTLIVE_HISTORY")]
    history: Option<PathBuf>,
    /// Do not store processes with this tag in the history
    #[arg(long, value_name = "TAG")]
    history_exclude: Vec<String>,
    /// Time between TERM and KILL of all processes when outlive stops, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    grace_ms: u64,
    /// Log level: error, warn, info, debug, trace, or a tracing filter
    #[arg(long, env = "OUTLIVE_LOG", default_value = "info", value_parser = parse_log_level)]
    log_level: String,
    /// Log format
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// Maximum delay before a crashed server is restarted, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    max_restart_delay_ms: u64,
    /// Put each process tree into its own cgroup if possible
    #[arg(long, default_value = "auto", value_parser = ["auto", "off"])]
    cgroups: String,
}

fn parse_log_level(text: &str) -> Result<String, String> {
    let is_single_word = text.chars().all(char::is_alphanumeric);
    let is_level = ["error", "warn", "info", "debug", "trace", "off"].contains(&text.to_ascii_lowercase().as_str());
    match tracing_subscriber::EnvFilter::try_new(text) {
        // EnvFilter takes any other single word for the name of a module.
        Ok(_) if !is_single_word || is_level => Ok(text.to_owned()),
        _ => Err("expected error, warn, info, debug or trace".into()),
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| "expected octal, such as 600".into())
}

fn parse_origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '*', ' ']) => Ok(text.to_owned()),
        _ => Err("expected scheme and host, such as https://app.example (wildcards are not supported)".into()),
    }
}

/// Returns only if it fails, with the exit code.
pub(crate) fn serve(options: &Options, connection: &ConnectionArgs) -> i32 {
    match become_holder(options, connection) {
        Ok(never) => match never {},
        Err(error) => {
            let _ = writeln!(io::stderr(), "outlive: {}", error.message);
            error.exit_code
        }
    }
}

/// Why outlive cannot be started.
struct ServeError {
    exit_code: i32,
    message: String,
}

impl ServeError {
    /// The flags are wrong.
    fn usage(message: String) -> Self {
        Self { exit_code: 2, message }
    }

    fn failure(message: String) -> Self {
        Self { exit_code: 1, message }
    }

    fn cannot_start(error: impl std::fmt::Display) -> Self {
        Self::failure(format!("cannot start: {error}"))
    }
}

fn become_holder(options: &Options, connection: &ConnectionArgs) -> Result<Infallible, ServeError> {
    let address = resolve(&options.listen).map_err(|error| {
        let listen = &options.listen;
        ServeError::usage(format!("cannot resolve --listen {listen}: {error}; use HOST:PORT, such as 127.0.0.1:2468"))
    })?;
    let (mut settings, secret) = build_settings(options, connection)?;
    let requires_loopback = settings.no_token && !options.insecure;
    settings.history = history::settings(options.history.as_deref(), &options.history_exclude, address.port());
    let (listener, address) = listen_tcp(address, requires_loopback)?;
    let dialects = options.dialect.iter().map(|dialect| dialect.listen(requires_loopback, options.socket_mode));
    let dialects = dialects.collect::<Result<Vec<_>, _>>()?;
    ensure_standard_streams().map_err(ServeError::cannot_start)?;
    let named_fd = |name: String, fd: OwnedFd| (name.into_bytes(), fd);
    let mut stored_fds = vec![
        named_fd(listener_fd_name(None, &ListenAddress::Tcp(address.to_string())), listener.into()),
        named_fd(settings::FD_NAME.to_owned(), settings.write().map_err(ServeError::cannot_start)?),
    ];
    if let Some(path) = &options.socket {
        let socket = listen_unix(path, options.socket_mode)?;
        let name = listener_fd_name(None, &ListenAddress::Unix(path.display().to_string()));
        stored_fds.push(named_fd(name, socket));
    }
    let mut announcements: Vec<String> =
        dialects.iter().map(|open| open.announcement(settings.tls.is_some())).collect();
    announcements.push(history::announcement(&settings.history));
    stored_fds.extend(dialects.into_iter().map(|open| named_fd(open.fd_name, open.fd)));
    let initial = InitialState { settings: holder_settings(options), boot_id: random_id(), stored_fds };
    let state = initial.into_memfd().map_err(ServeError::cannot_start)?;
    // A script may send SIGTERM as soon as it has read the announcement. Blocked now, it stays pending for the holder.
    outlive_holder::block_signals().map_err(ServeError::cannot_start)?;
    let is_secret_new = connection.token.as_ref().is_none_or(String::is_empty);
    announce(address, &settings, secret.as_deref(), is_secret_new, connection.state_dir.as_deref());
    for line in announcements {
        let _ = writeln!(io::stdout(), "{line}");
    }
    Err(ServeError::cannot_start(exec_holder(&state)))
}

fn holder_settings(options: &Options) -> outlive_holder::Settings {
    let program = std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into());
    let arguments = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    outlive_holder::Settings {
        program: program.as_os_str().as_bytes().to_vec(),
        server_arguments: arguments(&[
            "outlive",
            "server",
            "--log-level",
            &options.log_level,
            "--log-format",
            &options.log_format,
        ]),
        holder_arguments: arguments(&["outlive", "hold"]),
        grace_ms: options.grace_ms,
        use_cgroups: options.cgroups == "auto",
        max_backoff_ms: options.max_restart_delay_ms,
        json_logs: options.log_format == "json",
    }
}

/// Settings for the servers, and the startup token in clear for the local CLI. Checks the files that they name.
fn build_settings(options: &Options, connection: &ConnectionArgs) -> Result<(Settings, Option<String>), ServeError> {
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
            .map(|(certificate, key)| settings::TlsFiles { certificate: absolute(certificate), key: absolute(key) }),
        ..Settings::default()
    };
    for limit in &options.limit {
        settings.set_limit(limit).map_err(|reason| ServeError::usage(format!("--limit {limit}: {reason}")))?;
    }
    if let Some(tls) = &settings.tls {
        crate::server::Tls::load(tls.clone())
            .map_err(|error| ServeError::failure(format!("cannot enable TLS: {error}")))?;
    }
    if let Some(file) = &settings.token_file {
        token::read_file(file)
            .map_err(|error| ServeError::failure(format!("cannot use --token-file {}: {error}", file.display())))?;
    }
    let given = connection.token.clone().filter(|token| !token.is_empty());
    let secret = match given {
        Some(_) if options.no_token => {
            let message = "--no-token cannot be used with --token or OUTLIVE_TOKEN";
            return Err(ServeError::usage(message.to_owned()));
        }
        Some(given) => Some(given),
        None if options.no_token || settings.token_file.is_some() => None,
        None => Some(token::random_secret().map_err(ServeError::cannot_start)?),
    };
    settings.tokens.extend(secret.as_ref().map(|secret| Token::new("startup", Scope::Admin, secret)));
    Ok((settings, secret))
}

/// The holder changes its working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints the address and publishes the daemon for the local CLI. Clients may connect from now on: they wait in the
/// backlog until the server accepts.
fn announce(
    address: SocketAddr,
    settings: &Settings,
    secret: Option<&str>,
    is_secret_new: bool,
    state_dir: Option<&Path>,
) {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let daemon = LocalDaemon {
        url,
        token: secret.map(str::to_owned),
        token_file: settings.token_file.clone(),
        certificate: settings.tls.as_ref().map(|tls| tls.certificate.clone()),
        holder_pid: std::process::id(),
        started_at_ms: outlive_holder::clock::wall_ms(),
    };
    let dir = local_daemon::state_dir(state_dir);
    if let Err(error) = local_daemon::publish(&dir, address.port(), &daemon) {
        let _ = writeln!(
            io::stderr(),
            "outlive: cannot write to {}: {error}; clients need --url and --token",
            dir.display()
        );
    }
    let mut stdout = io::stdout();
    let _ = writeln!(stdout, "listening on {}", daemon.url);
    // A token that the user has chosen is known, and should not appear in logs.
    if let Some(secret) = secret.filter(|_| is_secret_new) {
        let _ = writeln!(stdout, "open {}/#token={secret}", browser_url(&daemon.url, address));
    }
    if settings.no_token && !address.ip().is_loopback() {
        let _ = writeln!(
            io::stderr(),
            "outlive: warning: no token is set, everyone who can connect to {address} can run commands"
        );
    }
}

/// A URL to open on this machine: browsers cannot connect to 0.0.0.0.
fn browser_url(url: &str, address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return url.to_owned();
    }
    let scheme = url.split(':').next().unwrap_or("http");
    format!("{scheme}://localhost:{}", address.port())
}

/// Opens descriptors 0 to 2 if they are closed: the holder passes 1 and 2 to servers, and no other descriptor may get
/// these numbers.
fn ensure_standard_streams() -> io::Result<()> {
    loop {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        match null {
            Ok(fd) if fd.as_raw_fd() < 3 => std::mem::forget(fd),
            // Without /dev/null (an empty chroot) there is nothing to open.
            Ok(_) | Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn random_id() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(bytes).max(1),
        // It only has to differ between starts.
        Err(_) => outlive_holder::clock::wall_ms(),
    }
}

/// Replaces this image by the holder's: so the holder has none of the memory that parsing flags took, and its command
/// line shows no token.
fn exec_holder(state: &OwnedFd) -> io::Error {
    let state_fd = state.as_raw_fd().to_string();
    let exec = |path: &std::ffi::OsStr| {
        Command::new(path).arg0("outlive").arg("hold").arg(&state_fd).env_remove("OUTLIVE_TOKEN").exec()
    };
    let error = exec("/proc/self/exe".as_ref());
    // In a chroot without /proc.
    match std::env::args_os().next().filter(|_| error.kind() == io::ErrorKind::NotFound) {
        Some(path) => exec(&path),
        None => error,
    }
}
