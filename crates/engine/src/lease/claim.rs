//! `POST /v1/leases`: leases due runs round robin over tenants, in due order within a tenant, starting after the tenant
//! served last. A large backlog of one tenant therefore delays no other. Each command does a bounded amount of work, and a
//! call continues in later commands until it is complete.

use std::collections::{BTreeMap, HashMap, HashSet};

use redrive_core::text::Label;
use redrive_core::time::Timestamp;

use crate::breakers::{GateDecision, gate};
use crate::error::Result;
use crate::lease::grant::{GrantedLease, grant, leases_of_request};
use crate::lease::limits;
use crate::lease::scan::{AgentFilter, DuePosition, DuePrefetch, DueQuery, DueRun, DueScan, ScanCursor, ScanRound};
use crate::lease::sources::{DueSources, scope_of};
use crate::model::{LeaseCall, TenantScope};
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::tx::Tx;

/// Runs of one tenant that one command may put on hold.
const HELD_MAX_PER_TENANT: usize = 128;
/// Of all tenants together; beyond it one each.
const HELD_MAX: usize = 1_024;
/// Tenants without runs for the call that one command examines; the next call continues after them.
const EMPTY_TENANTS_MAX: usize = 256;
/// Rows that one command may skip, over all queues of the tenants that it serves.
const SKIPPED_MAX: usize = 512;
/// In each queue, however many there are.
const SKIPPED_MIN: usize = 4;
/// Commands of one call that may end at the limit on skipped rows.
const INTERRUPTIONS_MAX: usize = 512;

/// A queue and a tenant.
type QueueTenant = (i64, i64);

/// What one command of a call granted.
#[derive(Debug)]
pub struct ClaimResult {
    pub granted: Vec<GrantedLease>,
    /// Where a later command continues; none once the call is complete.
    pub next: Option<ClaimProgress>,
}

/// The progress of a call between its commands.
#[derive(Debug, Clone)]
pub struct ClaimProgress {
    granted: usize,
    bytes_left: usize,
    interruptions: usize,
    /// The scans left, each with the round that it has to finish. Empty: the call examines all of its sources.
    unfinished: BTreeMap<QueueTenant, ScanRound>,
}

impl ClaimProgress {
    pub fn new(call: &LeaseCall) -> Self {
        Self { granted: 0, bytes_left: call.payload_max_bytes, interruptions: 0, unfinished: BTreeMap::new() }
    }
}

/// Runs one command of a lease call.
pub fn claim_runs(tx: &mut Tx<'_>, call: &LeaseCall, before: &ClaimProgress) -> Result<ClaimResult> {
    let request = request_key(tx, call)?;
    if let Some(request) = request.as_ref().filter(|_| before.granted == 0) {
        let granted = leases_of_request(tx, call, request)?;
        if !granted.is_empty() {
            return Ok(ClaimResult { granted, next: None });
        }
    }
    let wanted = (call.max as usize).saturating_sub(before.granted);
    let piece = tx.pace.piece(wanted);
    let mut claim = ClaimCommand::new(tx, call, request, before, piece)?;
    let granted = claim.serve_tenants(tx)?;
    let unfinished = claim.save_cursors(tx);
    let progress = ClaimProgress {
        granted: before.granted + granted.len(),
        bytes_left: claim.bytes_left,
        interruptions: before.interruptions,
        unfinished: before.unfinished.clone(),
    };
    let next = if piece < wanted && granted.len() == piece {
        Some(progress)
    } else if claim.runs_left > 0 && !unfinished.is_empty() && before.interruptions < INTERRUPTIONS_MAX {
        Some(ClaimProgress { interruptions: before.interruptions + 1, unfinished, ..progress })
    } else {
        None
    };
    Ok(ClaimResult { granted, next })
}

/// Identifies a repeatable call. The scope is part of it, so that no leases of another scope are returned.
fn request_key(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Option<Label>> {
    let Some(request) = &call.request_id else { return Ok(None) };
    Ok(scope_of(tx, call)?.map(|tenant| Label::from(format!("{tenant}:{request}").as_str())))
}

/// One command of a call while it runs.
struct ClaimCommand<'a> {
    call: &'a LeaseCall,
    request: Option<Label>,
    sources: DueSources,
    filter: AgentFilter,
    unfinished: &'a BTreeMap<QueueTenant, ScanRound>,
    scans: HashMap<QueueTenant, PlaceScan>,
    /// Rows that one page may skip.
    skippable: usize,
    runs_left: usize,
    bytes_left: usize,
    /// By this command or an earlier one of the call.
    granted_any: bool,
    /// Runs leased by this command: a run that a scan finds twice is leased once.
    leased: HashSet<i64>,
    /// Tenant and order key of leased runs: one run each.
    order_keys: HashSet<(i64, String)>,
    held: usize,
    held_by_tenant: HashMap<i64, usize>,
    /// Tenants that get nothing more from this command.
    exhausted: HashSet<i64>,
    /// What the limits of each tenant still allow.
    allowances: HashMap<i64, usize>,
}

