//! Waiting until the holder takes more.
//!
//! The poller hears of it only then: asked all the time, it would wake the server for every message that the holder has
//! taken.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;

/// A second descriptor of the line, which is in the poller only while somebody waits.
pub(super) struct Room(Arc<OwnedFd>);

impl Room {
    pub(super) fn of(socket: &OwnedFd) -> io::Result<Self> {
        Ok(Self(Arc::new(socket.try_clone()?)))
    }

    /// Calls `send` until it does not have to wait.
    pub(super) async fn send(&self, mut send: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        loop {
            match send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let polled = crate::polled::poll(Arc::clone(&self.0), Interest::WRITABLE)?;
            drop(polled.writable().await?);
        }
    }
}

#[cfg(test)]
mod tests {
    use outlive_holder::wire::Socket;

    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_sent_as_soon_as_it_does() {
        let (ours, theirs) = Socket::pair().unwrap();
        let ours = ours.into_fd();
        let room = Room::of(&ours).unwrap();
        let ours = Socket::from_fd(ours);
        let mut sent = 0;
        while ours.send(&[7; 1000], &[]).is_ok() {
            sent += 1;
        }
        let waiting = room.send(|| ours.send(&[8], &[]));
        let reading = async {
            for _ in 0..sent {
                assert_eq!(theirs.receive().unwrap().unwrap().bytes, [7; 1000]);
                tokio::task::yield_now().await;
            }
        };
        let (result, ()) = tokio::join!(waiting, reading);
        result.unwrap();
        assert_eq!(theirs.receive().unwrap().unwrap().bytes, [8]);
    }
}
