//! The same for programs: bench/results/latest.json.

use serde_json::{Value, json};

use super::{Row, Setting};
use crate::measure::Better;
use crate::statistics::Spread;

pub fn document(setting: &Setting, rows: &[(&'static str, Row)], failures: &[String]) -> Value {
    json!({
        "takenAt": setting.taken_at,
        "cores": setting.cores,
        "loadBefore": setting.load_before,
        "loadAfter": setting.load_after,
        "quick": setting.quick,
        "rounds": setting.rounds,
        "seconds": setting.seconds,
        "failures": failures,
        "measures": rows.iter().map(|(workload, row)| measure(setting, workload, row)).collect::<Vec<_>>(),
    })
}

fn measure(setting: &Setting, workload: &str, row: &Row) -> Value {
    let mut sides = serde_json::Map::new();
    sides.insert("raw".to_owned(), spread(row.raw.as_ref()));
    for (name, side) in setting.contenders.iter().zip(&row.sides) {
        sides.insert((*name).to_owned(), spread(side.as_ref()));
    }
    let to_peers: serde_json::Map<String, Value> = setting.contenders[1..]
        .iter()
        .zip(&row.to_peers)
        .map(|(name, ratio)| ((*name).to_owned(), json!(ratio)))
        .collect();
    let targets = row.verdicts.iter().map(|verdict| json!({"target": verdict.text, "met": verdict.is_met}));
    json!({
        "workload": workload,
        "name": row.measure.name,
        "unit": row.measure.unit.name(),
        "better": match row.measure.better { Better::Less => "less", Better::More => "more" },
        "sides": sides,
        "ratioToRaw": row.to_raw,
        "ratioToPeers": to_peers,
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn spread(spread: Option<&Spread>) -> Value {
    spread.map_or(
        Value::Null,
        |spread| json!({"median": spread.median, "least": spread.least, "most": spread.most, "rounds": spread.count}),
    )
}
