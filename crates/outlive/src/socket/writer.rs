//! The writing half: what the client is given, in order, as fast as it takes it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use outlive_core::attach::{Size, SizePolicy};
use outlive_core::log::{Cursor, Item};
use outlive_core::process::Process;
use outlive_core::screen::Repaint;
use tokio::sync::mpsc;

use super::asked::Asked;
use super::close;
use super::credit::Credit;
use super::flood::Flood;
use super::speech::{AfterGap, Frames, Reply, Speech};
use crate::api::App;
use crate::front::Share;

/// How long a last word may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Frames that go out before everything else is looked at again.
const MOST_GATHERED: usize = 64;
/// So far behind, somebody who types is shown the screen instead of what leads to it: a browser draws as much in 50 milliseconds.
const FAR_BEHIND: u64 = 128 * 1024;

type RulingSize = (Option<Size>, Option<SizePolicy>);

pub(super) enum Ended {
    /// The client needs nothing more.
    Orderly,
    /// It may come back for the rest.
    Lost,
}

pub(super) struct Writer<'a, S> {
    pub(super) app: &'a App,
    pub(super) process: &'a Arc<Process>,
    pub(super) speech: &'a S,
    pub(super) sink: SplitSink<WebSocket, Message>,
    pub(super) queue: mpsc::Receiver<Reply>,
    pub(super) asked: Asked,
    pub(super) credit: Credit,
}

/// The client is gone.
struct Gone;

