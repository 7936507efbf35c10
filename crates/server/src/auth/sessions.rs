//! Browsers: a link that works once and soon, and the session that it begins. In memory only; after a restart one logs
//! in again. What a session may do is what its key may: it is asked anew on every call, so a revoked key ends it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_core::time::{HOUR_MS, MINUTE_MS, Timestamp};
use redrive_store::Dice;

use super::secret::hash_secret;

pub const LINK_MS: u64 = 15 * MINUTE_MS;
/// Without a call for this long, a session is over.
pub const SESSION_IDLE_MS: u64 = HOUR_MS;
/// However busy, a session is over after this.
pub const SESSION_MS: u64 = 12 * HOUR_MS;
const LINKS_MAX: usize = 1_000;
const SESSIONS_MAX: usize = 10_000;
/// Whoever has the key itself gains nothing by more.
const SESSIONS_PER_KEY_MAX: usize = 100;
const TOKEN_BYTES: usize = 32;

/// Whose a link or a session is: the hash of a key.
type KeyHash = [u8; 32];
/// Tokens are kept as their hashes, like keys: what is read from memory opens nothing.
type TokenHash = [u8; 32];

struct Link {
    key: KeyHash,
    until: Timestamp,
}

struct Session {
    key: KeyHash,
    begun: Timestamp,
    seen: Timestamp,
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.seen) >= SESSION_IDLE_MS || now.since(self.begun) >= SESSION_MS
    }
}

#[derive(Default)]
struct Book {
    links: HashMap<TokenHash, Link>,
    sessions: HashMap<TokenHash, Session>,
}

impl Book {
    fn begin(&mut self, key: KeyHash, now: Timestamp, dice: &dyn Dice) -> String {
        let token = new_token(dice);
        self.sessions.retain(|_, session| !session.is_over(now));
        self.make_room_for(key);
        self.sessions.insert(hash_secret(&token), Session { key, begun: now, seen: now });
        token
    }

    /// A key at its bound gives up its own oldest session. When all places are taken, the key with the most sessions
    /// does: many logins with one key never end a session of another that has fewer.
    fn make_room_for(&mut self, key: KeyHash) {
        let mut by_key: HashMap<KeyHash, usize> = HashMap::new();
        for session in self.sessions.values() {
            *by_key.entry(session.key).or_default() += 1;
        }
        let own = by_key.get(&key).copied().unwrap_or_default();
        let gives_up = if own >= SESSIONS_PER_KEY_MAX {
            Some(key)
        } else if self.sessions.len() >= SESSIONS_MAX {
            by_key.into_iter().max_by_key(|(_, count)| *count).map(|(key, _)| key)
        } else {
            None
        };
        let Some(from) = gives_up else { return };
        let of_key = self.sessions.iter().filter(|(_, session)| session.key == from);
        if let Some(oldest) = of_key.min_by_key(|(_, session)| session.seen).map(|(hash, _)| *hash) {
            self.sessions.remove(&oldest);
        }
    }
}

#[derive(Default)]
pub(crate) struct Sessions(Mutex<Book>);

impl Sessions {
    /// A token that begins one session for this key.
    pub(crate) fn new_link(&self, key: KeyHash, now: Timestamp, dice: &dyn Dice) -> String {
        let token = new_token(dice);
        let mut book = self.book();
        book.links.retain(|_, link| now < link.until);
        make_room(&mut book.links, LINKS_MAX, |link| link.until);
        book.links.insert(hash_secret(&token), Link { key, until: now.plus_ms(LINK_MS) });
        token
    }

    /// Uses the link up. None: it was used before, is too old, or never was.
    pub(crate) fn begin(&self, link: &str, now: Timestamp, dice: &dyn Dice) -> Option<String> {
        let mut book = self.book();
        let link = book.links.remove(&hash_secret(link)).filter(|link| now < link.until)?;
        Some(book.begin(link.key, now, dice))
    }

    /// For whoever has shown the key itself.
    pub(crate) fn begin_for(&self, key: KeyHash, now: Timestamp, dice: &dyn Dice) -> String {
        self.book().begin(key, now, dice)
    }

    /// The key behind a session that is not over; asking counts as a call.
    pub(crate) fn key_of(&self, token: &str, now: Timestamp) -> Option<KeyHash> {
        self.look(token, now, true)
    }

    /// The same, but a page that only follows by itself keeps nobody logged in.
    pub(crate) fn key_behind(&self, token: &str, now: Timestamp) -> Option<KeyHash> {
        self.look(token, now, false)
    }

