//! Dealing due runs to workers: round robin over the tenants that have some, in due order within each, starting after
//! the one served last. Whatever one tenant's backlog, another's few runs come up at once. Runs that a call passes over
//! (for other agents, or of a busy order key) hold nobody up: a command passes over a few hundred, and the call goes on in
//! later ones ([`super::walks`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use redrive_core::ids::{IdempotencyKey, QueueName, Tenant};
use redrive_core::lifecycle::{Begin, Event};
use redrive_core::policy::RetryBy;
use redrive_core::text::Label;
use redrive_core::time::{SECOND_MS, Timestamp};
use redrive_core::wire::{HandedChange, Versions};

use crate::attempt::start::token;
use crate::breakers::gate;
use crate::breakers::{Gate, Probes};
use crate::error::{Error, Result};
use crate::lease::contents;
use crate::lease::limits;
use crate::lease::walks::{DuePlace, Filter, Lap, Walk};
use crate::model::{HourlyKind, LeaseCall, LeaseToken, TenantScope};
use crate::names::tenant_names;
use crate::names::versions;
use crate::ports::rows::{Candidate, DueCall, DueLook, DueRuns};
use crate::runs::attempts::json;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::tx::{Queue, Tx};

/// A queue's last lease call is noted this often; nobody needs it finer.
const CALL_NOTED_EVERY_MS: u64 = 10 * SECOND_MS;

/// Due runs of one tenant that one call holds: a million of them hold nobody else up.
const HELD_MAX_PER_TENANT: usize = 128;
/// Of all tenants together; beyond it one each.
const HELD_MAX: usize = 1_024;

/// Tenants that one call looks at though they have nothing for it: the next call goes on after them.
const BARREN_MAX: usize = 256;
/// Up to so many queues are asked one by one; of more, only those with due runs.
const QUEUES_ASKED_MAX: usize = 64;
/// Runs that one command passes over in all queues of the tenants whose turn it is.
const PASSED_MAX: usize = 512;
/// In each of them, however many there are.
const PASSED_MIN: usize = 4;
/// Commands of one call that found nothing more within what they may pass over. The next call goes on after the last one.
const CUTS_MAX: usize = 512;
/// Whose call it is when it names no tenant, or no queue.
const ALL: i64 = 0;

/// A run handed out; what it carries is read after the commit.
#[derive(Debug, Clone)]
pub struct Granted {
    pub row: i64,
    pub run_id: redrive_core::ids::RunId,
    pub tenant: Tenant,
    pub queue: QueueName,
    pub agent: Option<Label>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub model: Option<Label>,
    pub attempt: u32,
    pub revision: u32,
    pub replay: bool,
    pub lease: LeaseToken,
    pub lease_expires_at: Timestamp,
    pub changes: Vec<HandedChange>,
    /// What the worker runs.
    pub versions: Versions,
}

/// What one command of a call gave, and what is left of the call. One that takes long is cut where others wait, and goes on
/// in a later batch.
#[derive(Debug)]
pub struct Dealt {
    pub granted: Vec<Granted>,
    /// There may be more: the batch had to end, or the command had passed over enough.
    pub rest: Option<Rest>,
}

/// What is left of a call after some commands.
#[derive(Debug, Clone)]
pub struct Rest {
    /// Runs that it has got.
    runs: usize,
    bytes_left: usize,
    cuts: usize,
    /// The queues and tenants that it has not wholly looked at, and the lap that it has to see the end of; none where it
    /// has to ask all of them.
    unseen: BTreeMap<(i64, i64), Lap>,
}

impl Rest {
    pub fn all(call: &LeaseCall) -> Self {
        Self { runs: 0, bytes_left: call.payload_max_bytes, cuts: 0, unseen: BTreeMap::new() }
    }
}

/// How far a command has got with the due runs of a queue and a tenant.
struct Sight {
    walk: Walk,
    /// What the call has to see the end of.
    lap: Lap,
    is_new: bool,
    /// Others go on where it is now. A call that found enough at the front leaves the front to the next one: the oldest
    /// run that can be had goes first.
    is_moved: bool,
    /// Runs of the last look that the command has not come to.
    ahead: usize,
    behind: Behind,
    /// The command looks no further.
    is_over: bool,
}

/// What lies behind the runs of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Unknown,
    /// More, after as many as a command may pass over.
    After(DuePlace),
    /// Nothing that is due.
    Nothing,
}

