//! Two worlds and many plays in them: in one B acts alone, in the other A acts between B's calls. Each play has its own
//! tenants and names, so that a pair of worlds serves many plays.

use std::fmt;

use crate::player::Player;
use crate::rng::Rng;
use crate::world::World;

pub const PLAYS_PER_WORLD: u64 = 25;
const CALLS_OF_EACH: usize = 14;
const NO_ANSWER: &str = "(A was answered alone in this world: 500 is never an answer)";

/// Plays in one pair of worlds.
pub struct Batch {
    pub seed: u64,
    pub plays: u64,
    pub wire: bool,
}

/// B's answers alone, and beside A.
pub struct Difference {
    seed: u64,
    play: u64,
    call: String,
    alone: String,
    beside: String,
    before: Vec<String>,
}

/// Who acts next, or how much time passes.
enum Turn {
    A,
    B,
    Time(u64),
}

impl Batch {
    pub async fn play(&self, enough: usize) -> Vec<Difference> {
        let breakers = self.seed.is_multiple_of(2);
        let alone = World::new(breakers, self.wire).await;
        let beside = World::new(breakers, self.wire).await;
        let mut found = Vec::new();
        for play in 0..self.plays {
            found.extend(self.one(play, breakers, &alone, &beside).await);
            if found.len() >= enough {
                break;
            }
        }
        alone.close().await;
        beside.close().await;
        found
    }

    async fn one(&self, play: u64, breakers: bool, alone: &World, beside: &World) -> Option<Difference> {
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(play);
        let named = |who: &str| format!("t{play}-{who}");
        let mut b_alone = Player::new(alone, 2 * seed + 1, play, &named("b"), &named("a"), breakers).await;
        let mut b_beside = Player::new(beside, 2 * seed + 1, play, &named("b"), &named("a"), breakers).await;
        let mut a = Player::new(beside, 2 * seed, play, &named("a"), &named("b"), breakers).await;
        let mut before = Vec::new();
        for turn in turns(seed) {
            match turn {
                Turn::Time(ms) => {
                    alone.tick(ms).await;
                    beside.tick(ms).await;
                    before.push(format!("    {ms} ms pass"));
                }
                Turn::A => {
                    let told = a.act(beside).await;
                    before.push(format!("  A {} -> {}", told.call, short(&told.answer)));
                    if is_broken(&told.answer) {
                        return Some(self.difference(play, told.call, NO_ANSWER.to_owned(), told.answer, before));
                    }
                }
                Turn::B => {
                    let one = b_alone.act(alone).await;
                    let other = b_beside.act(beside).await;
                    before.push(format!("  B {} -> {}", one.call, short(&one.answer)));
                    if one.answer != other.answer || is_broken(&one.answer) {
                        return Some(self.difference(play, one.call, one.answer, other.answer, before));
                    }
                }
            }
        }
        while let Some(one) = b_alone.look(alone).await {
            let other = b_beside.look(beside).await?;
            if one.answer != other.answer || is_broken(&one.answer) {
                return Some(self.difference(play, one.call, one.answer, other.answer, before));
            }
        }
        None
    }

    fn difference(&self, play: u64, call: String, alone: String, beside: String, before: Vec<String>) -> Difference {
        Difference { seed: self.seed, play, call, alone, beside, before }
    }
}

/// A's and B's calls in some order, with some time between them.
fn turns(seed: u64) -> Vec<Turn> {
    let mut rng = Rng::new(seed);
    let (mut a, mut b) = (CALLS_OF_EACH, CALLS_OF_EACH);
    let mut turns = Vec::new();
    while a + b > 0 {
        if rng.percent(8) {
            turns.push(Turn::Time(*rng.pick(&[200, 1_500, 31_000, 61_000, 400_000, 7_200_000])));
        } else if rng.below(a + b) < a {
            a -= 1;
            turns.push(Turn::A);
        } else {
            b -= 1;
            turns.push(Turn::B);
        }
    }
    turns
}

/// No call may get a 500.
fn is_broken(answer: &str) -> bool {
    answer.starts_with("500 ")
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(160)]
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, play, call, alone, beside, before } = self;
        writeln!(f, "B was answered something else because of A (REDRIVE_SEED={seed}, play {play})")?;
        for line in before {
            writeln!(f, "{line}")?;
        }
        let same = alone.bytes().zip(beside.bytes()).take_while(|(one, other)| one == other).count();
        let from = alone.floor_char_boundary(same.saturating_sub(200)).min(beside.floor_char_boundary(same));
        let part = |text: &str| {
            let from = text.floor_char_boundary(from);
            text[from..text.floor_char_boundary(from + 900)].to_owned()
        };
        writeln!(f, "B {call}\nalone, from byte {from}:  {}\nbeside A: {}", part(alone), part(beside))
    }
}
