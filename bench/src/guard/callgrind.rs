//! valgrind's callgrind: starting a program under it, and asking it for its counts.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Cost;
use crate::Result;

/// `prctl(PR_GET_AUXV)`.
const PR_GET_AUXV: u32 = 0x4155_5856;

pub fn check_installed() -> Result<()> {
    let found = |program: &str| {
        Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if found("valgrind") && found("vgdb") { Ok(()) } else { Err("the guard needs valgrind; please install it".into()) }
}

/// Becomes `program` under callgrind, with its files in `folder`: `child under-callgrind FOLDER PROGRAM ARGUMENTS…`.
pub fn execute(folder: &str, program: &str, arguments: &[&str]) -> Result<()> {
    hide_auxiliary_vector()?;
    let error = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-systime=yes"])
        .arg(format!("--callgrind-out-file={folder}/counts"))
        .arg(format!("--vgdb-prefix={folder}/vgdb"))
        .arg(format!("--log-file={folder}/valgrind.log"))
        .arg(program)
        .args(arguments)
        .exec();
    Err(error.into())
}

/// Has the kernel refuse to give out the auxiliary vector. A program asks for it to find the vDSO, which is not there
/// under valgrind; refused, it reads /proc/self/auxv, and of that valgrind shows it a copy without the vDSO.
fn hide_auxiliary_vector() -> Result<()> {
    // The low half of the first argument; x86-64 and arm64 are little-endian.
    const FIRST_ARGUMENT: u32 = 16;
    const NUMBER: u32 = 0;
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let skip_unless = |value, count| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, count, value);
    let give_back = |value| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let mut filter = [
        load(NUMBER),
        skip_unless(libc::SYS_prctl as u32, 3),
        load(FIRST_ARGUMENT),
        skip_unless(PR_GET_AUXV, 1),
        give_back(libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        give_back(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is a local that lives through the call, which copies it.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if refused { Err(std::io::Error::last_os_error().into()) } else { Ok(()) }
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Begins to count at zero.
pub fn zero(folder: &Path, pid: i32) -> Result<()> {
    ask(folder, pid, "zero")
}

/// What was counted since then.
pub fn counts(folder: &Path, pid: i32) -> Result<Cost> {
    let dumps = || -> Result<Vec<_>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("counts.")) {
                found.push(path);
            }
        }
        Ok(found)
    };
    for old in dumps()? {
        fs::remove_file(old)?;
    }
    ask(folder, pid, "dump")?;
    let dump = dumps()?.pop().ok_or("callgrind wrote no counts")?;
    parse(&fs::read_to_string(dump)?)
}

fn parse(dump: &str) -> Result<Cost> {
    let line = |name: &str| dump.lines().find_map(|line| line.strip_prefix(name)).map(str::split_whitespace);
    let (events, totals) = line("events:").zip(line("totals:")).ok_or("counts in an unknown form")?;
    let count = |name: &str| {
        let found = events.clone().zip(totals.clone()).find(|(event, _)| *event == name);
        found.and_then(|(_, total)| total.parse::<f64>().ok()).unwrap_or(0.0)
    };
    Ok(Cost { instructions: count("Ir"), system_calls: count("sysCount") })
}

fn ask(folder: &Path, pid: i32, what: &str) -> Result<()> {
    let mut command = Command::new("vgdb");
    command.arg(format!("--vgdb-prefix={}/vgdb", folder.display())).arg(format!("--pid={pid}")).arg(what);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("vgdb {what}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_names() {
        let cost = parse("version: 1\nevents: Ir sysCount sysTime\nfn=x\n1 2\ntotals: 4434964 120 7\n").unwrap();
        assert_eq!((cost.instructions, cost.system_calls), (4_434_964.0, 120.0));
        assert!(parse("nothing").is_err());
    }
}
