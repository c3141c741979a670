//! TCP ports that a tree listens on.
//!
//! ```text
//!   /proc/PID/net/tcp{,6}   listening sockets of PID's network namespace, by inode
//!   /proc/PID/fd/*          which of those inodes PID has open
//! ```
//!
//! A member may have unshared its network, so the sockets are read once per network namespace.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::Serialize;

/// The state LISTEN in /proc/net/tcp.
const LISTEN: &str = "0A";

/// A port that a process listens on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListeningPort {
    pub port: u16,
    /// The address it is bound to: `127.0.0.1`, `0.0.0.0`, `::`, …
    pub address: String,
    /// The first member that has it open.
    pub pid: i32,
}

/// The listening ports of these processes, sorted by port and address. A shared socket is listed once.
pub fn listening_ports(members: &[i32]) -> Vec<ListeningPort> {
    let mut namespaces: HashMap<PathBuf, HashMap<u64, Socket>> = HashMap::new();
    let mut ports: Vec<ListeningPort> = Vec::new();
    for pid in members {
        // The link is unreadable: the process may be in any namespace, so it is treated as one of its own.
        let namespace = fs::read_link(format!("/proc/{pid}/ns/net"));
        let namespace = namespace.unwrap_or_else(|_| PathBuf::from(pid.to_string()));
        let sockets = match namespaces.entry(namespace) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(listening_sockets(*pid)),
        };
        if sockets.is_empty() {
            continue;
        }
        for inode in open_sockets(*pid) {
            // Removed, so that the next member that shares it does not list it again.
            if let Some(socket) = sockets.remove(&inode) {
                let address = socket.address.to_string();
                ports.push(ListeningPort { port: socket.port, address, pid: *pid });
            }
        }
    }
    ports.sort();
    // Several sockets on one address (SO_REUSEPORT) count as one port.
    ports.dedup_by(|a, b| (a.port, &a.address) == (b.port, &b.address));
    ports
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
}

fn listening_sockets(pid: i32) -> HashMap<u64, Socket> {
    let mut sockets = HashMap::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        sockets.extend(text.lines().filter_map(parse_line));
    }
    sockets
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`
fn parse_line(line: &str) -> Option<(u64, Socket)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((inode, Socket { address: parse_address(address)?, port }))
}

/// The kernel prints the network-order address as 32-bit words in this machine's byte order.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut octets = [0; 16];
            for (at, four) in octets.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

/// Inodes of a process's open sockets.
fn open_sockets(pid: i32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let inode = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn own_port(listener: &TcpListener) -> Option<ListeningPort> {
        let port = listener.local_addr().expect("it is bound").port();
        let ports = listening_ports(&[std::process::id() as i32]);
        ports.into_iter().find(|listening| listening.port == port)
    }

    #[test]
    fn a_listener_is_found_on_its_address() {
        let me = std::process::id() as i32;
        for address in ["127.0.0.1", "0.0.0.0", "::1", "::"] {
            // Not every machine has IPv6.
            let Ok(listener) = TcpListener::bind((address, 0)) else {
                continue;
            };
            let found = own_port(&listener).expect("our listener");
            assert_eq!((found.address.as_str(), found.pid), (address, me));
        }
    }

    #[test]
    fn connections_are_not_listed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("it is bound");
        let client = std::net::TcpStream::connect(server).expect("it connects");
        let local = client.local_addr().expect("it is bound").port();
        let ports = listening_ports(&[std::process::id() as i32]);
        assert!(ports.iter().any(|listening| listening.port == server.port()));
        assert!(ports.iter().all(|listening| listening.port != local));
    }

    #[test]
    fn an_inherited_listener_is_listed_once_for_the_first_member() {
        use std::os::fd::OwnedFd;
        use std::process::{Command, Stdio};

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let inherited = OwnedFd::from(listener.try_clone().expect("a descriptor"));
        let mut command = Command::new("sleep");
        let mut child = command.arg("1000").stdin(Stdio::from(inherited)).spawn().expect("sleep starts");
        let (me, pid) = (std::process::id() as i32, child.id() as i32);
        for members in [vec![me, pid], vec![pid, me], vec![pid]] {
            let found = listening_ports(&members);
            let ours: Vec<_> = found.iter().filter(|listening| listening.port == port).collect();
            assert_eq!(ours.len(), 1, "{found:?}");
            assert_eq!(ours[0].pid, members[0]);
        }
        child.kill().expect("our child");
        child.wait().expect("our child");
    }

    #[test]
    fn missing_processes_have_no_ports() {
        assert_eq!(listening_ports(&[i32::MAX]), []);
        assert_eq!(listening_ports(&[]), []);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_both_tables_are_parsed() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 777 1 0";
        let socket = Socket { address: Ipv4Addr::LOCALHOST.into(), port: 8080 };
        assert_eq!(parse_line(line), Some((777, socket)));
        let line = "   1: 00000000000000000000000001000000:0050 \
            00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 778 1 0";
        let socket = Socket { address: Ipv6Addr::LOCALHOST.into(), port: 80 };
        assert_eq!(parse_line(line), Some((778, socket)));
        let mapped = parse_address("0000000000000000FFFF00000100007F");
        assert_eq!(mapped.map(|address| address.to_string()).as_deref(), Some("::ffff:127.0.0.1"));
    }

    #[test]
    fn other_states_and_broken_lines_are_ignored() {
        let established = "  2: 0100007F:1F90 0100007F:A000 01 0:0 0:0 0 0 0 779 1";
        for line in ["", "  sl  local_address rem_address   st", established, "0: zz:1 0:0 0A 0 0 0 0 0 1", "é"] {
            assert_eq!(parse_line(line), None, "{line}");
        }
        for hex in ["", "0", "0100007", "0100007FF", "zzzzzzzz", "éééé"] {
            assert_eq!(parse_address(hex), None, "{hex}");
        }
    }

    #[test]
    fn the_wire_form_is_camel_case() {
        let port = ListeningPort { port: 80, address: "::".into(), pid: 7 };
        let json = serde_json::to_string(&port).expect("it serializes");
        assert_eq!(json, r#"{"port":80,"address":"::","pid":7}"#);
    }
}
