//! A program that floods its standard output, read by one client: as plain bytes, and as log events.

use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload};
use crate::Result;
use crate::api;
use crate::measure::{Measure, Target, Unit};
use crate::pattern::{OutputKind, Pattern, PatternCheck};
use crate::raw::pipe;
use crate::sse::LogEvents;

const PLAIN_MEGABYTES: usize = 384;
const EVENT_MEGABYTES: usize = 96;
/// A stream without progress for this long has lost bytes; the workload stops waiting for it.
const STALL_TIMEOUT: Duration = Duration::from_millis(700);

pub struct PipeStream;

impl Workload for PipeStream {
    fn name(&self) -> &'static str {
        "pipe-stream"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::higher_is_better("pipe to /output", Unit::MegabytesPerSecond)
                .targets(&[Target::AtLeastRaw(0.25), Target::AtLeast(500.0)]),
            Measure::higher_is_better("pipe to log events, payload", Unit::MegabytesPerSecond)
                .targets(&[Target::AtLeast(150.0)]),
            Measure::lower_is_better("… lost", Unit::Percent).targets(&[Target::AtMost(0.0)]),
        ]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let rate = pipe::stream(bytes(effort, PLAIN_MEGABYTES))? / 1e6;
        Ok(vec![Some(rate), Some(rate), None])
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let plain = plain(side, bytes(effort, PLAIN_MEGABYTES))?;
        let (events, lost) = events(side, bytes(effort, EVENT_MEGABYTES))?;
        Ok(vec![plain, Some(events), Some(lost)])
    }
}

fn bytes(effort: Effort, megabytes: usize) -> u64 {
    effort.scaled(megabytes) as u64 * 1_000_000
}

fn plain(side: &Side<'_>, total: u64) -> Result<Option<f64>> {
    let mut connection = side.daemon.connect()?;
    let id =
        api::create_child(&mut connection, &["print-on-input", OutputKind::Raw.name(), &total.to_string()], false)?;
    let Some(path) = side.contender.plain_output_path(&id) else {
        api::remove(&mut connection, &id)?;
        return Ok(None);
    };
    let stream = side.daemon.connect()?.follow(&path)?;
    let pattern = Pattern::as_written(OutputKind::Raw);
    let mut check = PatternCheck::new(&pattern);
    let started = Instant::now();
    api::send_input(&mut connection, &id, "g")?;
    stream.for_each_chunk(|chunk| {
        check.feed(chunk);
        check.received < total
    })?;
    let time = started.elapsed();
    api::remove(&mut connection, &id)?;
    if check.received != total || check.first_mismatch.is_some() {
        return Err(format!(
            "received {} of {total} bytes, first mismatch at {:?}",
            check.received, check.first_mismatch
        )
        .into());
    }
    Ok(Some(total as f64 / time.as_secs_f64() / 1e6))
}

fn events(side: &Side<'_>, total: u64) -> Result<(f64, f64)> {
    let mut connection = side.daemon.connect()?;
    let id =
        api::create_child(&mut connection, &["print-on-input", OutputKind::Raw.name(), &total.to_string()], false)?;
    let stream = side.daemon.connect()?.follow(&side.contender.log_events_path(&id))?;
    let started = Instant::now();
    api::send_input(&mut connection, &id, "g")?;
    let (progress, progress_receiver) = std::sync::mpsc::channel::<()>();
    // A stream that lost bytes may never end; deleting the process ends it.
    let remover = thread::spawn(move || {
        while progress_receiver.recv_timeout(STALL_TIMEOUT).is_ok() {}
        api::remove(&mut connection, &id).map_err(|error| error.to_string())
    });
    let mut events = LogEvents::default();
    let mut time = Duration::ZERO;
    let mut last_progress = Instant::now();
    let followed = stream.for_each_chunk(|chunk| {
        events.feed(chunk);
        time = started.elapsed();
        if last_progress.elapsed() > STALL_TIMEOUT / 10 {
            last_progress = Instant::now();
            let _ = progress.send(());
        }
        events.payload_bytes < total && !events.has_ended
    });
    drop(progress);
    remover.join().map_err(|_| "the remover panicked")??;
    let lost = (total - events.payload_bytes.min(total)) as f64 / total as f64;
    if lost == 0.0 {
        followed?;
    }
    Ok((events.payload_bytes as f64 / time.as_secs_f64() / 1e6, lost * 100.0))
}
