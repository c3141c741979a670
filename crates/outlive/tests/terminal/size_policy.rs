//! The effective size of a terminal with several clients, and which clients learn of it.

use serde_json::json;

use self::Step::{Attach, Detach, Resize, SetByApi, Type};
use crate::harness::socket::Socket;
use crate::harness::{Outlive, eventually};
use crate::{list_attachments, read_control, synchronize};

/// The first number of a client's step is the client's index.
enum Step {
    Attach(usize, u16, u16),
    Type(usize),
    Resize(usize, u16, u16),
    Detach(usize),
    SetByApi(u16, u16),
}

/// Columns and rows.
type Size = (u16, u16);

/// Each step with the effective size after it.
const STEPS_LATEST: &[(Step, Size)] = &[
    (Attach(0, 100, 30), (100, 30)),
    (Attach(1, 80, 50), (100, 30)),
    (Attach(2, 120, 20), (100, 30)),
    (Type(1), (80, 50)),
    (Resize(2, 121, 21), (121, 21)),
    (Type(0), (100, 30)),
    (Detach(0), (121, 21)),
    (Detach(2), (80, 50)),
    (Detach(1), (80, 50)),
    (Attach(0, 100, 30), (100, 30)),
    (SetByApi(70, 22), (70, 22)),
    (Attach(1, 80, 50), (70, 22)),
    (Detach(1), (70, 22)),
    (Type(0), (100, 30)),
];

const STEPS_SMALLEST: &[(Step, Size)] = &[
    (Attach(0, 100, 30), (100, 30)),
    (Attach(1, 80, 50), (80, 30)),
    (Attach(2, 120, 20), (80, 20)),
    (Type(0), (80, 20)),
    (Resize(1, 60, 60), (60, 20)),
    (Detach(2), (60, 30)),
    (Detach(1), (100, 30)),
];

const STEPS_LARGEST: &[(Step, Size)] = &[
    (Attach(0, 100, 30), (100, 30)),
    (Attach(1, 80, 50), (100, 50)),
    (Attach(2, 120, 20), (120, 50)),
    (Type(0), (120, 50)),
    (Resize(1, 60, 40), (120, 40)),
    (Detach(2), (100, 40)),
];

const STEPS_FIXED: &[(Step, Size)] = &[
    (Attach(0, 100, 30), (90, 25)),
    (Attach(1, 80, 50), (90, 25)),
    (Attach(2, 120, 20), (90, 25)),
    (Resize(1, 60, 40), (90, 25)),
    (Type(2), (90, 25)),
    (SetByApi(70, 22), (70, 22)),
    (Detach(0), (70, 22)),
];

fn apply(step: &Step, outlive: &Outlive, id: &str, clients: &mut [Option<Socket>; 3]) {
    match *step {
        Attach(client, cols, rows) => {
            let query = format!("cols={cols}&rows={rows}");
            clients[client] = Some(Socket::connect(outlive.http(), id, &query, false));
        }
        Type(client) => {
            let client = clients[client].as_mut().unwrap();
            client.type_text(" ");
            synchronize(client);
        }
        Resize(client, cols, rows) => {
            let client = clients[client].as_mut().unwrap();
            client.resize(cols, rows);
            synchronize(client);
        }
        Detach(client) => {
            let before = list_attachments(outlive, id).len();
            clients[client].take().unwrap().disconnect();
            eventually("the detach", || (list_attachments(outlive, id).len() < before).then_some(()));
        }
        SetByApi(cols, rows) => {
            let size = json!({ "cols": cols, "rows": rows });
            assert_eq!(outlive.post(&format!("/v1/processes/{id}/resize"), &size).json, size);
        }
    }
}

#[test]
fn each_size_policy_computes_the_effective_size_of_three_clients() {
    let outlive = Outlive::start();
    for (policy, steps) in
        [("latest", STEPS_LATEST), ("smallest", STEPS_SMALLEST), ("largest", STEPS_LARGEST), ("fixed", STEPS_FIXED)]
    {
        let line = "stty -echo; echo up; n=0; while read x; do n=$((n+1)); echo \"size $n: $(stty size).\"; done";
        let id = outlive.start_process(json!({
            "command": line, "shell": true, "pty": { "cols": 90, "rows": 25 }, "sizePolicy": policy,
        }));
        outlive.wait_output(&id, "up");
        let mut clients: [Option<Socket>; 3] = [None, None, None];
        for (number, (step, (cols, rows))) in steps.iter().enumerate() {
            let what = format!("{policy}, step {number}");
            apply(step, &outlive, &id, &mut clients);
            // Input by the API counts for no client, so that it does not change the effective size.
            outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "\n", "encoding": "utf8" }));
            let printed = outlive.wait_output(&id, &format!("size {}: (\\d+) (\\d+)\\.", number + 1));
            assert_eq!(printed["groups"], json!([rows.to_string(), cols.to_string()]), "{what}");
            let info = outlive.info(&id);
            assert_eq!((&info["cols"], &info["rows"]), (&json!(cols), &json!(rows)), "{what}");
        }
    }
}

#[test]
fn a_resize_reaches_all_clients_and_the_program() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "trap 'stty size' WINCH; stty size; echo up; while :; do sleep 0.02; done", "shell": true, "tty": true, "cols": 91, "rows": 26,
    }));
    outlive.wait_output(&id, "26 91\r\nup");
    let mut one = Socket::connect(outlive.http(), &id, "", false);
    let mut other = Socket::connect(outlive.http(), &id, "", false);
    assert_eq!((&one.ready["cols"], &one.ready["rows"]), (&json!(91), &json!(26)));
    one.resize(70, 20);
    for socket in [&mut one, &mut other] {
        let frame = read_control(socket, "resized");
        assert_eq!((&frame["cols"], &frame["rows"]), (&json!(70), &json!(20)));
    }
    outlive.wait_output(&id, "20 70");
    let size = json!({ "cols": 71, "rows": 21 });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/terminal/resize"), &size).json, size);
    outlive.wait_output(&id, "21 71");
    assert_eq!(read_control(&mut other, "resized")["cols"], 71);
}