impl Sight {
    fn begin(tx: &mut Tx<'_>, filter: Filter, place: (i64, i64), unseen: Option<&Lap>) -> Self {
        let (walk, is_new) = tx.known.walks.go_on(place, filter, tx.now);
        let lap = unseen.copied().filter(|lap| lap.is_of(&walk)).unwrap_or_else(|| walk.full_lap());
        let is_moved = walk.at != DuePlace::FRONT;
        Self { walk, lap, is_new, is_moved, ahead: 0, behind: Behind::Unknown, is_over: false }
    }

    /// The command has done with a run of the last look.
    fn pass(&mut self, run: DuePlace) {
        self.ahead -= 1;
        self.walk.at = run;
    }

    /// The command has done with the last look, or needs no more.
    fn end_look(&mut self, now: Timestamp) {
        if self.ahead > 0 || self.is_over {
            return;
        }
        match self.behind {
            Behind::Unknown => return,
            Behind::After(end) => (self.walk.at, self.is_moved) = (end, true),
            Behind::Nothing => {
                self.walk.end_lap(now);
                self.is_moved = !self.is_new;
            }
        }
        self.is_over = true;
    }

    /// The call has more to look at here, and the command may not.
    fn is_cut(&self) -> bool {
        self.is_over && !self.walk.has_ended(self.lap)
    }
}

/// What is left to give in one call.
struct Deal<'a> {
    call: &'a LeaseCall,
    /// As the runs remember it.
    request: Option<Label>,
    offered: Offered,
    runs_left: usize,
    bytes_left: usize,
    granted_any: bool,
    /// Runs that this call has handed out: none twice, however often it was found.
    runs: HashSet<i64>,
    /// Order keys that this call has handed out: one run each.
    keys: HashSet<(i64, String)>,
    /// Runs that were due and are held now.
    held: usize,
    held_of: HashMap<i64, usize>,
    /// Tenants that get nothing more from this call.
    done: HashSet<i64>,
    /// What each tenant may still be given.
    allowed: HashMap<i64, usize>,
    filter: Filter,
    /// By queue and tenant.
    sights: HashMap<(i64, i64), Sight>,
    /// Due runs that were read for the round, by queue and tenant.
    read: HashMap<(i64, i64), DueRuns>,
    unseen: &'a BTreeMap<(i64, i64), Lap>,
    /// Runs that one look may pass over.
    passable: usize,
}

impl Deal<'_> {
    /// How far the command has got with a queue and a tenant.
    fn sight(&mut self, tx: &mut Tx<'_>, place: (i64, i64)) -> &mut Sight {
        let (filter, unseen) = (self.filter, self.unseen);
        self.sights.entry(place).or_insert_with(|| Sight::begin(tx, filter, place, unseen.get(&place)))
    }

    /// Reads up to `most` due runs of each queue and tenant at once, unless the command has looked far enough.
    fn read_due(&mut self, tx: &mut Tx<'_>, places: &[(i64, i64)], most: usize) -> Result<()> {
        let (agents, window) = (self.call.agents.as_deref(), most + self.passable);
        let mut looks: Vec<DueLook> = Vec::with_capacity(places.len());
        for place in places {
            let sight = self.sight(tx, *place);
            if !sight.is_over {
                looks.push(look_at(*place, &sight.walk));
            }
        }
        let call = DueCall { looks: &looks, agents, most, window };
        let found = set_aside::readable(tx, |rows| rows.due_runs(call))?;
        self.read.extend(looks.iter().map(DueLook::place).zip(found));
        Ok(())
    }

    /// Up to `most` due runs, unless the command has looked far enough.
    fn look(&mut self, tx: &mut Tx<'_>, place: (i64, i64), most: usize) -> Result<Vec<Candidate>> {
        if !self.read.contains_key(&place) {
            self.read_due(tx, &[place], most)?;
        }
        let Some(DueRuns { mut candidates, end }) = self.read.remove(&place) else { return Ok(Vec::new()) };
        candidates.truncate(most);
        let sight = self.sight(tx, place);
        sight.ahead = candidates.len();
        sight.behind = match end {
            _ if candidates.len() >= most => Behind::Unknown,
            Some(end) => Behind::After(end),
            None => Behind::Nothing,
        };
        Ok(candidates)
    }

    fn pass(&mut self, row: &RunRow) {
        if let (Some(sight), Some(place)) = (self.sights.get_mut(&(row.queue, row.tenant)), DuePlace::of(row)) {
            sight.pass(place);
        }
    }

    fn allowance(&mut self, tx: &mut Tx<'_>, tenant: i64) -> Result<usize> {
        if let Some(left) = self.allowed.get(&tenant) {
            return Ok(*left);
        }
        let left = limits::allowance(tx, tenant)?;
        self.allowed.insert(tenant, left);
        Ok(left)
    }

    /// Holds a due run, unless the call has held enough: whoever has more of them waits for the next one.
    fn hold(&mut self, tx: &mut Tx<'_>, row: RunRow, by: Label) -> Result<()> {
        let of_tenant = self.held_of.entry(row.tenant).or_default();
        *of_tenant += 1;
        if *of_tenant >= HELD_MAX_PER_TENANT || self.held >= HELD_MAX {
            self.done.insert(row.tenant);
        }
        self.held += 1;
        gate::hold(tx, row, by)
    }
}

