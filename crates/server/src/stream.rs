//! What a connection needs of its byte stream. Plain TCP and Unix sockets now; TLS later is one more implementation.

use std::os::fd::AsRawFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

/// A byte stream that a client is at the other end of.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {
    /// The socket's descriptor, for CLIENT LIST.
    fn descriptor(&self) -> i32;
    /// Ends once the client has left, even while what it sent before lies unread.
    fn gone(&self) -> impl Future<Output = ()>;
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

    async fn gone(&self) {
        read_half_closed!(self);
    }
}

impl Stream for UnixStream {
    fn descriptor(&self) -> i32 {
        self.as_raw_fd()
    }

    async fn gone(&self) {
        read_half_closed!(self);
    }
}
