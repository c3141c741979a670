//! Whose size a terminal has, and who is told of it.

use serde_json::json;

use crate::attached::{attachments, control, settle};
use crate::harness::socket::Socket;
use crate::harness::{Outlive, eventually};

enum Step {
    Come(usize, u16, u16),
    Type(usize),
    Resize(usize, u16, u16),
    Leave(usize),
    /// By the API, not by a client.
    Set(u16, u16),
}

#[test]
fn each_size_policy_with_three_clients() {
    use Step::{Come, Leave, Resize, Set, Type};
    let outlive = Outlive::start();
    // After each step: what `stty size` says inside, as columns and rows.
    let table = [
        (
            "latest",
            vec![
                (Come(0, 100, 30), (100, 30)),
                (Come(1, 80, 50), (100, 30)),
                (Come(2, 120, 20), (100, 30)),
                (Type(1), (80, 50)),
                (Resize(2, 121, 21), (121, 21)),
                (Type(0), (100, 30)),
                (Leave(0), (121, 21)),
                (Leave(2), (80, 50)),
                (Leave(1), (80, 50)),
                (Come(0, 100, 30), (100, 30)),
                (Set(70, 22), (70, 22)),
                (Come(1, 80, 50), (70, 22)),
                (Leave(1), (70, 22)),
                (Type(0), (100, 30)),
            ],
        ),
        (
            "smallest",
            vec![
                (Come(0, 100, 30), (100, 30)),
                (Come(1, 80, 50), (80, 30)),
                (Come(2, 120, 20), (80, 20)),
                (Type(0), (80, 20)),
                (Resize(1, 60, 60), (60, 20)),
                (Leave(2), (60, 30)),
                (Leave(1), (100, 30)),
            ],
        ),
        (
            "largest",
            vec![
                (Come(0, 100, 30), (100, 30)),
                (Come(1, 80, 50), (100, 50)),
                (Come(2, 120, 20), (120, 50)),
                (Type(0), (120, 50)),
                (Resize(1, 60, 40), (120, 40)),
                (Leave(2), (100, 40)),
            ],
        ),
        (
            "fixed",
            vec![
                (Come(0, 100, 30), (90, 25)),
                (Come(1, 80, 50), (90, 25)),
                (Come(2, 120, 20), (90, 25)),
                (Resize(1, 60, 40), (90, 25)),
                (Type(2), (90, 25)),
                (Set(70, 22), (70, 22)),
                (Leave(0), (70, 22)),
            ],
        ),
    ];
    for (policy, steps) in table {
        let line = "stty -echo; echo up; n=0; while read x; do n=$((n+1)); echo \"ask $n: $(stty size).\"; done";
        let id = outlive.start_process(json!({
            "command": line, "shell": true, "pty": { "cols": 90, "rows": 25 }, "sizePolicy": policy,
        }));
        outlive.wait_output(&id, "up");
        let mut clients: [Option<Socket>; 3] = [None, None, None];
        for (number, (step, (cols, rows))) in steps.into_iter().enumerate() {
            let what = format!("{policy}, step {number}");
            match step {
                Come(who, cols, rows) => {
                    clients[who] =
                        Some(Socket::connect(outlive.http(), &id, &format!("cols={cols}&rows={rows}"), false));
                }
                Type(who) => {
                    let client = clients[who].as_mut().unwrap();
                    client.type_text(" ");
                    settle(client);
                }
                Resize(who, cols, rows) => {
                    let client = clients[who].as_mut().unwrap();
                    client.resize(cols, rows);
                    settle(client);
                }
                Leave(who) => {
                    let before = attachments(&outlive, &id).len();
                    clients[who].take().unwrap().cut();
                    eventually(&what, || (attachments(&outlive, &id).len() < before).then_some(()));
                }
                Set(cols, rows) => {
                    let size = json!({ "cols": cols, "rows": rows });
                    assert_eq!(outlive.post(&format!("/v1/processes/{id}/resize"), &size).json, size);
                }
            }
            // The question comes by the API, which is nobody's typing.
            outlive.post(&format!("/v1/processes/{id}/input"), &json!({ "data": "\n", "encoding": "utf8" }));
            let said = outlive.wait_output(&id, &format!("ask {}: (\\d+) (\\d+)\\.", number + 1));
            assert_eq!(said["groups"], json!([rows.to_string(), cols.to_string()]), "{what}");
            let info = outlive.info(&id);
            assert_eq!((&info["cols"], &info["rows"]), (&json!(cols), &json!(rows)), "{what}");
        }
    }
}

#[test]
fn a_resize_is_told_to_all_and_to_the_program() {
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
        let frame = control(socket, "resized");
        assert_eq!((&frame["cols"], &frame["rows"]), (&json!(70), &json!(20)));
    }
    outlive.wait_output(&id, "20 70");
    let size = json!({ "cols": 71, "rows": 21 });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/terminal/resize"), &size).json, size);
    outlive.wait_output(&id, "21 71");
    assert_eq!(control(&mut other, "resized")["cols"], 71);
}
