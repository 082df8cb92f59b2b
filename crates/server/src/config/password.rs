//! A password that can be compared but not read back.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The SHA-256 of a password. The text itself is not kept, and `Debug` shows nothing of either.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash([u8; 32]);

impl PasswordHash {
    /// The hash of `password`.
    pub fn of(password: &[u8]) -> PasswordHash {
        PasswordHash(Sha256::digest(password).into())
    }

    /// Is `candidate` the password? The comparison takes the same time wherever the two hashes differ; the time of
    /// hashing depends on the candidate's length only, which its sender knows.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        let candidate_hash: [u8; 32] = Sha256::digest(candidate).into();
        self.0.ct_eq(&candidate_hash).into()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PasswordHash(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_matches() {
        let hash = PasswordHash::of(b"s3cret");
        assert!(hash.matches(b"s3cret"));
        for wrong in [&b"s3cre"[..], b"s3cret ", b"S3cret", b"", b"\0", b"s3cret\0"] {
            assert!(!hash.matches(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        let of_abc = PasswordHash::of(b"abc").0;
        assert_eq!(of_abc[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(of_abc[28..], [0xf2, 0x00, 0x15, 0xad]);
    }

    #[test]
    fn debug_hides_it() {
        assert_eq!(format!("{:?}", PasswordHash::of(b"s3cret")), "PasswordHash(hidden)");
    }
}
