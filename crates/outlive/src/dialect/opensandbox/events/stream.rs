//! Encodes a followed command ([`outlive_core::follow`]) as the body of a response.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use outlive_core::Error;
use outlive_core::attach::{Attachment, Role};
use outlive_core::follow::{Ending, Follow, FollowEvent, OnReaderGone};
use outlive_core::log::{Cursor, Exit, Stream};
use outlive_core::process::Process;
use outlive_core::session::{Exec, Session};
use tokio::time::{Instant, Interval, interval_at};

use super::event::{CommandEnd, Event, failure, ping};
use super::lines::{LongText, OutputFormat, Text, TextPart, TextSplitter};
use crate::dialect::opensandbox::error::Failure;
use crate::dialect::opensandbox::launch::program::START_ERROR;
use crate::http::peer::Peer;
use crate::http::{AppState, sse};

const PING_INTERVAL: Duration = Duration::from_secs(3);
const READ_BYTES: usize = 32 * 1024;
/// Events that are ready are batched into one write of about this size.
const WRITE_BYTES: usize = 64 * 1024;
/// An event id is the offset after the event's text times this, plus a number that orders the events at one offset.
const IDS_PER_OFFSET: u64 = 4;

/// Encodes output as events with ids.
pub(crate) struct OutputEncoder {
    /// stdout or the terminal, and stderr.
    splitters: [TextSplitter; 2],
    /// stderr is reported as stdout.
    merged: bool,
    /// Events up to this id were sent by an earlier stream and are left out.
    after_eid: u64,
    /// Offset after the last byte of output.
    offset: u64,
}

impl OutputEncoder {
    pub(crate) fn new(format: OutputFormat, after_eid: u64) -> Self {
        let splitters = [TextSplitter::new(format), TextSplitter::new(format)];
        Self { splitters, merged: false, after_eid, offset: 0 }
    }

    /// The offset after the text of an event.
    pub(crate) fn offset_of(eid: u64) -> u64 {
        eid / IDS_PER_OFFSET
    }

    fn exit_eid(exit: &Exit) -> u64 {
        exit.offset * IDS_PER_OFFSET + IDS_PER_OFFSET - 1
    }

    fn encode(&mut self, offset: u64, stream: Stream, bytes: &[u8], queue: &mut WriteQueue) {
        self.offset = offset + bytes.len() as u64;
        let received = Self::offset_of(self.after_eid);
        let mut rest = bytes;
        // Only lines that the exit ended have another id at this offset, and those were sent whole.
        let may_be_part = self.after_eid.is_multiple_of(IDS_PER_OFFSET);
        if may_be_part && offset < received && received <= self.offset {
            let (before, after) = bytes.split_at((received - offset) as usize);
            self.split(offset, stream, before, queue);
            // If the last event that the client received was a part of a line, it has all that is held back here.
            self.splitter(stream).discard_held();
            rest = after;
        }
        self.split(self.offset - rest.len() as u64, stream, rest, queue);
    }

    fn split(&mut self, offset: u64, stream: Stream, bytes: &[u8], queue: &mut WriteQueue) {
        let (kind, after_eid) = (self.kind(stream), self.after_eid);
        self.splitter(stream).feed(bytes, offset, |part| append_part(kind, part, 0, after_eid, queue));
    }

    fn splitter(&mut self, stream: Stream) -> &mut TextSplitter {
        &mut self.splitters[usize::from(stream == Stream::Stderr)]
    }

    /// Encodes incomplete lines after the last output.
    fn finish(&mut self, queue: &mut WriteQueue) {
        for (index, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
            let (kind, after_eid, order) = (self.kind(stream), self.after_eid, index as u64 + 1);
            self.splitters[index].finish(self.offset, |part| append_part(kind, part, order, after_eid, queue));
        }
    }

    fn kind(&self, stream: Stream) -> &'static str {
        if stream == Stream::Stderr && !self.merged { "stderr" } else { "stdout" }
    }
}

fn append_part(kind: &'static str, part: TextPart<'_>, order: u64, after_eid: u64, queue: &mut WriteQueue) {
    let eid = part.end * IDS_PER_OFFSET + order;
    if eid <= after_eid {
        return;
    }
    let event = Event { kind, eid, partial: part.partial, ..Event::default() };
    match part.text {
        Text::Short(text) => Event { text: Some(&text), ..event }.append_to(queue.buffer()),
        Text::Long(text) => queue.push_long(event, text),
    }
}

/// Events that wait to be sent, in order.
#[derive(Default)]
struct WriteQueue(VecDeque<Write>);

enum Write {
    Events(Vec<u8>),
    /// The text of an event and the end of that event. The text is encoded as it is sent, so that the memory of a long
    /// line does not multiply.
    LongText(LongText, Vec<u8>),
}

