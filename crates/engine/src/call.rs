//! One call, as its handler sees it.

use tollgate_limits::Micros;
use tollgate_resp::Args;
use tollgate_store::Located;

/// The arguments, the place of the first key, and the time.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// All arguments; 0 is the command's name.
    pub args: Args<'a>,
    /// Where the first key lies; of a call without keys: nowhere in particular.
    pub at: Located,
    /// The core's time, read once for the batch.
    pub now: Micros,
}

impl<'a> Call<'a> {
    /// Argument `position`, empty if there is none.
    #[inline]
    pub fn argument(&self, position: usize) -> &'a [u8] {
        self.args.get(position).unwrap_or_default()
    }

    /// The first key. Only for commands whose first key is at position 1.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.argument(1)
    }

    /// Argument `position` as UTF-8, with what is not replaced.
    pub fn text(&self, position: usize) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.argument(position))
    }

    /// Whether argument `position` is `word`, in any case.
    pub fn is_word(&self, position: usize, word: &str) -> bool {
        self.argument(position).eq_ignore_ascii_case(word.as_bytes())
    }
}