impl<S: Speech> Writer<'_, S> {
    pub(super) async fn run(&mut self, cursor: &mut Cursor, screen: Option<(Repaint, Share)>) -> Ended {
        self.work(cursor, screen).await.unwrap_or(Ended::Lost)
    }

    async fn work(&mut self, cursor: &mut Cursor, screen: Option<(Repaint, Share)>) -> Result<Ended, Gone> {
        if let Some(ready) = self.speech.ready(cursor) {
            self.send(ready).await?;
        }
        if let Some((repaint, _share)) = screen {
            self.paint(repaint).await?;
        }
        let mut size = self.process.ruling_size();
        let mut flood = Flood::new(cursor.offset());
        // Three tries before the peer is taken for dead.
        let ping_every = Duration::from_millis(self.app.limits.socket_timeout_ms / 3);
        let mut ping = tokio::time::interval(ping_every);
        ping.reset();
        loop {
            // What can be sent at once is gathered; what is gathered goes out before we sleep.
            // Only so much at a time: under a flood, pings and the end of things must have their turn too.
            let mut is_drained = false;
            for _ in 0..MOST_GATHERED {
                let room = self.credit.room(cursor.offset());
                if room == 0 {
                    break;
                }
                let Some(item) = cursor.try_next(room) else {
                    is_drained = true;
                    break;
                };
                outlive_core::hooks::reach("mid_write");
                if let Some(ended) = self.give(cursor, item).await? {
                    return Ok(ended);
                }
                if let Some(ping) = self.asked.ping(cursor) {
                    self.sink.feed(ping).await.map_err(|_| Gone)?;
                }
                while let Ok(reply) = self.queue.try_recv() {
                    if let Some(ended) = self.reply(cursor, reply).await? {
                        return Ok(ended);
                    }
                }
            }
            if let Some(ping) = self.asked.ping(cursor) {
                self.sink.feed(ping).await.map_err(|_| Gone)?;
            }
            self.sink.flush().await.map_err(|_| Gone)?;
            let rest = if is_drained { flood.rest(cursor) } else { None };
            let room = self.credit.room(cursor.offset());
            let next = async {
                if let Some(rest) = rest {
                    tokio::time::sleep(rest).await;
                }
                match room {
                    // Until it says that it has got something.
                    0 => std::future::pending().await,
                    room => cursor.next(room).await,
                }
            };
            let ended = tokio::select! {
                item = next => self.give(cursor, item).await?,
                Some(reply) = self.queue.recv() => self.reply(cursor, reply).await?,
                new = resized(self.process, size) => {
                    size = new;
                    if let Some(frame) = self.speech.resized(new.0) {
                        self.send(frame).await?;
                    }
                    None
                }
                _ = ping.tick() => {
                    self.send(Message::Ping(Bytes::new())).await?;
                    None
                }
                () = self.process.until_removed() => {
                    self.last_words(vec![self.speech.deleted()]).await;
                    Some(Ended::Orderly)
                }
                last = self.speech.dismissed() => {
                    self.last_words(vec![last]).await;
                    Some(Ended::Orderly)
                }
                () = self.app.ended() => {
                    self.last_words(vec![close(1012, "the server is being replaced; reconnect at your offset")]).await;
                    Some(Ended::Lost)
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn give(&mut self, cursor: &mut Cursor, item: Item) -> Result<Option<Ended>, Gone> {
        match item {
            Item::Bytes { stream, bytes, .. } => match self.speech.bytes(stream, bytes) {
                Frames::One(frame) => self.sink.feed(frame).await.map_err(|_| Gone)?,
                Frames::Several(frames) => {
                    for frame in frames {
                        self.sink.feed(frame).await.map_err(|_| Gone)?;
                    }
                }
            },
            Item::Gap { from, to } => {
                let screen = self.screen_after_gap(to).await;
                let to = screen.as_ref().map_or(to, |(screen, _)| screen.offset);
                match self.speech.gap(from, to) {
                    AfterGap::Say(frame) => {
                        // What is gone was never under way.
                        self.credit.acknowledged += to - from;
                        self.send(frame).await?;
                    }
                    AfterGap::End(frames) => {
                        self.last_words(frames).await;
                        return Ok(Some(Ended::Orderly));
                    }
                }
                if let Some(screen) = screen {
                    self.go_on_after(cursor, screen).await?;
                }
            }
            Item::BecameLive => {
                if let Some(frame) = self.speech.became_live() {
                    self.send(frame).await?;
                }
            }
            Item::Exit(exit) => {
                self.process.news();
                self.last_words(self.speech.exit(&exit)).await;
                return Ok(Some(Ended::Orderly));
            }
        }
        Ok(None)
    }

    async fn skip_ahead(&mut self, cursor: &mut Cursor) -> Result<(), Gone> {
        let from = cursor.offset();
        if cursor.log().head().saturating_sub(from) < FAR_BEHIND {
            return Ok(());
        }
        let Some(screen) = self.screen_after_gap(from).await else { return Ok(()) };
        let AfterGap::Say(gap) = self.speech.gap(from, screen.0.offset) else { return Ok(()) };
        self.send(gap).await?;
        self.go_on_after(cursor, screen).await
    }

    /// What a terminal shows by now, instead of what a client has missed and of what is left of it.
    async fn screen_after_gap(&self, to: u64) -> Option<(Repaint, Share)> {
        let scrollback = self.speech.repaints_after_gap().filter(|_| self.process.is_terminal())?;
        let screen = tokio::select! {
            screen = self.process.repaint(scrollback) => screen.ok()?,
            // Which is told by whoever waits next.
            () = self.process.until_removed() => return None,
            () = self.app.ended() => return None,
        };
        let share = self.app.unsent.share(screen.bytes.len())?;
        (screen.offset >= to).then_some((screen, share))
    }

    /// A screen stands for everything before it, also for what is still under way: the client need not even look at that.
    async fn go_on_after(&mut self, cursor: &mut Cursor, (screen, _share): (Repaint, Share)) -> Result<(), Gone> {
        cursor.skip_to(screen.offset);
        self.credit.acknowledged = self.credit.acknowledged.max(screen.offset);
        self.paint(screen).await
    }

    async fn paint(&mut self, screen: Repaint) -> Result<(), Gone> {
        for frame in self.speech.repaint(screen) {
            self.sink.feed(frame).await.map_err(|_| Gone)?;
        }
        self.sink.flush().await.map_err(|_| Gone)
    }

    async fn reply(&mut self, cursor: &mut Cursor, reply: Reply) -> Result<Option<Ended>, Gone> {
        match reply {
            Reply::Nothing => {}
            Reply::Send(frame) => self.send(frame).await?,
            Reply::Acknowledge(offset) => {
                self.asked.needless = true;
                self.credit.acknowledged = self.credit.acknowledged.max(offset.min(cursor.offset()));
                cursor.acknowledge(offset);
            }
            Reply::Answered(offset) if self.asked.needless || offset > self.asked.at => {}
            Reply::Answered(offset) => cursor.acknowledge(offset),
            Reply::Typed => self.skip_ahead(cursor).await?,
            Reply::Close(frame) => {
                self.last_words(vec![frame]).await;
                return Ok(Some(Ended::Orderly));
            }
        }
        Ok(None)
    }

    async fn send(&mut self, frame: Message) -> Result<(), Gone> {
        self.sink.send(frame).await.map_err(|_| Gone)
    }

    async fn last_words(&mut self, frames: Vec<Message>) {
        let say = async {
            for frame in frames {
                self.send(frame).await?;
            }
            Ok::<(), Gone>(())
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, say).await;
    }
}

/// Another size, or another rule about whose size it is.
async fn resized(process: &Process, from: RulingSize) -> RulingSize {
    process.until(|process| Some(process.ruling_size()).filter(|size| *size != from)).await
}
