//! Workers: they lease what is due, work through it step by step, and stall, crash, repeat themselves or end it.

use std::rc::Rc;

use redrive_core::time::Timestamp;
use serde_json::{Value, json};

use crate::facts::{Grant, Key};
use crate::net::{Call, Heard};
use crate::runs::{MESSAGES, script};
use crate::world::{TENANTS, Who, World};

pub const LEASES_MS: [u64; 3] = [2_000, 10_000, 60_000];

pub async fn work(world: Rc<World>, n: usize) {
    let actor = format!("worker-{n}");
    let who = if n.is_multiple_of(2) { Who::AnyWorker } else { Who::Worker(n % TENANTS.len()) };
    while !world.is_over() {
        for session in lease(&world, &actor, who, 1 + world.chance.below(3)).await {
            session.work().await;
        }
        world.time.sleep(world.chance.below(1_500)).await;
    }
}

/// What is handed out, each with a worker of its own number.
pub async fn lease(world: &Rc<World>, actor: &str, who: Who, max: u64) -> Vec<Session> {
    let lease_ms = *world.chance.pick(&LEASES_MS);
    let body = json!({"queues": ["*"], "max": max, "lease_ms": lease_ms, "worker": actor});
    let heard = world.call(actor, Call::post(who, "/v1/leases", &body)).await;
    let Some(leases) = heard.json()["leases"].as_array() else { return Vec::new() };
    leases.iter().filter_map(|given| session(world, actor, who, given, lease_ms)).collect()
}

fn session(world: &Rc<World>, actor: &str, who: Who, given: &Value, lease_ms: u64) -> Option<Session> {
    let tenant = TENANTS.iter().position(|tenant| given["tenant"] == *tenant)?;
    let key: Key = (tenant, given["run_id"].as_str()?.to_owned());
    let (token, attempt) = (given["lease"].as_str()?.to_owned(), u32::try_from(given["attempt"].as_u64()?).ok()?);
    let expires_at: Timestamp = given["lease_expires_at"].as_str()?.parse().ok()?;
    let automatic = given["replay"] == false;
    let grant = Grant {
        token: token.clone(),
        granted_at: expires_at.minus_ms(lease_ms),
        expires_at,
        automatic,
        end_asked: false,
        start_id: None,
    };
    world.granted(&key, grant);
    if world.facts.borrow_mut().run(&key).acknowledged.contains_key(&attempt) {
        world.broken("D3", format_args!("{key:?}: attempt {attempt} was handed out after its end was acknowledged"));
    }
    Some(Session { world: world.clone(), actor: actor.to_owned(), who, key, token, attempt, id: world.new_worker() })
}

const TRIES: u32 = 3;
const STALL_MAX_MS: u64 = 120_000;

pub struct Session {
    pub world: Rc<World>,
    pub actor: String,
    pub who: Who,
    pub key: Key,
    pub token: String,
    pub attempt: u32,
    /// This worker's own number: another life is another worker.
    pub id: u64,
}

/// How a step went for its worker.
#[derive(PartialEq, Eq)]
enum Went {
    Well,
    /// The attempt has to end here.
    Wrong,
    /// The lease is no longer ours.
    Gone,
    Crashed,
}

impl Session {
    async fn say(&self, verb: &str, more: Value, again: bool) -> Heard {
        let mut body = more;
        body["lease"] = json!(self.token);
        if self.who == Who::AnyWorker {
            body["tenant"] = json!(TENANTS[self.key.0]);
        }
        let newest = self.world.newest_grant(&self.key);
        let call = Call::post(self.who, format!("/v1/runs/{}/{verb}", self.key.1), &body);
        let heard = self.world.call(&self.actor, call).await;
        if !again {
            self.world.fenced(&self.key, &self.token, newest, verb, &heard);
        }
        heard
    }

    /// The whole attempt, however it goes.
    pub async fn work(self) {
        let world = self.world.clone();
        for (step, is_effect, outside) in script(&self.key) {
            self.pause().await;
            let went = self.step(&step, is_effect, &outside).await;
            world.facts.borrow_mut().forget_worker(self.id);
            match went {
                Went::Well => {}
                Went::Wrong => return self.fail().await,
                Went::Gone | Went::Crashed => return,
            }
        }
        self.pause().await;
        match world.chance.below(20) {
            0..=11 => self.succeed().await,
            12..=16 => self.fail().await,
            17 => self.release().await,
            _ => {}
        }
    }