/// What a command granted to one tenant.
struct TenantTurn {
    tenant: i64,
    granted: Vec<GrantedLease>,
}

impl<'a> ClaimCommand<'a> {
    fn new(
        tx: &mut Tx<'_>,
        call: &'a LeaseCall,
        request: Option<Label>,
        before: &'a ClaimProgress,
        runs_left: usize,
    ) -> Result<Self> {
        let sources = match before.unfinished.is_empty() {
            true => DueSources::of(tx, call)?,
            false => DueSources::only(before.unfinished.keys()),
        };
        Ok(Self {
            call,
            request,
            sources,
            filter: AgentFilter::of(call.agents.as_deref()),
            unfinished: &before.unfinished,
            scans: HashMap::new(),
            skippable: SKIPPED_MAX,
            runs_left,
            bytes_left: before.bytes_left,
            granted_any: before.granted > 0,
            leased: HashSet::new(),
            order_keys: HashSet::new(),
            held: 0,
            held_by_tenant: HashMap::new(),
            exhausted: HashSet::new(),
            allowances: HashMap::new(),
        })
    }

    /// Serves tenants in turn until the command is full or no tenant has runs left for it.
    fn serve_tenants(&mut self, tx: &mut Tx<'_>) -> Result<Vec<GrantedLease>> {
        let mut turns = Vec::new();
        let (mut last_examined, mut empty) = (None, 0);
        // Tenants whose runs are held, or meant for other agents, leave room for the next ones.
        while self.runs_left > 0 && empty < EMPTY_TENANTS_MAX {
            // The number of tenants grows with how many had nothing so far.
            let tenants = self.next_tenants(tx, self.runs_left.max(empty))?;
            let Some(last) = tenants.last() else { break };
            last_examined = Some(*last);
            let served = self.serve(tx, &tenants)?;
            empty += served.iter().filter(|turn| turn.granted.is_empty()).count();
            turns.extend(served);
        }
        let granted = interleave(turns);
        // Without a grant the next call begins with tenants that this one has not examined. A call for one tenant does
        // not take part in the round robin.
        if self.call.scope == TenantScope::All
            && let Some(last) = granted.last().map(|(tenant, _)| *tenant).or(last_examined)
        {
            tx.known.last_served = last;
        }
        Ok(granted.into_iter().map(|(_, granted)| granted).collect())
    }

    /// Up to `most` tenants with due runs, beginning after the one served last.
    fn next_tenants(&mut self, tx: &mut Tx<'_>, most: usize) -> Result<Vec<i64>> {
        if let TenantScope::One(tenant) = &self.call.scope {
            let only = tx.find_tenant(tenant)?.filter(|only| !self.exhausted.contains(only));
            return Ok(only.into_iter().collect());
        }
        let first = tx.known.last_served;
        let mut tenants = Vec::new();
        for (after, up_to) in [(first, i64::MAX), (i64::MIN, first)] {
            let mut at = after;
            while tenants.len() < most {
                let next = self.sources.next_tenant(tx, at)?;
                let Some((next, due)) = next.filter(|(next, _)| *next <= up_to) else { break };
                if due <= tx.now && !self.exhausted.contains(&next) && self.allowance(tx, next)? > 0 {
                    tenants.push(next);
                }
                at = next;
            }
        }
        Ok(tenants)
    }

    /// Gives each tenant an equal share of what is left, then shares out again what some of them did not use.
    fn serve(&mut self, tx: &mut Tx<'_>, tenants: &[i64]) -> Result<Vec<TenantTurn>> {
        self.prefetch(tx, tenants)?;
        let mut turns: Vec<TenantTurn> =
            tenants.iter().map(|tenant| TenantTurn { tenant: *tenant, granted: Vec::new() }).collect();
        let mut active: Vec<&mut TenantTurn> = turns.iter_mut().collect();
        while !active.is_empty() && self.runs_left > 0 {
            let (each, remainder) = (self.runs_left / active.len(), self.runs_left % active.len());
            let mut still_active = Vec::new();
            for (nth, turn) in active.into_iter().enumerate() {
                // The remainder goes to the first tenants; the next call begins after them.
                let share = each + usize::from(nth < remainder);
                if share == 0 {
                    still_active.push(turn);
                    continue;
                }
                let granted = self.grant_share(tx, turn.tenant, share.min(self.runs_left))?;
                tx.rows.flush_hint()?;
                let got_all = granted.len() == share;
                turn.granted.extend(granted);
                if got_all {
                    still_active.push(turn);
                } else {
                    self.exhausted.insert(turn.tenant);
                }
            }
            active = still_active;
        }
        Ok(turns)
    }

