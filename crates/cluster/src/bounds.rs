//! Everything that has a limit in this crate, in one place.

use std::time::Duration;

/// Bytes of the JSON of a hello, at most.
pub const HELLO_BYTES_MAX: usize = 4 * 1024;
/// Until a hello and its proof are done.
pub const HELLO_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes of the JSON of any other frame, at most.
pub const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What is read at once: memory is taken for what has come, never for what was declared.
pub const READ_BYTES: usize = 16 * 1024;
/// Connections that nodes have to this one, at most: a leader has about three with each node.
pub const CONNECTIONS_MAX: usize = 128;
/// Those of them that have not proven yet that they belong here.
pub const UNPROVEN_MAX: usize = 16;
/// A request and its answer.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// A connection on which nothing was asked for so long is closed.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// Until a connection is there.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
/// Connections to one node that wait for their next request.
pub const IDLE_CONNECTIONS_MAX: usize = 4;
/// Requests to one node that are not answered yet: beyond, it is as one that cannot be reached.
pub const REQUESTS_MAX: usize = 16;

/// A change that somebody asked for, until it is known what came of it.
pub const PROPOSE_TIME_MAX: Duration = Duration::from_secs(5);
/// Changes that are under way at a leader, and at a node.
pub const PROPOSALS_MAX: usize = 256;
/// A join, from the command to the map with the new node in it.
pub const MEET_TIME_MAX: Duration = Duration::from_secs(5);
/// A failover that an operator asked for.
pub const FAILOVER_TIME_MAX: Duration = Duration::from_secs(10);
/// What a primary may take until its replica has all.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);
/// How long a forced failover tries it in order before.
pub const FORCED_IN_ORDER_TIME_MAX: Duration = Duration::from_secs(1);
/// How long it waits then until it is permitted.
pub const FORCED_TIME_MAX: Duration = Duration::from_secs(5);

/// Asks of a node that are not answered yet.
pub const ASKS_MAX: usize = 4;
/// Asks that wait for a leader's next round.
pub const ASKS_WAITING_MAX: usize = 1_024;
/// A round of a majority.
pub const ROUND_TIME_MAX: Duration = Duration::from_millis(500);
/// Between two looks of a leader at who is gone.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two looks at who should vote.
pub const MEMBERS_EVERY: Duration = Duration::from_millis(200);
/// An ask waits for its answer so many parts of a lease: whoever leads by then is to be found in time.
pub const ASK_PARTS_OF_LEASE: u32 = 3;
/// Steps that are made one right after another then.
pub const MEMBER_STEPS_MAX: usize = 16;
/// After an answer that was none.
pub const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Nodes that vote, at most.
pub const VOTERS_MAX: usize = 7;
/// A voter that was not heard for so long is replaced, in microseconds.
pub const VOTER_SILENT_MICROS: u64 = 5_000_000;
/// A learner lacks at most so many entries to be made a voter.
pub const CAUGHT_UP_ENTRIES: u64 = 64;

/// Between two heartbeats of a leader.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(50);
/// What a node may take to answer a heartbeat, a round or entries of the log before it is asked anew, in milliseconds:
/// more than a disk takes that is busy.
pub const MESSAGE_MS_MAX: u64 = 150;
/// What a node may take to answer that it votes, in milliseconds.
pub const VOTE_MS_MAX: u64 = 155;
/// Between two tries of a node to be elected, at least, and what the voters may take to say whether they miss a leader.
pub const ELECTION_TRY_TIME: Duration = Duration::from_millis(80);
/// So long after it has heard of a leader a node votes for no other, in milliseconds.
pub const LEADER_HEARD_MS: u64 = 160;
/// A node waits up to so much longer, in milliseconds, before it asks to be elected.
pub const ELECTION_PATIENCE_MS_MAX: u64 = 120;
/// When it was not elected it waits [`ELECTION_TRY_TIME`] and up to so much longer, in milliseconds.
pub const ELECTION_RETRY_MS_MAX: u64 = 240;
/// Entries after which a snapshot is made.
pub const SNAPSHOT_ENTRIES: u64 = 500;
/// Entries that are kept all the same, for nodes that lack a few.
pub const LOG_ENTRIES_KEPT: u64 = 100;
/// Entries that one message carries, at most.
pub const MESSAGE_ENTRIES_MAX: u64 = 64;
/// Bytes of a snapshot in one message: as numbers in JSON they are four times as many.
pub const SNAPSHOT_CHUNK_BYTES: u64 = 1024 * 1024;
/// What the database keeps in memory, in bytes.
pub const DATABASE_CACHE_BYTES: usize = 1024 * 1024;

const _: () = assert!(SNAPSHOT_CHUNK_BYTES * 4 < FRAME_BYTES_MAX as u64 - 64 * 1024, "a chunk fits in a frame");
const _: () = assert!(MESSAGE_MS_MAX < VOTE_MS_MAX && VOTE_MS_MAX < LEADER_HEARD_MS, "as the library wants it");
