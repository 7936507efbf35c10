//! A tenant that makes random calls. The next call depends only on its seed and on its answers.

use serde_json::Value;

use crate::answers::{Answer, Normal};
use crate::calls::{self, Call, Credential, Names};
use crate::rng::Rng;
use crate::world::{Keys, Session, World};

pub struct Player {
    rng: Rng,
    names: Names,
    keys: Keys,
    session: Option<Session>,
    normal: Normal,
    known: Known,
    looks: Vec<Call>,
}

/// Ids that the server has generated.
#[derive(Default)]
pub struct Known {
    /// Run and lease.
    pub leases: Vec<(String, String)>,
    pub patterns: Vec<String>,
    pub plan_hash: Option<String>,
    pub cursor: Option<String>,
}

/// A call and its answer, without generated values.
pub struct Told {
    pub call: String,
    pub answer: String,
}

impl Player {
    pub async fn new(world: &World, seed: u64, play: u64, own: &str, other: &str, breakers: bool) -> Self {
        let keys = world.keys(own, seed).await;
        let names = Names::new(play, own, other, breakers);
        let mut looks = calls::looks(&names);
        looks.reverse();
        let (rng, normal) = (Rng::new(seed), Normal::default());
        Self { rng, names, keys, session: None, normal, known: Known::default(), looks }
    }

    pub async fn act(&mut self, world: &World) -> Told {
        let call = calls::any(&mut self.rng, &self.names, &self.known);
        self.call(world, call).await
    }

    /// One of the reads that end a play: everything that the tenant can see.
    pub async fn look(&mut self, world: &World) -> Option<Told> {
        let call = self.looks.pop()?;
        Some(self.call(world, call).await)
    }

    async fn call(&mut self, world: &World, call: Call) -> Told {
        if call.credential == Credential::Session && self.session.is_none() {
            self.session = self.log_in(world).await;
        }
        let answer = world.send(&call, &self.keys, self.session.as_ref()).await;
        if call.credential == Credential::Session && answer.status == 401 {
            self.session = None;
        }
        self.learn(&call, &answer);
        Told { call: call.to_string(), answer: self.normal.of(&answer) }
    }

    async fn log_in(&self, world: &World) -> Option<Session> {
        let login = Call::form(Credential::Nobody, "/login", format!("key={}", self.keys.tenant));
        let cookie = world.send(&login, &self.keys, None).await.cookie?;
        let cookie = cookie.split(';').next()?.to_owned();
        let session = Session { cookie, csrf: String::new() };
        let front = world.send(&Call::get(Credential::Session, "/"), &self.keys, Some(&session)).await.text;
        let csrf = front.split("name=\"csrf\" value=\"").nth(1)?.split('"').next()?.to_owned();
        Some(Session { csrf, ..session })
    }

    fn learn(&mut self, call: &Call, answer: &Answer) {
        if call.credential == Credential::Session || answer.status >= 300 {
            return;
        }
        let json = answer.json();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let lease = |value: &Value| Some((text(&value["run_id"])?, text(&value["lease"])?));
        self.known.leases.extend(lease(&json));
        let list = |name: &str| json[name].as_array().cloned().unwrap_or_default();
        self.known.leases.extend(list("leases").iter().filter_map(lease));
        self.known.patterns.extend(list("patterns").iter().filter_map(|pattern| text(&pattern["id"])));
        self.known.plan_hash = text(&json["hash"]).or(self.known.plan_hash.take());
        self.known.cursor = text(&json["next_cursor"]).or(self.known.cursor.take());
    }
}
