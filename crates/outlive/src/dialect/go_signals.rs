//! Names of signals as Go's standard library prints them. Platforms that are written in Go send them to their clients.

/// For example `killed` for 9.
pub(super) fn signal_text(signal: u8) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}
