//! Frames on a connection between nodes.
//!
//! ```text
//! length u32, little endian │ JSON │ 16 bytes of HMAC-SHA256, once both sides have proven that they know the secret
//! ```
//!
//! The length is that of the JSON. The HMAC is over direction, number of the frame in its direction, length and JSON,
//! so that a frame can be neither made up, nor changed, nor left out, nor sent again.
//!
//! **Invariant:** memory is taken for bytes that have come, never for a length that was declared.

use crate::bounds;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of an HMAC that a frame carries.
pub const TAG_BYTES: usize = 16;
const LENGTH_BYTES: usize = 4;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection broke, or the other side has ended it.
    #[error("the connection ended: {0}")]
    Io(#[from] io::Error),
    /// A frame is longer than it may be.
    #[error("a frame of {0} bytes is too long")]
    TooLong(u64),
    /// A frame was not made by who knows the secret, or came out of turn.
    #[error("a frame is not authentic")]
    Forged,
}

/// Which side of a connection one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It has opened the connection.
    Asks,
    /// It was connected to.
    Answers,
}

impl Side {
    /// The byte that stands for it.
    pub fn byte(self) -> u8 {
        match self {
            Side::Asks => b'q',
            Side::Answers => b'a',
        }
    }

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Asks => Side::Answers,
            Side::Answers => Side::Asks,
        }
    }
}

struct Seal {
    key: [u8; 32],
    sent: u64,
    received: u64,
}

/// A connection that carries frames.
pub struct Channel<S> {
    stream: S,
    side: Side,
    seal: Option<Seal>,
}

/// An HMAC over some parts, each with its length, so that no two lists of parts are one text.
pub fn hmac(key: &[u8], parts: &[&[u8]]) -> io::Result<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(io::Error::other)?;
    for part in parts {
        mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        mac.update(part);
    }
    Ok(mac.finalize().into_bytes().into())
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channel<S> {
    /// One without seals yet.
    pub fn new(stream: S, side: Side) -> Channel<S> {
        Channel { stream, side, seal: None }
    }

    /// Frames carry an HMAC from now on.
    pub fn seal(&mut self, key: [u8; 32]) {
        self.seal = Some(Seal { key, sent: 0, received: 0 });
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// The connection broke, or the frame is too long.
    pub async fn send(&mut self, json: &[u8]) -> Result<(), FrameError> {
        let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= bounds::FRAME_BYTES_MAX);
        let length = length.ok_or(FrameError::TooLong(u64::try_from(json.len()).unwrap_or(u64::MAX)))?;
        let mut bytes = Vec::with_capacity(LENGTH_BYTES + json.len() + TAG_BYTES);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(json);
        if let Some(seal) = &mut self.seal {
            let tag = hmac(&seal.key, &[&[self.side.byte()], &seal.sent.to_le_bytes(), json])?;
            bytes.extend(tag.iter().take(TAG_BYTES));
            seal.sent = seal.sent.saturating_add(1);
        }
        self.stream.write_all(&bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits until a frame begins; gives the length of its JSON.
    ///
    /// # Errors
    /// The connection ended, or the frame is longer than `bytes_max`.
    pub async fn receive_length(&mut self, bytes_max: usize) -> Result<usize, FrameError> {
        let mut length = [0; LENGTH_BYTES];
        self.stream.read_exact(&mut length).await?;
        let declared = u32::from_le_bytes(length);
        let length = usize::try_from(declared).ok().filter(|length| *length <= bytes_max);
        length.ok_or(FrameError::TooLong(u64::from(declared)))
    }

    /// Takes the rest of a frame.
    ///
    /// # Errors
    /// The connection ended, or the frame is not authentic.
    pub async fn receive_rest(&mut self, length: usize) -> Result<Vec<u8>, FrameError> {
        let json = self.read_piecewise(length).await?;
        if let Some(seal) = &mut self.seal {
            let mut tag = [0; TAG_BYTES];
            self.stream.read_exact(&mut tag).await?;
            let right = hmac(&seal.key, &[&[self.side.other().byte()], &seal.received.to_le_bytes(), &json])?;
            let right = right.first_chunk::<TAG_BYTES>().ok_or(FrameError::Forged)?;
            if !is_same(&tag, right) {
                return Err(FrameError::Forged);
            }
            seal.received = seal.received.saturating_add(1);
        }
        Ok(json)
    }

    /// Takes a frame.
    ///
    /// # Errors
    /// See [`Channel::receive_length`] and [`Channel::receive_rest`].
    pub async fn receive(&mut self, bytes_max: usize) -> Result<Vec<u8>, FrameError> {
        let length = self.receive_length(bytes_max).await?;
        self.receive_rest(length).await
    }

    async fn read_piecewise(&mut self, length: usize) -> Result<Vec<u8>, FrameError> {
        let mut bytes = Vec::new();
        let mut piece = [0; bounds::READ_BYTES];
        while bytes.len() < length {
            let most = piece.len().min(length - bytes.len());
            let place = piece.get_mut(..most).unwrap_or_default();
            let count = self.stream.read(place).await?;
            if count == 0 {
                return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            bytes.extend(place.iter().take(count));
        }
        Ok(bytes)
    }
}

/// Compares in a time that does not tell where two differ.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(one, other).into()
}
