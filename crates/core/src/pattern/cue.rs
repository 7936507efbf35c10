//! What a word says about the one that follows: `user webmaster`, `model deepseek-chat`, `Errno 111`.

/// A set of hints, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cue(u16);

impl Cue {
    pub(super) const MODEL: Self = Self(1);
    pub(super) const HOST: Self = Self(1 << 1);
    /// A unit of work, which has an id.
    pub(super) const TASK: Self = Self(1 << 2);
    pub(super) const USER: Self = Self(1 << 3);
    pub(super) const FOR: Self = Self(1 << 4);
    pub(super) const ID: Self = Self(1 << 5);
    /// A code follows that says what failed.
    pub(super) const CODE: Self = Self(1 << 6);
    /// A value is near: the next or the one after.
    pub(super) const VALUE: Self = Self(1 << 7);
    /// What is being read is a value, wherever in the sentence.
    pub(super) const READING: Self = Self(1 << 8);
    /// A class whose quoted word is a name.
    pub(super) const NAMED: Self = Self(1 << 9);
    /// A key whose value names the failing part.
    pub(super) const NAMING: Self = Self(1 << 10);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn of(word: &str) -> Self {
        const LONGEST: usize = 14;
        let id = if word.ends_with("_id") || word.ends_with("Id") || word.ends_with("ID") {
            Self::ID
        } else {
            Self::default()
        };
        if word.len() > LONGEST {
            return id;
        }
        let mut lower = [0; LONGEST];
        for (to, from) in lower.iter_mut().zip(word.bytes()) {
            *to = from.to_ascii_lowercase();
        }
        id.and(Self::of_lower(&lower[..word.len()]))
    }

    fn of_lower(word: &[u8]) -> Self {
        match word {
            b"model" | b"engine" | b"deployment" => Self::MODEL,
            b"host" | b"node" | b"hostname" | b"pod" | b"instance" | b"machine" => Self::HOST,
            b"run" | b"task" | b"job" | b"request" | b"workflow" | b"execution" | b"conversation" | b"thread" => {
                Self::TASK
            }
            b"trace" => Self::TASK.and(Self::ID),
            b"user" | b"username" => Self::USER,
            b"for" => Self::FOR,
            b"id" | b"uuid" | b"ray" | b"session" | b"token" | b"hash" | b"sha" | b"digest" | b"sessionid" => Self::ID,
            b"http" | b"errno" | b"sqlstate" => Self::CODE,
            b"code" | b"error" => Self::CODE.and(Self::NAMING),
            b"value" | b"received" | b"got" | b"input" | b"content" | b"completion" | b"text" | b"date" | b"string" => {
                Self::VALUE
            }
            b"convert" | b"literal" | b"isoformat" | b"parse" | b"parsing" => Self::READING,
            b"keyerror" | b"attributeerror" | b"nameerror" => Self::NAMED,
            b"tool" | b"tool_name" | b"function" | b"op" | b"operation" | b"type" | b"reason" | b"constraint"
            | b"column" | b"table" | b"field" | b"key" | b"param" | b"parameter" | b"method" | b"action" | b"step"
            | b"input_type" | b"status" | b"event" | b"name" => Self::NAMING,
            _ => Self::default(),
        }
    }
}
