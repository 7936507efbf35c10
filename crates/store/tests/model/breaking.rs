//! Random actions on breakers and limits against their model: attempts of several tenants, models and environments begin
//! and end, late and in any order; people open and close; time passes, replicas restart. After every action each breaker
//! must match the model.

use std::collections::BTreeMap;

use redrive_core::policy::{BreakerLayer, Limits, Policies, PolicyLayer, TenantPolicy};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerAction;
use redrive_engine::{BreakerAct, NewFailure, NewRun, Start, StartHow, TenantScope, Triage, TriageAct, UnderLease};

use crate::breakers::{Breakers, End, MIN_ATTEMPTS, Watch};
use crate::lot::Lot;
use crate::play::world_under;
use crate::world::{World, at, failed, lease_call, new_run, start, success, under};

const TENANTS: [&str; 3] = ["acme", "globex", "limited"];
const MODELS: [Option<&str>; 3] = [None, Some("gpt-5"), Some("o3")];
const ENVIRONMENTS: [&str; 2] = ["production", "staging"];
const LEASE_MS: u64 = 600_000;
const DEADLINE_MS: u64 = 3_600_000;
/// What the limited tenant may have.
const MAX_RUNNING: usize = 3;
const LEASES_PER_S: f64 = 2.0;

/// All that is to be seen: seven kinds of things that happen, and a breaker's three states.
pub const KINDS: usize = 10;