/// `POST /v1/leases`, or what is left of it after other commands.
pub fn lease(tx: &mut Tx<'_>, call: &LeaseCall, before: &Rest) -> Result<Dealt> {
    let request = request_of(tx, call)?;
    if let Some(request) = request.as_ref().filter(|_| before.runs == 0) {
        let granted = leased_before(tx, call, request)?;
        if !granted.is_empty() {
            return Ok(Dealt { granted, rest: None });
        }
    }
    let offered = if before.unseen.is_empty() { offered(tx, call)? } else { Offered::only(&before.unseen) };
    let wanted = usize::try_from(call.max).unwrap_or(0).saturating_sub(before.runs);
    let runs_left = tx.pace.runs_max(wanted);
    let is_piece = runs_left < wanted;
    let mut deal = Deal {
        call,
        request,
        offered,
        runs_left,
        bytes_left: before.bytes_left,
        granted_any: before.runs > 0,
        runs: HashSet::new(),
        keys: HashSet::new(),
        held: 0,
        held_of: HashMap::new(),
        done: HashSet::new(),
        allowed: HashMap::new(),
        filter: Filter::of(call.agents.as_deref()),
        sights: HashMap::new(),
        read: HashMap::new(),
        unseen: &before.unseen,
        passable: PASSED_MAX,
    };
    let mut hands = Vec::new();
    let (mut last_looked, mut barren) = (None, 0);
    // A tenant whose runs are held, or for other agents, leaves room, which goes to whoever comes next.
    while deal.runs_left > 0 && barren < BARREN_MAX {
        // As many more at a time as had nothing before.
        let most = deal.runs_left.max(barren);
        let tenants = tenants_in_turn(tx, &mut deal, most)?;
        let Some(last) = tenants.last() else { break };
        last_looked = Some(*last);
        let given = deal_rounds(tx, &mut deal, &tenants)?;
        barren += given.iter().filter(|(_, hand)| hand.is_empty()).count();
        hands.extend(given);
    }
    let granted = interleave(hands);
    // Where nothing was given, the next call begins with those whom this one has not looked at. A call for one tenant says
    // nothing of whose turn it is.
    if call.scope == TenantScope::All {
        tx.known.last_served = granted.last().map(|last| last.0).or(last_looked).unwrap_or(tx.known.last_served);
    }
    let unseen = remember_walks(tx, &deal);
    let runs = before.runs + granted.len();
    // A call that got all it could is at its end, whatever it asked for.
    let rest = if is_piece && granted.len() == runs_left {
        Some(Rest { runs, bytes_left: deal.bytes_left, cuts: before.cuts, unseen: before.unseen.clone() })
    } else if deal.runs_left > 0 && !unseen.is_empty() && before.cuts < CUTS_MAX {
        Some(Rest { runs, bytes_left: deal.bytes_left, cuts: before.cuts + 1, unseen })
    } else {
        None
    };
    Ok(Dealt { granted: granted.into_iter().map(|(_, granted)| granted).collect(), rest })
}

/// Remembers how far the command has got; says where the call has more to look at.
fn remember_walks(tx: &mut Tx<'_>, deal: &Deal<'_>) -> BTreeMap<(i64, i64), Lap> {
    let mut unseen = BTreeMap::new();
    for (place, sight) in &deal.sights {
        if sight.is_moved {
            tx.known.walks.remember(*place, deal.filter, sight.walk);
        }
        if sight.is_cut() && deal.allowed.get(&place.1).is_none_or(|left| *left > 0) {
            unseen.insert(*place, sight.lap);
        }
    }
    unseen
}

