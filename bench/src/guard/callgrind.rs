//! valgrind's callgrind: starts a program under it and reads its counts.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Cost;
use crate::Result;

/// Operation of `prctl`; libc has no constant for it.
const PR_GET_AUXV: u32 = 0x4155_5856;

pub fn check_installed() -> Result<()> {
    let found = |program: &str| {
        Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if found("valgrind") && found("vgdb") { Ok(()) } else { Err("the guard needs valgrind; install it".into()) }
}

/// Executes `program` under callgrind, whose files go to `directory`.
/// Called as `child under-callgrind DIRECTORY PROGRAM ARGUMENTS…`.
pub fn execute(directory: &str, program: &str, arguments: &[&str]) -> Result<()> {
    hide_auxiliary_vector()?;
    let error = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-systime=yes"])
        .arg(format!("--callgrind-out-file={directory}/counts"))
        .arg(format!("--vgdb-prefix={directory}/vgdb"))
        .arg(format!("--log-file={directory}/valgrind.log"))
        .arg(program)
        .args(arguments)
        .exec();
    Err(error.into())
}

/// Makes `prctl(PR_GET_AUXV)` fail. A program uses it to find the vDSO, which valgrind does not map. After the failure
/// the program reads /proc/self/auxv instead, which valgrind replaces with a copy that has no vDSO entry.
fn hide_auxiliary_vector() -> Result<()> {
    // Offsets in `seccomp_data`. The argument's low half comes first: x86-64 and arm64 are little-endian.
    const FIRST_ARGUMENT_OFFSET: u32 = 16;
    const SYSTEM_CALL_OFFSET: u32 = 0;
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let skip_unless = |value, count| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, count, value);
    let ret = |value| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let mut filter = [
        load(SYSTEM_CALL_OFFSET),
        skip_unless(libc::SYS_prctl as u32, 3),
        load(FIRST_ARGUMENT_OFFSET),
        skip_unless(PR_GET_AUXV, 1),
        ret(libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        ret(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is a local that outlives the call, and the kernel copies it.
    let has_failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if has_failed { Err(std::io::Error::last_os_error().into()) } else { Ok(()) }
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Resets all counts to zero.
pub fn reset_counts(directory: &Path, pid: i32) -> Result<()> {
    vgdb(directory, pid, "zero")
}

/// Returns the counts since the last reset.
pub fn read_counts(directory: &Path, pid: i32) -> Result<Cost> {
    let dumps = || -> Result<Vec<_>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
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
    vgdb(directory, pid, "dump")?;
    let dump = dumps()?.pop().ok_or("callgrind wrote no counts")?;
    parse(&fs::read_to_string(dump)?)
}

fn parse(dump: &str) -> Result<Cost> {
    let line = |name: &str| dump.lines().find_map(|line| line.strip_prefix(name)).map(str::split_whitespace);
    let (events, totals) = line("events:").zip(line("totals:")).ok_or("callgrind's counts have an unknown format")?;
    let count = |name: &str| {
        let found = events.clone().zip(totals.clone()).find(|(event, _)| *event == name);
        found.and_then(|(_, total)| total.parse::<f64>().ok()).unwrap_or(0.0)
    };
    Ok(Cost { instructions: count("Ir"), system_calls: count("sysCount") })
}

fn vgdb(directory: &Path, pid: i32, request: &str) -> Result<()> {
    let mut command = Command::new("vgdb");
    command.arg(format!("--vgdb-prefix={}/vgdb", directory.display())).arg(format!("--pid={pid}")).arg(request);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("vgdb {request}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_event_name() {
        let cost = parse("version: 1\nevents: Ir sysCount sysTime\nfn=x\n1 2\ntotals: 4434964 120 7\n").unwrap();
        assert_eq!((cost.instructions, cost.system_calls), (4_434_964.0, 120.0));
        assert!(parse("nothing").is_err());
    }
}