impl WriteQueue {
    /// The buffer to append the next event to.
    fn buffer(&mut self) -> &mut Vec<u8> {
        if !matches!(self.0.back(), Some(Write::Events(_))) {
            self.0.push_back(Write::Events(Vec::new()));
        }
        match self.0.back_mut() {
            Some(Write::Events(buffer)) => buffer,
            _ => unreachable!("pushed above"),
        }
    }

    fn push_long(&mut self, event: Event<'_>, text: LongText) {
        let (before, after) = event.around_text();
        self.buffer().extend_from_slice(&before);
        self.0.push_back(Write::LongText(text, after));
    }

    fn is_full(&self) -> bool {
        match self.0.front() {
            None => false,
            Some(Write::Events(buffer)) => self.0.len() > 1 || buffer.len() >= WRITE_BYTES,
            Some(Write::LongText(..)) => true,
        }
    }

    /// The next bytes to send.
    fn pop(&mut self) -> Option<Bytes> {
        if let Write::LongText(text, _) = self.0.front_mut()?
            && let Some(piece) = text.next_piece()
        {
            // Serializing text into memory cannot fail.
            let json = Bytes::from(serde_json::to_vec(&piece).unwrap_or_default());
            // Without its quotes.
            return Some(json.slice(1..json.len() - 1));
        }
        match self.0.pop_front()? {
            Write::Events(bytes) | Write::LongText(_, bytes) => Some(bytes.into()),
        }
    }
}

/// The stream of one command.
struct CommandStream {
    app: AppState,
    /// `None` after the last event.
    follow: Option<Follow>,
    encoder: OutputEncoder,
    queue: WriteQueue,
    timeout_ms: Option<u64>,
    pings: Interval,
    _attachment: Option<Attachment>,
}

/// Responds with the events of a process from `cursor` on. The process continues when the client leaves.
pub(crate) fn process_response(
    app: AppState,
    process: Arc<Process>,
    cursor: Cursor,
    encoder: OutputEncoder,
    opening: Vec<u8>,
    peer: &Peer,
) -> Result<Response, Failure> {
    let attachment = process.attach(Role::Viewer, Some(peer.to_string()), None)?;
    app.metrics.count_attachment();
    let timeout_ms = process.spec().timeout_ms;
    let follow = app.core.follow_process(process, cursor);
    Ok(CommandStream::new(app, follow, encoder, timeout_ms, Some(attachment)).into_response(opening))
}

/// Responds with the events of a session command. As in OpenSandbox, the command is cancelled when the client leaves,
/// so that the session is free for the next one.
pub(crate) fn exec_response(
    app: AppState,
    session: Arc<Session>,
    exec: Arc<Exec>,
    timeout_ms: Option<u64>,
    opening: Vec<u8>,
) -> Response {
    let follow = app.core.follow_exec(session, exec, OnReaderGone::Stop);
    let encoder = OutputEncoder { merged: true, ..OutputEncoder::new(OutputFormat::Lines, 0) };
    CommandStream::new(app, follow, encoder, timeout_ms, None).into_response(opening)
}

impl CommandStream {
    fn new(
        app: AppState,
        follow: Follow,
        encoder: OutputEncoder,
        timeout_ms: Option<u64>,
        attachment: Option<Attachment>,
    ) -> Self {
        let pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        let queue = WriteQueue::default();
        Self { app, follow: Some(follow), encoder, queue, timeout_ms, pings, _attachment: attachment }
    }

    fn into_response(self, opening: Vec<u8>) -> Response {
        let rest = stream::unfold(self, |mut events| async move {
            let events_as_bytes = events.next_write().await?;
            Some((events_as_bytes, events))
        });
        sse::raw_response(stream::iter([Ok(Bytes::from(opening))]).chain(rest))
    }

