//! Bus connection with admission control by [`CallLimiter`]. Rejected messages are discarded before zbus processes them.
//! Outgoing messages use two queues.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, Receiver, Sender};
use zbus::Address;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;
use zbus::message::Message;

use super::{CallLimiter, Entry, FULL};
use crate::lock;

/// Queue length. The limiter bounds the answers to readers, so they alone can never fill a queue.
const QUEUE: usize = 2 * FULL;
/// Queued messages from which calls are dropped instead of refused.
const MOST_REFUSALS: usize = 64;
const TOO_MANY: &str = "org.freedesktop.DBus.Error.LimitsExceeded";

/// A connection to the system bus, not authenticated yet.
#[derive(Debug)]
pub(crate) struct RateLimitedSocket {
    stream: UnixStream,
    interface: &'static str,
}

type Shared = Arc<Mutex<CallLimiter>>;

impl RateLimitedSocket {
    /// Connects; `interface` is the daemon's own.
    ///
    /// # Errors
    /// If there is no bus, or none that listens on a local socket.
    pub(crate) async fn connect(interface: &'static str) -> zbus::Result<Self> {
        let address = Address::system()?;
        let Transport::Unix(unix) = address.transport() else {
            return Err(zbus::Error::Unsupported);
        };
        let stream = match unix.path() {
            UnixSocket::File(path) => UnixStream::connect(path).await?,
            UnixSocket::Abstract(name) => {
                let name = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes())?;
                let stream = std::os::unix::net::UnixStream::connect_addr(&name)?;
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream)?
            }
            _ => return Err(zbus::Error::Unsupported),
        };
        Ok(RateLimitedSocket { stream, interface })
    }
}

impl Socket for RateLimitedSocket {
    type ReadHalf = RateLimitedReader;
    type WriteHalf = Exit;

    fn split(self) -> Split<RateLimitedReader, Exit> {
        let (read, write) = self.stream.into_split();
        let gate = Arc::new(Mutex::new(CallLimiter::new(self.interface)));
        let (urgent, urgent_out) = mpsc::channel(QUEUE);
        let (rest, rest_out) = mpsc::channel(QUEUE);
        tokio::spawn(write_out(write, urgent_out, rest_out, gate.clone()));
        let incoming = Incoming(BufReader::new(read));
        let entrance = RateLimitedReader { incoming, gate: gate.clone(), refusals: rest.clone() };
        Split::new(entrance, Exit { gate, to: Some((urgent, rest)) })
    }
}

/// Data to write.
enum Outgoing {
    /// Part of the handshake.
    Bytes(Vec<u8>),
    Message(Message),
}

async fn write_out(
    mut to: OwnedWriteHalf,
    mut urgent: Receiver<Outgoing>,
    mut rest: Receiver<Outgoing>,
    gate: Shared,
) {
    loop {
        let next = tokio::select! {
            biased;
            next = urgent.recv() => match next.or_else(|| rest.try_recv().ok()) {
                Some(next) => next,
                // Closed, and all messages are written.
                None => return,
            },
            Some(next) = rest.recv() => next,
        };
        let written = match &next {
            Outgoing::Bytes(bytes) => to.write_all(bytes).await,
            Outgoing::Message(message) => to.write_all(message.data()).await,
        };
        // The reading half detects and reports the end of the bus.
        if written.is_err() {
            return;
        }
        if let Outgoing::Message(message) = &next {
            lock(&gate).written(message);
        }
    }
}

/// Reads all messages.
#[derive(Debug)]
struct Incoming(BufReader<OwnedReadHalf>);

#[async_trait]
impl ReadHalf for Incoming {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.0.read(buffer).await?, Vec::new()))
    }
}

/// Reads admitted messages.
#[derive(Debug)]
pub(crate) struct RateLimitedReader {
    incoming: Incoming,
    gate: Shared,
    refusals: Sender<Outgoing>,
}

#[async_trait]
impl ReadHalf for RateLimitedReader {
    async fn receive_message(
        &mut self,
        sequence: u64,
        bytes: &mut Vec<u8>,
        descriptors: &mut Vec<OwnedFd>,
    ) -> zbus::Result<Message> {
        loop {
            let message = self.incoming.receive_message(sequence, bytes, descriptors).await?;
            let entry = lock(&self.gate).enter(&message);
            match entry {
                Entry::Pass => return Ok(message),
                Entry::Drop => {}
                // While many messages are queued, calls are dropped without a refusal. The bus stops a caller that continues:
                // it limits the pending answers per connection (`max_replies_per_connection`, dbus-daemon(1)).
                Entry::Refuse if self.refusals.capacity() > QUEUE - MOST_REFUSALS => {
                    let text = "too many pending calls; wait for their answers";
                    let refusal = Message::error(&message.header(), TOO_MANY).build(&text)?;
                    // If the queue is full by now, the call is dropped, as above.
                    let _ = self.refusals.try_send(Outgoing::Message(refusal));
                }
                Entry::Refuse => {}
            }
        }
    }

    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        self.incoming.recvmsg(buffer).await
    }
}

/// Queues messages for writing without blocking the sender.
#[derive(Debug)]
pub(crate) struct Exit {
    gate: Shared,
    to: Option<(Sender<Outgoing>, Sender<Outgoing>)>,
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection to the bus has ended")
}

#[async_trait]
impl WriteHalf for Exit {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        let (urgent, rest) = self.to.as_ref().ok_or_else(ended)?;
        let to = if lock(&self.gate).may_overtake(message) { urgent } else { rest };
        Ok(to.send(Outgoing::Message(message.clone())).await.map_err(|_| ended())?)
    }

    async fn sendmsg(&mut self, buffer: &[u8], _: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let (urgent, _) = self.to.as_ref().ok_or_else(ended)?;
        urgent.send(Outgoing::Bytes(buffer.to_vec())).await.map_err(|_| ended())?;
        Ok(buffer.len())
    }

    async fn close(&mut self) -> io::Result<()> {
        self.to = None;
        Ok(())
    }
}
