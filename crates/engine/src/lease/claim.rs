//! Dealing due runs to workers: round robin over the tenants that have some, in due order within each, starting after
//! the one served last. Whatever one tenant's backlog, another's few runs come up at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use redrive_core::ids::{IdempotencyKey, QueueName, Tenant};
use redrive_core::lifecycle::{Begin, Event};
use redrive_core::policy::RetryBy;
use redrive_core::text::Label;
use redrive_core::time::{SECOND_MS, Timestamp};
use redrive_core::wire::{HandedChange, Versions};

use crate::attempt::start::token;
use crate::breakers::{Gate, Probes};
use crate::error::{Error, Result};
use crate::lease::handing_out;
use crate::model::{HourlyKind, LeaseCall, LeaseToken, TenantScope};
use crate::ports::rows::{Candidate, DueCall, DueHint};
use crate::runs::attempts::json;
use crate::runs::run_row::RunRow;
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

/// What a call has got so far. One that takes long is cut where others wait, and goes on in a later batch.
#[derive(Debug)]
pub struct Dealt {
    pub granted: Vec<Granted>,
    /// There may be more: the batch had to end.
    pub is_cut: bool,
    bytes_left: usize,
}

/// What the pieces of a call before this one have given.
#[derive(Debug, Clone, Copy)]
pub struct SoFar {
    runs: usize,
    bytes_left: usize,
}

impl Dealt {
    pub fn none(call: &LeaseCall) -> Self {
        Self { granted: Vec::new(), is_cut: false, bytes_left: call.payload_max_bytes }
    }

    pub fn so_far(&self) -> SoFar {
        SoFar { runs: self.granted.len(), bytes_left: self.bytes_left }
    }

    pub fn add(&mut self, piece: Self) {
        self.granted.extend(piece.granted);
        (self.is_cut, self.bytes_left) = (piece.is_cut, piece.bytes_left);
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
}

impl Deal<'_> {
    fn allowance(&mut self, tx: &mut Tx<'_>, tenant: i64) -> Result<usize> {
        if let Some(left) = self.allowed.get(&tenant) {
            return Ok(*left);
        }
        let left = tx.allowance(tenant)?;
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
        tx.hold(row, by)
    }
}

/// `POST /v1/leases`, or what is left of it after other pieces.
pub fn lease(tx: &mut Tx<'_>, call: &LeaseCall, before: SoFar) -> Result<Dealt> {
    let request = request_of(tx, call)?;
    if let Some(request) = request.as_ref().filter(|_| before.runs == 0) {
        let granted = leased_before(tx, call, request)?;
        if !granted.is_empty() {
            return Ok(Dealt { granted, is_cut: false, bytes_left: before.bytes_left });
        }
    }
    let offered = offered(tx, call)?;
    let wanted = usize::try_from(call.max).unwrap_or(0).saturating_sub(before.runs);
    let runs_left = tx.pace.piece(wanted);
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
    // A call that got all it could is at its end, whatever it asked for.
    let is_cut = is_piece && granted.len() == runs_left;
    let granted = granted.into_iter().map(|(_, granted)| granted).collect();
    Ok(Dealt { granted, is_cut, bytes_left: deal.bytes_left })
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
    for candidate in tx.readable(|rows| rows.leased_by(request.as_str()))? {
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
    tx.note_lease_call(ALL, ALL, &call.versions)?;
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
        let named = if scope == ALL { tx.find_queue(name)? } else { tx.queue_seen_by(scope, name)? };
        queues.extend(named);
    }
    let mut met = HashSet::new();
    queues.retain(|queue| queue.settings.retry_by == RetryBy::Worker && met.insert(queue.id));
    if call.queues.is_empty() {
        tx.note_lease_call(ALL, scope, &call.versions)?;
    }
    for queue in queues.iter().filter(|_| !call.queues.is_empty()) {
        tx.note_lease_call(queue.id, scope, &call.versions)?;
    }
    Ok(queues)
}

impl Tx<'_> {
    fn note_lease_call(&mut self, queue: i64, tenant: i64, versions: &Versions) -> Result<()> {
        let noted = self.known.lease_calls.get(&(queue, tenant));
        if noted.is_some_and(|at| self.now.since(*at) < CALL_NOTED_EVERY_MS) {
            return Ok(());
        }
        // What workers run with is what a replay would run with; one that does not say takes nobody's word back.
        let versions = if versions.is_empty() { None } else { Some(json(versions)?) };
        self.rows.note_lease_call(queue, tenant, versions.as_deref(), self.now)?;
        self.known.lease_calls.insert((queue, tenant), self.now);
        Ok(())
    }
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
    let most = deal.runs_left.div_ceil(hands.len().max(1));
    let agents = deal.call.agents.as_deref();
    let places =
        |tenant: &i64| deal.offered.queues_of(*tenant).iter().map(|queue| (*queue, *tenant)).collect::<Vec<_>>();
    let places: Vec<(i64, i64)> = tenants.iter().flat_map(places).collect();
    tx.rows.expect_due(DueHint { places: &places, agents, now: tx.now, most })?;
    while !hungry.is_empty() && deal.runs_left > 0 {
        let (each, over) = (deal.runs_left / hungry.len(), deal.runs_left % hungry.len());
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
            tx.rows.so_far()?;
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
    for queue in deal.offered.queues_of(tenant) {
        let agents = deal.call.agents.as_deref();
        let call = DueCall { queue: *queue, tenant, agents, now: tx.now, most: share };
        candidates.extend(tx.readable(|rows| rows.due_runs(call))?);
    }
    candidates.sort_by_key(|candidate| (candidate.row.run.due_at(), candidate.row.id));
    let mut granted = Vec::new();
    for candidate in candidates {
        if granted.len() == share || deal.done.contains(&tenant) {
            break;
        }
        if deal.runs.contains(&candidate.row.id) {
            continue;
        }
        let probes = match tx.gate(&candidate.row)? {
            Gate::Open(probes) => probes,
            Gate::Held(by) => {
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
    Ok(granted)
}

fn grant(tx: &mut Tx<'_>, deal: &Deal<'_>, candidate: Candidate, probes: Probes) -> Result<Granted> {
    let call = deal.call;
    let mut row = candidate.row;
    let before = row.clone();
    let (_, policy) = tx.rules_of(&row)?;
    let begin = Begin { lease_ms: call.lease_ms.unwrap_or(policy.lease_ms), ..Begin::default() };
    row.run = row.ask(&Event::Begin(begin), &policy, tx.now)?.run;
    row.ensure_lease_secret(tx.dice);
    row.worker.clone_from(&call.worker);
    row.touch(call.by);
    row.versions.clone_from(&call.versions);
    tx.see_versions(row.tenant, &call.versions)?;
    row.start_id = None;
    row.request.clone_from(&deal.request);
    tx.begun(&mut row, probes, &policy)?;
    tx.count_lease(row.tenant)?;
    tx.save(&before, &row)?;
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
        changes: handing_out::wanted(&row),
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