    /// Announces the first pages of these tenants to the store, and divides the rows that may be skipped among them.
    fn prefetch(&mut self, tx: &mut Tx<'_>, tenants: &[i64]) -> Result<()> {
        let places: Vec<QueueTenant> = tenants
            .iter()
            .flat_map(|tenant| self.sources.queues_of(*tenant).iter().map(|queue| (*queue, *tenant)))
            .collect();
        self.skippable = (SKIPPED_MAX / places.len().max(1)).max(SKIPPED_MIN);
        let scans: Vec<DueScan> = places.into_iter().map(|place| self.scan(tx, place).cursor.scan(place)).collect();
        let most = self.runs_left.div_ceil(tenants.len().max(1));
        let agents = self.call.agents.as_deref();
        Ok(tx.rows.prefetch_due(DuePrefetch { scans: &scans, agents, most, window: most + self.skippable })?)
    }

    /// Leases up to `share` due runs of a tenant, within its limits.
    fn grant_share(&mut self, tx: &mut Tx<'_>, tenant: i64, share: usize) -> Result<Vec<GrantedLease>> {
        let share = share.min(self.allowance(tx, tenant)?);
        let mut granted = Vec::new();
        loop {
            let held_before = self.held;
            granted.extend(self.grant_page(tx, tenant, share - granted.len())?);
            // A page with runs that a breaker holds is followed by another.
            let has_held = self.held > held_before;
            let has_room = granted.len() < share && self.runs_left > 0;
            if !has_held || !has_room || self.exhausted.contains(&tenant) {
                break;
            }
        }
        if let Some(left) = self.allowances.get_mut(&tenant) {
            *left -= granted.len();
        }
        Ok(granted)
    }

    /// Reads one page of each of the tenant's queues and leases up to `share` runs of them in due order.
    fn grant_page(&mut self, tx: &mut Tx<'_>, tenant: i64, share: usize) -> Result<Vec<GrantedLease>> {
        let queues = self.sources.queues_of(tenant).to_vec();
        let mut page: Vec<DueRun> = Vec::new();
        for queue in &queues {
            page.extend(self.read_page(tx, (*queue, tenant), share)?);
        }
        page.sort_by_key(|due| (due.row.run.due_at(), due.row.id));
        let mut granted = Vec::new();
        for due in page {
            if granted.len() == share || self.exhausted.contains(&tenant) {
                break;
            }
            if self.leased.contains(&due.row.id) {
                self.advance(&due.row);
                continue;
            }
            let probes = match gate::gate(tx, &due.row)? {
                GateDecision::Open(probes) => probes,
                GateDecision::Held(by) => {
                    self.advance(&due.row);
                    self.hold(tx, due.row, by)?;
                    continue;
                }
            };
            let bytes = due.bytes.saturating_add(due.row.step_bytes);
            if self.granted_any && bytes > self.bytes_left {
                // The answer is full. The cursor stays before this run, so that it comes first in the next call.
                self.runs_left = 0;
                break;
            }
            self.advance(&due.row);
            if let Some(key) = &due.order_key
                && !self.order_keys.insert((tenant, key.clone()))
            {
                continue;
            }
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            self.granted_any = true;
            self.runs_left -= 1;
            self.leased.insert(due.row.id);
            granted.push(grant(tx, self.call, self.request.as_ref(), due, probes)?);
        }
        for queue in queues {
            self.scan(tx, (queue, tenant)).end_page(tx.now);
        }
        Ok(granted)
    }

    fn scan(&mut self, tx: &mut Tx<'_>, place: QueueTenant) -> &mut PlaceScan {
        let (filter, unfinished) = (self.filter, self.unfinished);
        self.scans.entry(place).or_insert_with(|| PlaceScan::begin(tx, filter, place, unfinished.get(&place)))
    }

    /// Up to `most` due runs; none once the scan is over for this command.
    fn read_page(&mut self, tx: &mut Tx<'_>, place: QueueTenant, most: usize) -> Result<Vec<DueRun>> {
        let (agents, window) = (self.call.agents.as_deref(), most + self.skippable);
        let scan = self.scan(tx, place);
        if scan.is_over {
            return Ok(Vec::new());
        }
        let query = DueQuery { at: scan.cursor.scan(place), agents, most, window };
        let mut end = None;
        let runs = set_aside::readable(tx, |rows| {
            let page = rows.due_runs(query)?;
            end = page.end;
            Ok(page.runs)
        })?;
        scan.unprocessed = runs.len();
        scan.after_page = match end {
            _ if runs.len() >= most => AfterPage::Unknown,
            Some(end) => AfterPage::More(end),
            None => AfterPage::Nothing,
        };
        Ok(runs)
    }

