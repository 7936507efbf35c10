//! The network between clients and replicas: lost requests and answers, duplicated and late requests, clients that hang up.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::PoisonError;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::facts::Key;
use crate::runs::HALF_A_PAIR;
use crate::scheduler::alone;
use crate::world::{TENANTS, Who, World};

/// How long a client waits for an answer that does not come.
const PATIENCE_MS: u64 = 15_000;
const LATE_MAX_MS: u64 = 120_000;

/// What a client has heard of its call.
#[derive(Debug, Clone)]
pub enum Heard {
    Answer {
        status: u16,
        json: Value,
    },
    /// It may have been done, or not.
    Nothing,
}

impl Heard {
    pub fn status(&self) -> u16 {
        match self {
            Self::Answer { status, .. } => *status,
            Self::Nothing => 0,
        }
    }

    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status())
    }

    /// Nobody knows what became of it.
    pub fn is_open(&self) -> bool {
        self.status() == 0 || self.status() >= 500
    }

    pub fn json(&self) -> &Value {
        match self {
            Self::Answer { json, .. } => json,
            Self::Nothing => &Value::Null,
        }
    }

    pub fn code(&self) -> &str {
        self.json()["code"].as_str().unwrap_or_default()
    }

    pub fn recorded(&self) -> bool {
        self.json()["recorded"] == true
    }
}

#[derive(Debug, Clone)]
pub struct Call {
    pub who: Who,
    pub method: Method,
    pub path: String,
    pub body: String,
    /// The runs that it may open again.
    pub reopens: Vec<Key>,
    /// Nobody may send it again behind its sender's back.
    pub once: bool,
    /// A line for each item, and a line for each answer.
    pub lines: bool,
}

impl Call {
    pub fn post(who: Who, path: impl Into<String>, body: &Value) -> Self {
        Self {
            who,
            method: Method::POST,
            path: path.into(),
            body: body.to_string(),
            reopens: Vec::new(),
            once: false,
            lines: false,
        }
    }

    pub fn get(who: Who, path: impl Into<String>) -> Self {
        Self { method: Method::GET, body: String::new(), ..Self::post(who, path, &Value::Null) }
    }

    pub fn reopening(self, key: &Key) -> Self {
        Self { reopens: vec![key.clone()], ..self }
    }

    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }
}

/// A delivery that ends early when its server dies or its client hangs up.
struct Torn {
    world: Rc<World>,
    generation: u64,
    waits_left: u64,
    delivery: Pin<Box<dyn Future<Output = Heard>>>,
}

impl Future for Torn {
    type Output = Heard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Heard> {
        if self.world.generation.get() != self.generation || self.waits_left == 0 {
            return Poll::Ready(Heard::Nothing);
        }
        self.waits_left -= 1;
        self.delivery.as_mut().poll(context)
    }
}

impl World {
    /// A call as its client sees it.
    pub async fn call(self: &Rc<Self>, actor: &str, call: Call) -> Heard {
        while self.replicas.borrow().is_empty() {
            self.time.sleep(500).await;
        }
        self.count();
        self.may_reopen(&call);
        let heard = self.try_call(&call).await;
        self.say(&line(actor, &call, &heard));
        self.look_over(&call, &heard);
        if !heard.is_open() {
            call.reopens.iter().for_each(|key| self.facts.borrow_mut().settled(key));
        }
        heard
    }

    fn may_reopen(&self, call: &Call) {
        call.reopens.iter().for_each(|key| self.facts.borrow_mut().may_reopen(key));
    }

    /// An instantaneous call: nothing else happens meanwhile.
    pub fn call_at_once(self: &Rc<Self>, actor: &str, call: &Call) -> Heard {
        self.count();
        let usual = std::mem::take(&mut *self.rates.lock().unwrap_or_else(PoisonError::into_inner));
        let heard = alone(self.deliver(call, u64::MAX));
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = usual;
        self.say(&line(actor, call, &heard));
        self.look_over(call, &heard);
        heard
    }

