//! What a connection needs of its byte stream. Plain TCP and Unix sockets now; TLS later is one more implementation.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

/// A byte stream that a client is at the other end of.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {
    /// The socket's descriptor, for CLIENT LIST.
    fn descriptor(&self) -> i32;
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// There can be none: it is no socket, or there are too many.
    fn duplicate(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Ends once the client has left, even while what it sent before lies unread.
    fn gone(&self) -> impl Future<Output = ()>;

    /// Writes what it takes at once. Nobody is woken when it takes more: [`io::ErrorKind::WouldBlock`] if it takes
    /// nothing now.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(self).poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether there may be something to read. If not, the calling task is woken when there is. A stream that does not
    /// know says yes.
    fn poll_readable(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Of the two events that are reported under this interest, a closed read half is one; the other, urgent data, nobody
/// who speaks RESP sends.
macro_rules! read_half_closed {
    ($stream:expr) => {
        if $stream.ready(Interest::PRIORITY).await.is_ok_and(|ready| !ready.is_read_closed()) {
            std::future::pending().await
        }
    };
}

impl Stream for TcpStream {
    fn descriptor(&self) -> i32 {
        self.as_raw_fd()
    }

    fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    async fn gone(&self) {
        read_half_closed!(self);
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TcpStream::try_write(self, bytes)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_read_ready(context).map(drop)
    }
}

impl Stream for UnixStream {
    fn descriptor(&self) -> i32 {
        self.as_raw_fd()
    }

    fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    async fn gone(&self) {
        read_half_closed!(self);
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        UnixStream::try_write(self, bytes)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_read_ready(context).map(drop)
    }
}
