use serde::Serialize;
#[derive(Serialize)]
pub struct ListeningPort { pub port: u16, pub address: String, pub pid: i32 }
#[derive(Serialize)]
pub struct TreeProcess { pub pid: i32, pub cpu_ms: u64, pub rss_bytes: u64 }
pub fn members(_pid: u32, _key: u64) -> Vec<i32> { Vec::new() }
pub fn listening_ports(_m: &[i32]) -> Vec<ListeningPort> { Vec::new() }
pub fn tree(_m: &[i32]) -> Vec<TreeProcess> { Vec::new() }