    async fn try_call(self: &Rc<Self>, call: &Call) -> Heard {
        let rough = self.plan.net && !self.calm.get();
        if rough && self.chance.happens(15) {
            self.time.sleep(PATIENCE_MS).await;
            return Heard::Nothing;
        }
        if rough && self.chance.happens(20) && call.method == Method::POST && !call.once {
            self.may_reopen(call);
            let (world, again) = (self.clone(), call.clone());
            self.later(async move {
                world.time.sleep(world.chance.a_while_ms(LATE_MAX_MS)).await;
                let heard = world.deliver(&again, u64::MAX).await;
                world.say(&line("again", &again, &heard));
                world.look_over(&again, &heard);
            });
        }
        let waits = if rough && self.chance.happens(15) { 1 + self.chance.below(3) } else { u64::MAX };
        let heard = self.deliver(call, waits).await;
        if rough && self.chance.happens(30) {
            self.time.sleep(self.chance.a_while_ms(PATIENCE_MS)).await;
            if self.chance.happens(500) {
                return Heard::Nothing;
            }
        }
        heard
    }

    /// To whichever replica; with none up, nobody answers.
    async fn deliver(self: &Rc<Self>, call: &Call, waits: u64) -> Heard {
        let replica = {
            let replicas = self.replicas.borrow();
            if replicas.is_empty() {
                return Heard::Nothing;
            }
            replicas[self.chance.upto(replicas.len())].clone()
        };
        let delivery = Box::pin(answered(replica.router.clone(), self.request(call), call.lines));
        Torn { world: self.clone(), generation: self.generation.get(), waits_left: waits, delivery }.await
    }

    fn request(&self, call: &Call) -> Request<Body> {
        let mut request = Request::new(Body::from(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = call.path.parse().unwrap_or_default();
        let key = format!("Bearer {}", self.keys.of(call.who));
        if let Ok(key) = key.parse() {
            request.headers_mut().insert(header::AUTHORIZATION, key);
        }
        let media = if call.lines { "application/x-ndjson" } else { "application/json" };
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        request
    }

    /// What holds for every answer: no bug of ours shows, and nothing of another tenant's.
    fn look_over(&self, call: &Call, heard: &Heard) {
        let Heard::Answer { status, json } = heard else { return };
        if json.is_null() {
            self.broken("D5", format_args!("{} {} was answered with no JSON", call.method, call.path));
        }
        if *status == 500 || *status == 401 || *status == 403 || *status == 400 {
            self.broken("D5", format_args!("{} {} was answered {status}: {json}", call.method, call.path));
        }
        let (Who::Worker(own) | Who::Tenant(own)) = call.who else { return };
        let text = json.to_string();
        for (n, other) in TENANTS.iter().enumerate() {
            if n != own && text.contains(other) {
                self.broken("T2", format_args!("{} saw {other}'s in {}: {text}", TENANTS[own], call.path));
            }
        }
    }
}

async fn answered(router: Router, request: Request<Body>, lines: bool) -> Heard {
    let Ok(response) = router.oneshot(request).await;
    let status = response.status().as_u16();
    let Ok(body) = response.into_body().collect().await else { return Heard::Nothing };
    // The half of a pair that is in every payload of ours is more than a parsed tree can hold.
    let body = String::from_utf8_lossy(&body.to_bytes()).replace(HALF_A_PAIR, "");
    let json = if lines && status == 200 {
        body.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect()
    } else {
        serde_json::from_str(&body).unwrap_or(Value::Null)
    };
    Heard::Answer { status, json }
}

fn line(actor: &str, call: &Call, heard: &Heard) -> String {
    let body: String = call.body.chars().take(160).collect();
    let json = heard.json();
    let word = |name: &str| json[name].as_str().unwrap_or_default();
    let said = match heard {
        Heard::Answer { status, .. } => format!("{status} {}{}", word("code"), word("state")),
        Heard::Nothing => "nothing".to_owned(),
    };
    let more = if heard.recorded() { " recorded" } else { "" };
    let lease = match &json["leases"] {
        Value::Array(leases) => leases
            .iter()
            .map(|l| format!(" {}/{}", l["tenant"].as_str().unwrap_or(""), l["lease"].as_str().unwrap_or("")))
            .collect(),
        _ => json["lease"].as_str().map(|lease| format!(" {lease}")).unwrap_or_default(),
    };
    format!("{actor:<10} {} {} {body} -> {said}{more}{lease}", call.method, call.path)
}