    /// Waits for an event and returns it together with all events that are ready by then.
    async fn next_write(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(bytes) = self.queue.pop() {
                return Some(Ok(bytes));
            }
            let follow = self.follow.as_mut()?;
            let event = tokio::select! {
                biased;
                () = self.app.until_shutdown() => {
                    self.close();
                    // A body that is cut off cannot be mistaken for a complete one.
                    return Some(Err(io::Error::other("the server is being replaced; the command continues")));
                }
                event = follow.next(READ_BYTES) => event,
                _ = self.pings.tick() => {
                    ping().append_to(self.queue.buffer());
                    None
                }
            };
            if let Some(event) = event {
                self.encode(event);
            }
            while !self.queue.is_full()
                && let Some(event) = self.follow.as_mut().and_then(|follow| follow.try_next(READ_BYTES))
            {
                self.encode(event);
            }
        }
    }

    fn encode(&mut self, event: FollowEvent) {
        match event {
            FollowEvent::Started => {}
            FollowEvent::Output { offset, stream, bytes } => {
                self.encoder.encode(offset, stream, &bytes, &mut self.queue);
            }
            // The protocol has no event for a gap, and the client must not take the output for complete.
            FollowEvent::Gap { from_offset: from, to_offset: to } => {
                let reason =
                    format!("output was not read in time: bytes {from} to {to} are gone; the command continues");
                failure(&reason).append_to(self.queue.buffer());
                self.close();
            }
            FollowEvent::Exited(ending) => {
                self.encoder.finish(&mut self.queue);
                let event = self.exit_event(&ending);
                event.append_to(self.queue.buffer());
                self.follow = None;
            }
            FollowEvent::Failed(Error::NotFound { .. }) => {
                failure("the command was deleted").append_to(self.queue.buffer());
                self.follow = None;
            }
            FollowEvent::Failed(error) => {
                failure(&error.to_string()).append_to(self.queue.buffer());
                self.follow = None;
            }
        }
    }

    fn exit_event(&self, ending: &Ending) -> Event<'static> {
        match ending {
            Ending::Exec(info) => CommandEnd::from_exec(info).to_event(info.duration_ms.unwrap_or(0), self.timeout_ms),
            Ending::Process(exit) => {
                let process = self.follow.as_ref().and_then(Follow::process);
                let start_error = process.and_then(|process| process.spec().annotations.get(START_ERROR).cloned());
                let mut event = if let Some(reason) = start_error {
                    failure(&reason)
                } else {
                    let started = process.and_then(|process| process.info().started_at_ms).unwrap_or(exit.at_ms);
                    CommandEnd::from_exit(exit).to_event(exit.at_ms.saturating_sub(started), self.timeout_ms)
                };
                event.eid = OutputEncoder::exit_eid(exit);
                event
            }
        }
    }

    /// Ends the stream without stopping the command.
    fn close(&mut self) {
        if let Some(follow) = self.follow.take() {
            follow.close();
        }
    }
}

impl Drop for CommandStream {
    fn drop(&mut self) {
        // A server that shuts down drops its streams although no client has left.
        if *self.app.shutdown.borrow() {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Encodes chunks of output, each with its offset and stream, up to the exit.
    fn events(after_eid: u64, chunks: &[(u64, Stream, &[u8])]) -> Vec<Value> {
        let mut encoder = OutputEncoder::new(OutputFormat::Lines, after_eid);
        let mut queue = WriteQueue::default();
        for (offset, stream, bytes) in chunks {
            for (at, piece) in bytes.chunks(READ_BYTES).enumerate() {
                encoder.encode(offset + (at * READ_BYTES) as u64, *stream, piece, &mut queue);
            }
        }
        encoder.finish(&mut queue);
        let mut text = Vec::new();
        while let Some(bytes) = queue.pop() {
            assert!(bytes.len() <= 8 * WRITE_BYTES, "{}", bytes.len());
            text.extend_from_slice(&bytes);
        }
        let text = String::from_utf8(text).unwrap();
        text.split_terminator("\n\n").map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    #[test]
    fn a_long_line_is_one_event_between_its_neighbours() {
        let long = "é\u{1}\"".repeat(600_000).into_bytes();
        let end = 2 + long.len() as u64;
        let chunks: [(u64, Stream, &[u8]); 4] = [
            (0, Stream::Stdout, b"a\n"),
            (2, Stream::Stdout, &long),
            (end, Stream::Stderr, b"e\n"),
            (end + 2, Stream::Stdout, b"\nb\n"),
        ];
        let events = events(0, &chunks);
        let texts: Vec<&str> = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
        assert_eq!((texts.len(), texts[0], texts[1], texts[3]), (4, "a", "e", "b"));
        assert!(texts[2].as_bytes() == long);
        assert_eq!(events[2]["eid"], (end + 3) * IDS_PER_OFFSET);
    }

    // Regression: a resumed stream sent a line again from its start, although the client had received a part of it.
    #[test]
    fn a_resumed_stream_continues_after_a_part_of_a_line() {
        let chunks: [(u64, Stream, &[u8]); 3] =
            [(0, Stream::Stdout, b"first "), (6, Stream::Stderr, b"e\n"), (8, Stream::Stdout, b"second\nthird\n")];
        let texts = |after: u64| -> Vec<String> {
            let texts = events(after * IDS_PER_OFFSET, &chunks).into_iter();
            texts.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(texts(0), ["e", "first second", "third"]);
        assert_eq!(texts(8), ["first second", "third"], "after a whole line of stderr");
        assert_eq!(texts(11), ["ond", "third"], "after a part that ends in this chunk");
        assert_eq!(texts(6), ["e", "second", "third"], "after a part that ends with its chunk");
        assert_eq!(texts(15), ["third"]);
        let chunks: [(u64, Stream, &[u8]); 2] = [(0, Stream::Stdout, b"out"), (3, Stream::Stderr, b"err")];
        let events = events(6 * IDS_PER_OFFSET + 1, &chunks);
        assert_eq!((events.len(), &events[0]["text"]), (1, &"err".into()), "lines that the exit ended");
    }
}
