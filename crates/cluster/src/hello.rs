//! How two nodes greet one another: who they are, and the proof that both know the secret.
//!
//! ```text
//! who asks                                  who answers
//!    hello: magic, version, group, id, nonce ──>
//!    <── hello: the same of its own
//!    HMAC(secret, "q" and both hellos) ──>                     only if there is a secret: if one side has one,
//!    <── HMAC(secret, "a" and both hellos)                     both must
//!    frames, each sealed with HMAC(secret, "session" and both hellos)
//! ```
//!
//! The hellos hold the nonces and the ids, so that a proof is worth nothing in another connection, nor the other way.

use crate::bounds;
use crate::frame::{Channel, FrameError, Side, hmac, is_same};
use serde::{Deserialize, Serialize};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_topology::NodeId;

const MAGIC: &str = "tollgate-peer";
/// Of what is said after the hello. Fields that a version does not know it passes over.
const VERSION: u32 = 1;
const NONCE_BYTES: usize = 32;

/// What a node says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    magic: String,
    version: u32,
    /// The group that it is in.
    pub group: String,
    /// The node.
    pub id: NodeId,
    /// Random, in hexadecimal digits.
    nonce: String,
    /// Whether it has a secret.
    has_secret: bool,
}

#[derive(Serialize, Deserialize)]
struct Proof {
    proof: String,
}

/// Why two nodes do not come together.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The connection ended.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is no hello of a node.
    #[error("what answers there is no node of Tollgate")]
    NotANode,
    /// A node of another time.
    #[error("the node there speaks version {0} of the peer protocol, this one {VERSION}")]
    Version(u32),
    /// One side has a secret, the other has none.
    #[error("one of the two nodes has a cluster secret, the other has none")]
    OneSecret,
    /// The secrets are not the same.
    #[error("the other node has another cluster secret")]
    OtherSecret,
    /// It took too long.
    #[error("the other node did not greet in time")]
    Late,
}

/// Random bytes of the system.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = bytes.get_mut(filled..).unwrap_or_default();
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Greets the other side: gives what it says of itself. The channel is sealed afterwards if there is a secret.
///
/// # Errors
/// [`HelloError`]: the connection is to be closed.
pub async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    group: &str,
    id: NodeId,
    secret: Option<&[u8]>,
) -> Result<Hello, HelloError> {
    let greeting = greet_at_leisure(channel, group, id, secret);
    tokio::time::timeout(bounds::HELLO_TIME_MAX, greeting).await.map_err(|_| HelloError::Late)?
}

async fn greet_at_leisure<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    group: &str,
    id: NodeId,
    secret: Option<&[u8]>,
) -> Result<Hello, HelloError> {
    let nonce = hex(&random::<NONCE_BYTES>().map_err(FrameError::Io)?);
    let has_secret = secret.is_some();
    let own = Hello { magic: MAGIC.to_owned(), version: VERSION, group: group.to_owned(), id, nonce, has_secret };
    let own = serde_json::to_vec(&own).map_err(|_| HelloError::NotANode)?;
    let asks = channel.side() == Side::Asks;
    // Who answers reads first: a client that came to the wrong port learns nothing of this node.
    if asks {
        channel.send(&own).await?;
    }
    let theirs = channel.receive(bounds::HELLO_BYTES_MAX).await?;
    let hello: Hello = serde_json::from_slice(&theirs).map_err(|_| HelloError::NotANode)?;
    if hello.magic != MAGIC || hello.nonce.len() != 2 * NONCE_BYTES {
        return Err(HelloError::NotANode);
    }
    if !asks {
        channel.send(&own).await?;
    }
    match secret {
        _ if hello.version != VERSION => return Err(HelloError::Version(hello.version)),
        _ if hello.has_secret != has_secret => return Err(HelloError::OneSecret),
        None => {}
        Some(secret) => prove(channel, secret, &own, &theirs).await?,
    }
    Ok(hello)
}

async fn prove<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    secret: &[u8],
    own: &[u8],
    theirs: &[u8],
) -> Result<(), HelloError> {
    let side = channel.side();
    let (asking, answering) = if side == Side::Asks { (own, theirs) } else { (theirs, own) };
    let proof_of = |side: Side| hmac(secret, &[&[side.byte()], asking, answering]).map_err(FrameError::Io);
    let (right, proof) = (hex(&proof_of(side.other())?), hex(&proof_of(side)?));
    let proof = serde_json::to_vec(&Proof { proof }).map_err(|_| HelloError::NotANode)?;
    // Who asks proves first, so that nobody gets anything to guess the secret by without knowing it.
    if side == Side::Asks {
        channel.send(&proof).await?;
    }
    let theirs = channel.receive(bounds::HELLO_BYTES_MAX).await?;
    let theirs: Proof = serde_json::from_slice(&theirs).map_err(|_| HelloError::NotANode)?;
    if !is_same(theirs.proof.as_bytes(), right.as_bytes()) {
        return Err(HelloError::OtherSecret);
    }
    if side == Side::Answers {
        channel.send(&proof).await?;
    }
    channel.seal(hmac(secret, &[b"session", asking, answering]).map_err(FrameError::Io)?);
    Ok(())
}