/// What a call is known by among all scopes; nobody's leases come back in another scope.
fn request_of(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Option<Label>> {
    let Some(request) = &call.request_id else { return Ok(None) };
    Ok(scope_of(tx, call)?.map(|tenant| Label::from(format!("{tenant}:{request}").as_str())))
}

/// The number of the call's tenant; none where the tenant has never been heard of.
fn scope_of(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Option<i64>> {
    match &call.scope {
        TenantScope::All => Ok(Some(ALL)),
        TenantScope::One(tenant) => tx.find_tenant(tenant),
    }
}

/// The leases of the same call, should its answer have got lost: those that live.
fn leased_before(tx: &mut Tx<'_>, call: &LeaseCall, request: &Label) -> Result<Vec<Granted>> {
    let mut again = Vec::new();
    for candidate in set_aside::readable(tx, |rows| rows.leased_by(request.as_str()))? {
        if candidate.row.request() == Some(request.as_str()) {
            again.push(granted(tx, call, candidate)?);
        }
    }
    Ok(again)
}

/// Where a call looks for due runs.
enum Offered {
    /// In these queues, whoever's runs are there.
    Queues(Vec<i64>),
    /// In the queues where each tenant has due runs.
    ByTenant(BTreeMap<i64, Vec<i64>>),
}

impl Offered {
    fn only(unseen: &BTreeMap<(i64, i64), Lap>) -> Self {
        let mut places = BTreeMap::<i64, Vec<i64>>::new();
        for (queue, tenant) in unseen.keys() {
            places.entry(*tenant).or_default().push(*queue);
        }
        Self::ByTenant(places)
    }

    fn queues_of(&self, tenant: i64) -> &[i64] {
        match self {
            Self::Queues(queues) => queues,
            Self::ByTenant(places) => places.get(&tenant).map_or(&[], Vec::as_slice),
        }
    }

    /// The next tenant after one that has scheduled runs, and when the first of them is due.
    fn next_tenant(&self, tx: &mut Tx<'_>, after: i64) -> Result<Option<(i64, Timestamp)>> {
        match self {
            Self::Queues(queues) => Ok(tx.rows.next_tenant(queues, after, tx.now)?),
            Self::ByTenant(places) => {
                let after = (Bound::Excluded(after), Bound::Unbounded);
                Ok(places.range(after).next().map(|(tenant, _)| (*tenant, tx.now)))
            }
        }
    }
}

/// Where a call looks. One for all queues of all tenants costs by where runs are due, not by how many names there are.
fn offered(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Offered> {
    let spans_all = call.queues.is_empty() && call.scope == TenantScope::All;
    if !spans_all || tx.rows.queue_numbers(QUEUES_ASKED_MAX + 1)?.len() <= QUEUES_ASKED_MAX {
        let queues = leasable_queues(tx, call)?;
        return Ok(Offered::Queues(queues.into_iter().map(|queue| queue.id).collect()));
    }
    note_lease_call(tx, ALL, ALL, &call.versions)?;
    let (mut places, mut at) = (BTreeMap::<i64, Vec<i64>>::new(), (i64::MIN, i64::MIN));
    while let Some((place, due)) = tx.rows.next_waiting(at)? {
        at = place;
        let (queue, tenant) = place;
        if due <= tx.now && tx.queue_by_id(queue)?.settings.retry_by == RetryBy::Worker {
            places.entry(tenant).or_default().push(queue);
        }
    }
    Ok(Offered::ByTenant(places))
}

/// The queues of a call that workers may lease, each noted as called for.
fn leasable_queues(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Vec<Queue>> {
    let Some(scope) = scope_of(tx, call)? else { return Ok(Vec::new()) };
    let mut queues = Vec::new();
    if call.queues.is_empty() {
        let ids = match scope {
            ALL => tx.rows.queue_numbers(QUEUES_ASKED_MAX)?,
            tenant => tx.rows.queue_numbers_of(tenant)?,
        };
        for id in ids {
            queues.push(tx.queue_by_id(id)?);
        }
    }
    for name in &call.queues {
        // A name that only another tenant uses is unknown to this one.
        let named = if scope == ALL { tx.find_queue(name)? } else { tenant_names::queue_seen_by(tx, scope, name)? };
        queues.extend(named);
    }
    let mut met = HashSet::new();
    queues.retain(|queue| queue.settings.retry_by == RetryBy::Worker && met.insert(queue.id));
    if call.queues.is_empty() {
        note_lease_call(tx, ALL, scope, &call.versions)?;
    }
    for queue in queues.iter().filter(|_| !call.queues.is_empty()) {
        note_lease_call(tx, queue.id, scope, &call.versions)?;
    }
    Ok(queues)
}

fn note_lease_call(tx: &mut Tx<'_>, queue: i64, tenant: i64, versions: &Versions) -> Result<()> {
    let noted = tx.known.lease_calls.get(&(queue, tenant));
    if noted.is_some_and(|at| tx.now.since(*at) < CALL_NOTED_EVERY_MS) {
        return Ok(());
    }
    // What workers run with is what a replay would run with; one that does not say takes nobody's word back.
    let versions = if versions.is_empty() { None } else { Some(json(versions)?) };
    tx.rows.note_lease_call(queue, tenant, versions.as_deref(), tx.now)?;
    tx.known.lease_calls.insert((queue, tenant), tx.now);
    Ok(())
}

/// Up to so many tenants with due work, beginning after the one served last.
fn tenants_in_turn(tx: &mut Tx<'_>, deal: &mut Deal<'_>, most: usize) -> Result<Vec<i64>> {
    if let TenantScope::One(tenant) = &deal.call.scope {
        let only = tx.find_tenant(tenant)?.filter(|only| !deal.done.contains(only));
        return Ok(only.into_iter().collect());
    }
    let first = tx.known.last_served;
    let mut tenants = Vec::new();
    for (after, up_to) in [(first, i64::MAX), (i64::MIN, first)] {
        let mut at = after;
        while tenants.len() < most {
            let next = deal.offered.next_tenant(tx, at)?;
            let Some((next, due)) = next.filter(|(next, _)| *next <= up_to) else { break };
            if due <= tx.now && !deal.done.contains(&next) && deal.allowance(tx, next)? > 0 {
                tenants.push(next);
            }
            at = next;
        }
    }
    Ok(tenants)
}

type Hand = (i64, Vec<Granted>);

/// Gives each tenant its share of what is left, then what others did not need, until nothing is left to give or take.
fn deal_rounds(tx: &mut Tx<'_>, deal: &mut Deal<'_>, tenants: &[i64]) -> Result<Vec<Hand>> {
    let mut hands: Vec<Hand> = tenants.iter().map(|tenant| (*tenant, Vec::new())).collect();
    let mut hungry: Vec<usize> = (0..hands.len()).collect();
    let places = |deal: &Deal<'_>, tenant: i64| -> Vec<(i64, i64)> {
        deal.offered.queues_of(tenant).iter().map(|queue| (*queue, tenant)).collect()
    };
    let count: usize = tenants.iter().map(|tenant| deal.offered.queues_of(*tenant).len()).sum();
    deal.passable = (PASSED_MAX / count.max(1)).max(PASSED_MIN);
    while !hungry.is_empty() && deal.runs_left > 0 {
        let (each, over) = (deal.runs_left / hungry.len(), deal.runs_left % hungry.len());
        let in_turn: Vec<(i64, i64)> = hungry.iter().flat_map(|at| places(deal, hands[*at].0)).collect();
        deal.read.clear();
        deal.read_due(tx, &in_turn, each + usize::from(over > 0))?;
        let mut still = Vec::new();
        for (turn, at) in hungry.into_iter().enumerate() {
            let (tenant, hand) = &mut hands[at];
            // What can't be shared out evenly goes to those whose turn is first; the next call begins after them.
            let share = each + usize::from(turn < over);
            if share == 0 {
                still.push(at);
                continue;
            }
            let got = deal_to(tx, deal, *tenant, share.min(deal.runs_left))?;
            if got.len() == share {
                still.push(at);
            } else {
                // All that it has for this call was looked at.
                deal.done.insert(*tenant);
            }
            hand.extend(got);
        }
        hungry = still;
    }
    Ok(hands)
}

/// Hands up to `share` of a tenant's due runs out, within its limits; those that a breaker holds are not among them.
fn deal_to(tx: &mut Tx<'_>, deal: &mut Deal<'_>, tenant: i64, share: usize) -> Result<Vec<Granted>> {
    let share = share.min(deal.allowance(tx, tenant)?);
    let mut granted = Vec::new();
    loop {
        let held = deal.held;
        let most = share - granted.len();
        granted.extend(deal_some(tx, deal, tenant, most)?);
        let more = deal.held > held && granted.len() < share && deal.runs_left > 0 && !deal.done.contains(&tenant);
        if !more {
            break;
        }
    }
    if let Some(left) = deal.allowed.get_mut(&tenant) {
        *left -= granted.len();
    }
    Ok(granted)
}

/// Looks at as many due runs as there is room for, in due order over the queues.
fn deal_some(tx: &mut Tx<'_>, deal: &mut Deal<'_>, tenant: i64, share: usize) -> Result<Vec<Granted>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let queues = deal.offered.queues_of(tenant).to_vec();
    for queue in &queues {
        candidates.extend(deal.look(tx, (*queue, tenant), share)?);
    }
    candidates.sort_by_key(|candidate| (candidate.row.run.due_at(), candidate.row.id));
    let mut granted = Vec::new();
    for candidate in candidates {
        if granted.len() == share || deal.done.contains(&tenant) {
            break;
        }
        if deal.runs.contains(&candidate.row.id) {
            deal.pass(&candidate.row);
            continue;
        }
        let probes = match gate::gate(tx, &candidate.row)? {
            Gate::Open(probes) => probes,
            Gate::Held(by) => {
                deal.pass(&candidate.row);
                deal.hold(tx, candidate.row, by)?;
                continue;
            }
        };
        let bytes = candidate.bytes.saturating_add(candidate.row.step_bytes);
        if deal.granted_any && bytes > deal.bytes_left {
            // No room for it in this answer: it is first in the next one.
            deal.runs_left = 0;
            break;
        }
        deal.pass(&candidate.row);
        if let Some(key) = &candidate.order_key
            && !deal.keys.insert((tenant, key.clone()))
        {
            continue;
        }
        deal.bytes_left = deal.bytes_left.saturating_sub(bytes);
        deal.granted_any = true;
        deal.runs_left -= 1;
        deal.runs.insert(candidate.row.id);
        granted.push(grant(tx, deal, candidate, probes)?);
    }
    for queue in queues {
        deal.sight(tx, (queue, tenant)).end_look(tx.now);
    }
    Ok(granted)
}

fn look_at((queue, tenant): (i64, i64), walk: &Walk) -> DueLook {
    DueLook { queue, tenant, after: walk.at, until: walk.until }
}

fn grant(tx: &mut Tx<'_>, deal: &Deal<'_>, candidate: Candidate, probes: Probes) -> Result<Granted> {
    let call = deal.call;
    let mut row = candidate.row;
    let before = row.clone();
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let begin = Begin { lease_ms: call.lease_ms.unwrap_or(policy.lease_ms), ..Begin::default() };
    row.run = row.ask(&Event::Begin(begin), &policy, tx.now)?.run;
    row.ensure_lease_secret(tx.dice);
    row.worker.clone_from(&call.worker);
    row.touch(call.by);
    row.versions.clone_from(&call.versions);
    versions::see_versions(tx, row.tenant, &call.versions)?;
    row.start_id = None;
    row.request.clone_from(&deal.request);
    gate::begun(tx, &mut row, probes, &policy)?;
    limits::count_lease(tx, row.tenant)?;
    run_row::save(tx, &before, &row)?;
    tx.tally.happened(tx.now, row.tenant, row.queue, HourlyKind::Started, None);
    granted(tx, call, Candidate { row, ..candidate })
}

/// A run under way, as its worker gets it.
fn granted(tx: &mut Tx<'_>, call: &LeaseCall, candidate: Candidate) -> Result<Granted> {
    let Candidate { row, agent, idempotency_key, .. } = candidate;
    let (replay, lease_expires_at) = row.run.lease().map_or((false, tx.now), |lease| (lease.replay, lease.expires_at));
    Ok(Granted {
        row: row.id,
        run_id: row.run_id.clone(),
        tenant: tx.tenant_name(row.tenant)?,
        queue: tx.queue_by_id(row.queue)?.name,
        agent,
        idempotency_key,
        model: row.run.target.model.clone().or_else(|| row.model.clone()),
        attempt: row.run.attempt,
        revision: row.run.revision,
        replay,
        lease: token(&row).ok_or_else(|| Error::Unexpected("a run under way without a lease".into()))?,
        lease_expires_at,
        changes: contents::wanted(&row),
        versions: call.versions.clone(),
    })
}

/// The first of each tenant, then the second of each, and so on.
fn interleave(hands: Vec<Hand>) -> Vec<(i64, Granted)> {
    let mut hands: Vec<(i64, std::vec::IntoIter<Granted>)> =
        hands.into_iter().map(|(tenant, hand)| (tenant, hand.into_iter())).collect();
    let mut dealt = Vec::new();
    loop {
        let before = dealt.len();
        for (tenant, hand) in &mut hands {
            dealt.extend(hand.next().map(|granted| (*tenant, granted)));
        }
        if dealt.len() == before {
            return dealt;
        }
    }
}
