//! Commands of replication and clusters, none of which this version has: each says so, and none pretends.

use crate::call::Call;
use crate::core::Core;
use crate::session::Session;
use tollgate_resp::Reply;

const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
const NO_REPLICATION: &str = "needs replication, which this version does not have";

/// READONLY, READWRITE and ASKING, in the words that redis-cli looks for.
pub fn cluster_only(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.error(NO_CLUSTER);
}

/// REPLICAOF, SLAVEOF, WAIT.
pub fn replication(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.error(&format!("ERR {} {NO_REPLICATION}", name(call)));
}

fn name(call: &Call<'_>) -> String {
    call.text(0).to_ascii_uppercase()
}

/// ROLE: a primary without replicas.
pub fn role(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.array(3);
    reply.bulk_str("master");
    reply.integer(0);
    reply.array(0);
}
