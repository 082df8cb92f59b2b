//! What a connection needs of its byte stream. Plain TCP and Unix sockets now; TLS later is one more implementation.

use std::os::fd::AsRawFd;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A byte stream that a client is at the other end of.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {
    /// The socket's descriptor, for CLIENT LIST.
    fn descriptor(&self) -> i32;
}

impl Stream for TcpStream {
    fn descriptor(&self) -> i32 {
        self.as_raw_fd()
    }
}

impl Stream for UnixStream {
    fn descriptor(&self) -> i32 {
        self.as_raw_fd()
    }
}