    fn look(&self, token: &str, now: Timestamp, counts: bool) -> Option<KeyHash> {
        let hash = hash_secret(token);
        let mut book = self.book();
        let session = book.sessions.get_mut(&hash).filter(|session| !session.is_over(now))?;
        if counts {
            session.seen = session.seen.max(now);
        }
        Some(session.key)
    }

    pub(crate) fn end(&self, token: &str) {
        self.book().sessions.remove(&hash_secret(token));
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_token(dice: &dyn Dice) -> String {
    let mut bytes = [0; TOKEN_BYTES];
    dice.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// When all places are taken, the one that ends first makes way.
fn make_room<T>(of: &mut HashMap<TokenHash, T>, most: usize, by: impl Fn(&T) -> Timestamp) {
    while of.len() >= most {
        let Some(first) = of.iter().min_by_key(|(_, entry)| by(entry)).map(|(hash, _)| *hash) else { return };
        of.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use redrive_store::SeededDice;

    use super::*;

    const KEY: KeyHash = [7; 32];

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn begun(sessions: &Sessions, dice: &SeededDice) -> String {
        let link = sessions.new_link(KEY, noon(), dice);
        sessions.begin(&link, noon(), dice).unwrap()
    }

    #[test]
    fn a_link_works_once_and_not_after_its_time() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let link = sessions.new_link(KEY, noon(), &dice);
        assert!(sessions.begin(&link, noon(), &dice).is_some());
        assert!(sessions.begin(&link, noon(), &dice).is_none());
        let late = sessions.new_link(KEY, noon(), &dice);
        assert!(sessions.begin(&late, noon().plus_ms(LINK_MS), &dice).is_none());
        assert!(sessions.begin("", noon(), &dice).is_none());
    }

    #[test]
    fn a_session_ends_when_idle_and_at_last_when_busy() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let idle = begun(&sessions, &dice);
        assert_eq!(sessions.key_of(&idle, noon().plus_ms(SESSION_IDLE_MS - 1)), Some(KEY));
        assert_eq!(sessions.key_of(&idle, noon().plus_ms(2 * SESSION_IDLE_MS)), None);
        let busy = begun(&sessions, &dice);
        let calls =
            (1..).map(|n| noon().plus_ms(n * SESSION_IDLE_MS / 2)).take_while(|at| at.since(noon()) < SESSION_MS);
        assert!(calls.into_iter().all(|at| sessions.key_of(&busy, at) == Some(KEY)));
        assert_eq!(sessions.key_of(&busy, noon().plus_ms(SESSION_MS)), None);
    }

    #[test]
    fn a_session_can_be_ended_and_a_link_is_no_session() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let token = begun(&sessions, &dice);
        sessions.end(&token);
        assert_eq!(sessions.key_of(&token, noon()), None);
        let link = sessions.new_link(KEY, noon(), &dice);
        assert_eq!(sessions.key_of(&link, noon()), None);
    }

    #[test]
    fn logins_with_one_key_end_no_session_of_another() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let operator = sessions.begin_for([1; 32], noon(), &dice);
        let first = sessions.begin_for(KEY, noon().plus_ms(1), &dice);
        for n in 0..SESSIONS_PER_KEY_MAX as u64 {
            sessions.begin_for(KEY, noon().plus_ms(2 + n), &dice);
        }
        assert_eq!(sessions.key_of(&operator, noon()), Some([1; 32]));
        assert_eq!(sessions.key_of(&first, noon()), None);
        assert_eq!(sessions.book().sessions.len(), 1 + SESSIONS_PER_KEY_MAX);
    }

    #[test]
    fn a_full_house_takes_from_whoever_has_most() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let operator = sessions.begin_for(KEY, noon(), &dice);
        let keys = (0..).map(|n: u16| {
            let mut key = [9; 32];
            key[..2].copy_from_slice(&n.to_le_bytes());
            key
        });
        for key in keys.take(SESSIONS_MAX / SESSIONS_PER_KEY_MAX + 1) {
            (0..SESSIONS_PER_KEY_MAX).for_each(|_| drop(sessions.begin_for(key, noon().plus_ms(1), &dice)));
        }
        assert_eq!(sessions.book().sessions.len(), SESSIONS_MAX);
        assert_eq!(sessions.key_of(&operator, noon()), Some(KEY));
    }

    #[test]
    fn links_are_bounded_and_the_oldest_makes_way() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let first = sessions.new_link(KEY, noon(), &dice);
        for n in 1..=LINKS_MAX as u64 {
            sessions.new_link(KEY, noon().plus_ms(n), &dice);
        }
        assert_eq!(sessions.book().links.len(), LINKS_MAX);
        assert!(sessions.begin(&first, noon(), &dice).is_none());
    }
}