/// What a run is about.
type About = (&'static str, &'static str, Option<&'static str>);

#[derive(Debug, Clone)]
struct UnderWay {
    under: UnderLease,
    about: About,
    /// Changes of breakers that had been when it began.
    began: u64,
    at: Timestamp,
}

impl UnderWay {
    fn watched_by(&self) -> Vec<Watch> {
        let (environment, tenant, model) = self.about;
        Watch::of(environment, tenant, model)
    }

    fn lease(&self) -> String {
        self.under.lease.to_string()
    }
}

pub struct Breaking {
    world: Option<World>,
    model: Breakers,
    lot: Lot,
    runs: BTreeMap<String, About>,
    under_way: Vec<UnderWay>,
    /// Leases that the limited tenant has left, and when that was.
    left: (f64, Timestamp),
    /// What was seen, so that a suite that sees nothing fails.
    pub seen: BTreeMap<&'static str, usize>,
}

impl Breaking {
    pub async fn new(lot: Lot) -> Self {
        println!("world {}", lot.seed);
        let min_attempts = Some(u32::try_from(MIN_ATTEMPTS).unwrap());
        let breaker = Some(BreakerLayer { min_attempts, ..BreakerLayer::default() });
        let defaults = PolicyLayer { breaker, ..PolicyLayer::default() };
        let limits = Some(Limits { max_running: Some(MAX_RUNNING as u64), leases_per_s: Some(LEASES_PER_S) });
        let limited = TenantPolicy { tier: None, policy: PolicyLayer { limits, ..PolicyLayer::default() } };
        let tenants = [("limited".parse().unwrap(), limited)].into();
        let world = world_under(Policies { defaults, tenants, ..Policies::default() }).await;
        let (left, runs) = ((LEASES_PER_S, world.store.now()), BTreeMap::new());
        let model = Breakers::default();
        let mut made =
            Self { world: Some(world), model, lot, runs, under_way: Vec::new(), left, seen: BTreeMap::new() };
        for tenant in TENANTS {
            made.begin(("production", tenant, None)).await;
        }
        made
    }

    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    fn now(&self) -> Timestamp {
        self.world().store.now()
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub async fn acts(&mut self, most: usize) {
        for _ in 0..most {
            match self.lot.below(24) {
                0..=7 => self.begin(self.about()).await,
                8..=15 => self.end().await,
                16..=18 => self.lease().await,
                19 => self.by_hand().await,
                20..=21 => self.pass(),
                22 if self.lot.one_in(2) => self.rescue().await,
                22 => self.report().await,
                _ if self.lot.one_in(20) => self.restart().await,
                _ => self.enqueue().await,
            }
            self.compare().await;
        }
    }

    fn about(&self) -> About {
        (*self.lot.pick(&ENVIRONMENTS), *self.lot.pick(&TENANTS), *self.lot.pick(&MODELS))
    }

    fn new_run(&mut self, about: About) -> NewRun {
        let name = format!("r{}", self.runs.len());
        self.runs.insert(name.clone(), about);
        let (environment, tenant, model) = about;
        NewRun {
            tenant: tenant.parse().unwrap(),
            environment: Label::from(environment),
            provider: model.map(|_| Label::from("openai")),
            model: model.map(Label::from),
            ..new_run(&name)
        }
    }

    /// A run that nobody held back: its first attempt begins, whatever breakers say.
    async fn begin(&mut self, about: About) {
        let run = self.new_run(about);
        let at = at(run.tenant.as_str(), run.run_id.as_str());
        let how = StartHow::Start { start_id: None, lease_ms: Some(LEASE_MS) };
        let answer = self.world().store.start(Start { run, how, ..start("r") }).await.unwrap().answer;
        self.begun(UnderLease { at, lease: answer.lease.unwrap().parse().unwrap() }, about);
    }

    fn begun(&mut self, under: UnderLease, about: About) {
        let began = UnderWay { under, about, began: self.model.changes(), at: self.now() };
        if began.watched_by().iter().any(|watch| !self.model.is_closed(watch)) {
            self.saw("began past a breaker that is not closed");
        }
        self.model.begun(&began.watched_by(), &began.lease());
        self.under_way.push(began);
    }

    async fn enqueue(&mut self) {
        let about = self.about();
        let run = self.new_run(about);
        let how = StartHow::Enqueue { due_at: None };
        self.world().store.start(Start { run, how, ..start("r") }).await.unwrap();
    }

    /// Reported in one call: nobody knows beside how many successes it stands.
    async fn report(&mut self) {
        let about = self.about();
        let run = self.new_run(about);
        self.world().store.report(NewFailure { run, failed: failed("Request timed out") }).await.unwrap();
    }

    async fn end(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let ending = self.under_way.swap_remove(self.lot.upto(self.under_way.len()));
        let (under, store) = (ending.under.clone(), self.world().store.clone());
        let end = match self.lot.below(12) {
            0..=2 => {
                store.succeed(success(&under, "\"ok\"")).await.unwrap();
                End::Success
            }
            3..=7 => End::TimedOut,
            8 => End::Bug,
            9 => End::KeyRefused,
            10 => {
                store.release(under).await.unwrap();
                return self.model.lost(&ending.lease());
            }
            _ => {
                let reason = Some(Text::from("stop"));
                let act = TriageAct { at: under.at, triage: Triage::Cancel, actor: "key:ops".into(), reason };
                store.triage(act).await.unwrap();
                return self.model.lost(&ending.lease());
            }
        };
        let watched_by = ending.watched_by();
        if ending.began < self.model.changes() {
            self.saw("ended after breakers had changed");
        }
        self.model.ended(&watched_by, &ending.lease(), ending.began, end, self.now());
        let message = match end {
            End::TimedOut => "Request timed out",
            End::Bug => "KeyError: 'invoice'",
            End::KeyRefused => "Invalid API key provided",
            End::Success | End::Silent => return,
        };
        let answer = store.fail(under, failed(message)).await.unwrap();
        assert_eq!(answer.breaker, self.model.worst(&watched_by).as_str());
    }

    /// Every leased run passed each of its breakers and its tenant's limit.
    async fn lease(&mut self) {
        let max = u32::try_from(1 + self.lot.below(6)).unwrap();
        let running = self.under_way.iter().filter(|it| it.about.1 == "limited").count();
        let (left, then) = self.left;
        let more = self.now().since(then) as f64 / 1_000.0 * LEASES_PER_S;
        let left = (left + more).min(LEASES_PER_S);
        let call = redrive_engine::LeaseCall { lease_ms: Some(LEASE_MS), ..lease_call(max) };
        let leased = self.world().store.lease(call).await.unwrap();
        let mut limited = 0;
        for leased in &leased {
            let about = self.runs[leased.run_id.as_str()];
            let (environment, tenant, model) = about;
            for watch in Watch::of(environment, tenant, model) {
                assert!(self.model.lets_through(&watch), "{} let {} through", watch.name(), leased.run_id);
            }
            limited += usize::from(tenant == "limited");
            self.begun(under(leased), about);
            self.saw("leased");
        }
        if limited > 0 {
            assert!(running + limited <= MAX_RUNNING, "{running} under way, {limited} more");
            assert!(limited as f64 <= left, "{limited} of {left}");
            self.saw("leased within limits");
        }
        self.left = (left - limited as f64, self.now());
    }

    async fn by_hand(&mut self) {
        let (environment, tenant, model) = self.about();
        let action = *self.lot.pick(&[BreakerAction::Open, BreakerAction::Close, BreakerAction::Reset]);
        let ends = self.lot.one_in(2) || action != BreakerAction::Open;
        let until = ends.then(|| self.now().plus_ms(1 + self.lot.below(600_000)));
        // Now and then everybody's.
        let tenant = Some(tenant).filter(|_| model.is_none() || !self.lot.one_in(3));
        let watch = Watch { environment, tenant, model };
        let act = BreakerAct {
            tenant: tenant.map(|tenant| tenant.parse().unwrap()),
            environment: Label::from(environment),
            provider: model.map(|_| Label::from("openai")),
            model: model.map(Label::from),
            action,
            until: until.filter(|_| action == BreakerAction::Open),
            actor: "key:ops".into(),
            reason: Some(Text::from("because")),
        };
        self.world().store.operate_breaker(act).await.unwrap();
        match action {
            BreakerAction::Open => self.model.opened_by_hand(&watch, until),
            BreakerAction::Close | BreakerAction::Reset => self.model.closed_by_hand(&watch),
        }
        self.saw("moved by hand");
    }

    fn pass(&self) {
        let ms = match self.lot.below(10) {
            0 => 700_000,
            1..=4 => self.lot.below(60_000),
            _ => self.lot.below(5_000),
        };
        self.world().wait(ms);
    }

    async fn rescue(&mut self) {
        let now = self.now();
        // A piece at a time while tenants share the writer.
        while self.world().store.rescue_expired(500).await.unwrap().more {}
        let (over, live) =
            std::mem::take(&mut self.under_way).into_iter().partition(|it| it.at.plus_ms(LEASE_MS) <= now);
        self.under_way = live;
        let mut over: Vec<UnderWay> = over;
        over.sort_by_key(|it| (it.at, it.under.lease.run));
        for quiet in over {
            let end = if quiet.at.plus_ms(DEADLINE_MS) <= now { End::TimedOut } else { End::Silent };
            self.model.ended(&quiet.watched_by(), &quiet.lease(), quiet.began, end, now);
            self.saw("went quiet");
        }
    }

    async fn restart(&mut self) {
        let world = self.world.take().unwrap().restarted().await;
        self.world = Some(world);
        self.model.restarted();
        self.left = (LEASES_PER_S, self.now());
        self.saw("restart");
    }

    async fn compare(&mut self) {
        let now = self.now();
        self.model.pass(now);
        self.world().store.release_held(100).await.unwrap();
        let shown = self.world().store.breakers(&TenantScope::All).await.unwrap().breakers;
        self.model.compare(&shown, now);
        for view in shown {
            self.saw(view.state.as_str());
        }
    }
}
