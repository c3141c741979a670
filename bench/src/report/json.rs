//! The results as JSON: `bench/results/latest.json`.

use serde_json::{Value, json};

use super::{Row, RunInfo};
use crate::measure::Better;
use crate::statistics::Spread;

pub fn document(info: &RunInfo, rows: &[(&'static str, Row)], failures: &[String]) -> Value {
    json!({
        "takenAt": info.taken_at,
        "cores": info.cores,
        "loadBefore": info.load_before,
        "loadAfter": info.load_after,
        "quick": info.quick,
        "rounds": info.rounds,
        "seconds": info.seconds,
        "failures": failures,
        "measures": rows.iter().map(|(workload, row)| measure(info, workload, row)).collect::<Vec<_>>(),
    })
}

fn measure(info: &RunInfo, workload: &str, row: &Row) -> Value {
    let mut sides = serde_json::Map::new();
    sides.insert("raw".to_owned(), spread(row.raw.as_ref()));
    for (name, side) in info.contenders.iter().zip(&row.sides) {
        sides.insert((*name).to_owned(), spread(side.as_ref()));
    }
    let to_peers: serde_json::Map<String, Value> = info.contenders[1..]
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
        |spread| json!({"median": spread.median, "least": spread.min, "most": spread.max, "rounds": spread.count}),
    )
}
