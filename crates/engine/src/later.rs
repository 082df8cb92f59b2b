//! Commands that this version does not have: each says so, and none pretends.

use crate::call::Call;
use crate::core::Core;
use crate::session::Session;
use tollgate_resp::Reply;

const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";

/// READONLY, READWRITE and ASKING, in the words that redis-cli looks for.
pub fn cluster_only(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.error(NO_CLUSTER);
}