    /// Moves the cursor past a run.
    fn advance(&mut self, row: &RunRow) {
        if let (Some(scan), Some(position)) = (self.scans.get_mut(&(row.queue, row.tenant)), DuePosition::of(row)) {
            scan.advance(position);
        }
    }

    fn allowance(&mut self, tx: &mut Tx<'_>, tenant: i64) -> Result<usize> {
        if let Some(left) = self.allowances.get(&tenant) {
            return Ok(*left);
        }
        let left = limits::allowance(tx, tenant)?;
        self.allowances.insert(tenant, left);
        Ok(left)
    }

    /// Puts a due run on hold. A tenant with too many of them gets nothing more from this command.
    fn hold(&mut self, tx: &mut Tx<'_>, row: RunRow, by: Label) -> Result<()> {
        let of_tenant = self.held_by_tenant.entry(row.tenant).or_default();
        *of_tenant += 1;
        if *of_tenant >= HELD_MAX_PER_TENANT || self.held >= HELD_MAX {
            self.exhausted.insert(row.tenant);
        }
        self.held += 1;
        gate::hold(tx, row, by)
    }

    /// Saves the cursors for later commands, and returns the scans that the call has not finished.
    fn save_cursors(&self, tx: &mut Tx<'_>) -> BTreeMap<QueueTenant, ScanRound> {
        let mut unfinished = BTreeMap::new();
        for (place, scan) in &self.scans {
            if scan.is_moved {
                tx.known.scan_cursors.save(*place, self.filter, scan.cursor);
            }
            let (_, tenant) = place;
            if scan.is_interrupted() && self.allowances.get(tenant).is_none_or(|left| *left > 0) {
                unfinished.insert(*place, scan.round);
            }
        }
        unfinished
    }
}

/// A command's scan over the due runs of a queue and a tenant.
struct PlaceScan {
    cursor: ScanCursor,
    /// The round that the call has to finish.
    round: ScanRound,
    is_new: bool,
    /// Later calls continue at the cursor. A call that found enough at the front leaves them the front, so that the
    /// oldest run that a worker accepts goes first.
    is_moved: bool,
    /// Runs of the last page that the command has not come to.
    unprocessed: usize,
    after_page: AfterPage,
    /// The command reads no further page.
    is_over: bool,
}

/// What follows the last page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterPage {
    Unknown,
    /// More due runs, after as many rows as a page may examine.
    More(DuePosition),
    /// No due run.
    Nothing,
}

impl PlaceScan {
    fn begin(tx: &mut Tx<'_>, filter: AgentFilter, place: QueueTenant, unfinished: Option<&ScanRound>) -> Self {
        let (cursor, is_new) = tx.known.scan_cursors.resume(place, filter, tx.now);
        let round = unfinished.copied().filter(|round| round.is_of(&cursor)).unwrap_or_else(|| cursor.full_round());
        let is_moved = cursor.position != DuePosition::FRONT;
        Self { cursor, round, is_new, is_moved, unprocessed: 0, after_page: AfterPage::Unknown, is_over: false }
    }

    fn advance(&mut self, run: DuePosition) {
        self.unprocessed -= 1;
        self.cursor.position = run;
    }

    /// Moves the cursor past the window once every run of the page is processed.
    fn end_page(&mut self, now: Timestamp) {
        if self.unprocessed > 0 || self.is_over {
            return;
        }
        match self.after_page {
            AfterPage::Unknown => return,
            AfterPage::More(end) => (self.cursor.position, self.is_moved) = (end, true),
            AfterPage::Nothing => {
                self.cursor.wrap(now);
                self.is_moved = !self.is_new;
            }
        }
        self.is_over = true;
    }

    /// The call has more to examine here, in a later command.
    fn is_interrupted(&self) -> bool {
        self.is_over && !self.cursor.has_finished(self.round)
    }
}

/// The first run of each tenant, then the second of each, and so on.
fn interleave(turns: Vec<TenantTurn>) -> Vec<(i64, GrantedLease)> {
    let mut turns: Vec<_> = turns.into_iter().map(|turn| (turn.tenant, turn.granted.into_iter())).collect();
    let mut interleaved = Vec::new();
    loop {
        let before = interleaved.len();
        for (tenant, granted) in &mut turns {
            interleaved.extend(granted.next().map(|granted| (*tenant, granted)));
        }
        if interleaved.len() == before {
            return interleaved;
        }
    }
}