    /// Work takes its time; some heartbeats come in between, some too late.
    async fn pause(&self) {
        let world = &self.world;
        if !world.calm.get() && world.chance.happens(30) {
            world.time.sleep(world.chance.below(STALL_MAX_MS)).await;
        } else {
            world.time.sleep(world.chance.below(600)).await;
        }
        if world.chance.happens(300) {
            let heard = self.say("heartbeat", json!({}), false).await;
            let until = heard.json()["lease_expires_at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
            if let Some(until) = until.filter(|_| heard.is_ok()) {
                world.prolonged(&self.key, &self.token, until);
            }
        }
    }

    async fn step(&self, step: &str, is_effect: bool, outside: &(usize, String)) -> Went {
        let call = format!("{}-{step}", self.id);
        let said = json!({"name": step, "key": step, "effect": is_effect, "status": "started", "call_id": call});
        for _ in 0..TRIES {
            // From here on it may be told to go ahead, and nobody else may say that nothing happens.
            let known = self.world.facts.borrow_mut().intends(outside, self.id);
            let heard = self.say("steps", said.clone(), false).await;
            match (heard.status(), heard.code()) {
                (200, _) if heard.json()["replayed"] == true => return self.skipped(step, outside),
                (200, _) => return self.execute(step, is_effect, outside, known).await,
                (409, "effect_unknown") => {
                    self.world.facts.borrow_mut().forget_worker(self.id);
                    return self.find_out(step, outside).await;
                }
                (409, "effect_in_progress") => return Went::Wrong,
                (409, _) => return Went::Gone,
                _ if heard.is_open() => self.world.time.sleep(500).await,
                _ => {
                    self.world.broken("R1", format_args!("{:?}: a step was answered {heard:?}", self.key));
                    return Went::Gone;
                }
            }
        }
        Went::Wrong
    }

    fn skipped(&self, step: &str, outside: &(usize, String)) -> Went {
        let facts = self.world.facts.borrow();
        let nobody_did = facts.outside.get(outside).is_none_or(|one| one.done == 0);
        drop(facts);
        if nobody_did {
            self.world.broken("R1", format_args!("{:?}: {step} was skipped, and nobody has done it", self.key));
        }
        Went::Well
    }

    /// It was told to go ahead: it does it, once. `known`: the ledger knew of it when this worker asked. What another has
    /// done since, while the answer was on its way to a worker that is no longer the owner, is no second offer.
    async fn execute(&self, step: &str, is_effect: bool, outside: &(usize, String), known: bool) -> Went {
        let world = &self.world;
        let done = world.facts.borrow().outside.get(outside).map_or(0, |one| one.done);
        if known || (is_effect && done > 0) {
            world.broken("R1", format_args!("{:?}: {step} was offered again: done {done} times, {known}", self.key));
        }
        if !world.calm.get() && world.chance.happens(60) {
            return Went::Crashed;
        }
        if !world.calm.get() && world.chance.happens(60) {
            world.time.sleep(world.chance.below(STALL_MAX_MS)).await;
        }
        if world.chance.happens(60) {
            // It asserts that nothing happened, and stops here, so that no late copy of this word can lie.
            let said = json!({"name": step, "key": step, "effect": is_effect, "status": "failed"});
            self.say("steps", said, false).await;
            return Went::Wrong;
        }
        if let Some(one) = world.facts.borrow_mut().outside.get_mut(outside) {
            one.done += 1;
            one.intents.remove(&self.id);
            if is_effect && one.done > 1 {
                world.broken("R1", format_args!("{outside:?} was done {} times", one.done));
            }
        }
        world.say(&format!("{:<10} does {outside:?}", self.actor));
        if !world.calm.get() && world.chance.happens(60) {
            return Went::Crashed;
        }
        self.commit(step, is_effect, outside).await
    }

    async fn commit(&self, step: &str, is_effect: bool, outside: &(usize, String)) -> Went {
        let said = json!({"name": step, "key": step, "effect": is_effect, "status": "committed",
            "output": {"of": TENANTS[self.key.0]}});
        for try_no in 0..TRIES {
            let heard = self.say("steps", said.clone(), try_no > 0).await;
            if let Some(one) = self.world.facts.borrow_mut().outside.get_mut(outside) {
                // A plain step of an attempt that is over may be done again by the next.
                one.acknowledged |= heard.is_ok() || (heard.recorded() && is_effect);
            }
            match heard.status() {
                200 => return Went::Well,
                409 => return Went::Gone,
                _ => self.world.time.sleep(500).await,
            }
        }
        Went::Wrong
    }

    /// The step's own check, if nobody can be at it any more; then the next attempt takes it up.
    async fn find_out(&self, step: &str, outside: &(usize, String)) -> Went {
        let world = &self.world;
        if world.facts.borrow().is_anybody_at(outside, None) || world.chance.happens(500) {
            return Went::Wrong;
        }
        let done = world.facts.borrow().outside.get(outside).is_some_and(|one| one.done > 0);
        let status = if done { "committed" } else { "failed" };
        let mut said = json!({"name": step, "key": step, "effect": true, "status": status, "checked": true,
            "lease": self.token});
        if self.who == Who::AnyWorker {
            said["tenant"] = json!(TENANTS[self.key.0]);
        }
        let call = Call::post(self.who, format!("/v1/runs/{}/steps", self.key.1), &said);
        let heard = world.call_at_once(&self.actor, &call);
        if heard.is_ok() && done {
            if let Some(one) = world.facts.borrow_mut().outside.get_mut(outside) {
                one.acknowledged = true;
            }
            return Went::Well;
        }
        Went::Wrong
    }

    async fn succeed(&self) {
        let before = self.world.facts.borrow_mut().run(&self.key).quiet_since();
        let said = json!({"output": {"by": self.actor, "of": TENANTS[self.key.0]}, "finish_reason": "stop"});
        let heard = self.end("succeed", said).await;
        if heard.is_ok() && heard.json()["verdict"].is_null() {
            self.world.succeeded(&self.key, &self.token, before);
        }
    }

    async fn fail(&self) {
        let mark = self.world.facts.borrow_mut().mark();
        let message = self.world.chance.pick(&MESSAGES);
        let sent_at = self.world.now();
        let heard = self.end("fail", json!({"error": {"message": message, "detail": mark}})).await;
        self.world.failure_heard(&self.key, self.attempt, &mark, sent_at, &heard);
    }

    async fn release(&self) {
        self.end("release", json!({})).await;
    }

    /// The same end again until somebody says what became of it.
    async fn end(&self, verb: &str, said: Value) -> Heard {
        self.world.end_asked(&self.key, &self.token);
        let mut heard = Heard::Nothing;
        for try_no in 0..TRIES {
            heard = self.say(verb, said.clone(), try_no > 0).await;
            if !heard.is_open() {
                break;
            }
            self.world.time.sleep(self.world.chance.a_while_ms(20_000)).await;
        }
        heard
    }
}
