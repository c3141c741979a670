//! Attaching to a terminal that has printed 10 MB, until all of it has arrived.

use std::time::Instant;

use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::api;
use crate::contenders::History;
use crate::measure::{Measure, Unit};
use crate::pattern::OutputKind;
use crate::raw::tcp;
use crate::sse::LogEvents;
use crate::websocket::Frame;

const BYTES: u64 = 10_000_000;

pub struct AttachHistory;

impl Workload for AttachHistory {
    fn name(&self) -> &'static str {
        "attach-history"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![Measure::lower_is_better("attach to a history of 10 MB", Unit::Milliseconds)]
    }

    fn rounds(&self, effort: Effort) -> usize {
        effort.fewer_rounds() + 1
    }

    /// The same number of bytes over loopback TCP.
    fn raw(&mut self, _: Effort) -> Result<Sample> {
        Ok(vec![Some(milliseconds(tcp::transfer(BYTES)?))])
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        let mut connection = side.daemon.connect()?;
        let id = api::create_child(
            &mut connection,
            &["print-on-terminal", OutputKind::Raw.name(), &BYTES.to_string()],
            true,
        )?;
        api::wait_until_ready(&mut connection, &id)?;
        api::send_input(&mut connection, &id, "g")?;
        api::wait_for_exit(&mut connection, &id)?;
        let started = Instant::now();
        read_all(side, &id)?;
        let time = started.elapsed();
        api::remove(&mut connection, &id)?;
        Ok(vec![Some(milliseconds(time))])
    }
}

fn read_all(side: &Side<'_>, id: &str) -> Result<()> {
    match side.contender.history(id) {
        History::Socket(path) => {
            let mut socket = api::attach_at(side.daemon, &path)?;
            let mut received = 0;
            while received < BYTES {
                match socket.next()? {
                    Frame::Binary(bytes) => received += bytes.len() as u64,
                    Frame::Text(_) => {}
                    Frame::Close => return Err(format!("the socket closed after {received} bytes").into()),
                }
            }
            Ok(())
        }
        History::Events(path) => {
            let mut events = LogEvents::default();
            side.daemon.connect()?.follow(&path)?.for_each_chunk(|chunk| {
                events.feed(chunk);
                events.payload_bytes < BYTES
            })
        }
    }
}
