//! `POST /v1/leases`: leases due runs round robin over tenants, in due order within a tenant, starting after the tenant
//! served last. A large backlog of one tenant therefore delays no other. Each command does a bounded amount of work, and a
//! call continues in later commands until it is complete.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};

use redrive_core::text::Label;
use redrive_core::time::Timestamp;

use crate::breakers::{GateDecision, gate};
use crate::error::Result;
use crate::lease::grant::{GrantedLease, grant, leases_of_request};
use crate::lease::limits;
use crate::lease::scan::{AgentFilter, DuePosition, DueQuery, DueRun, DueScan, ScanCursor, ScanRound};
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
/// Runs that the first pages of a tenant's queues hold together. A call that names a thousand queues reads one run of each
/// instead of a thousand; a queue whose page is used up is read on.
const FIRST_PAGES_RUNS: usize = 1_024;
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
    let piece = tx.pace.runs_max(wanted);
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
    /// Runs that were read and not processed.
    pages: HashMap<QueueTenant, VecDeque<DueRun>>,
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
            pages: HashMap::new(),
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
        let places: usize = tenants.iter().map(|tenant| self.sources.queues_of(*tenant).len()).sum();
        self.skippable = (SKIPPED_MAX / places.max(1)).max(SKIPPED_MIN);
        let mut turns: Vec<TenantTurn> =
            tenants.iter().map(|tenant| TenantTurn { tenant: *tenant, granted: Vec::new() }).collect();
        let mut active: Vec<&mut TenantTurn> = turns.iter_mut().collect();
        while !active.is_empty() && self.runs_left > 0 {
            let (each, remainder) = (self.runs_left / active.len(), self.runs_left % active.len());
            self.read_first_pages(tx, active.iter().map(|turn| turn.tenant), each + usize::from(remainder > 0))?;
            let mut still_active = Vec::new();
            for (nth, turn) in active.into_iter().enumerate() {
                // The remainder goes to the first tenants; the next call begins after them.
                let share = each + usize::from(nth < remainder);
                if share == 0 {
                    still_active.push(turn);
                    continue;
                }
                let granted = self.grant_share(tx, turn.tenant, share.min(self.runs_left))?;
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

    /// Reads the first page of each queue of these tenants in one call to the store.
    fn read_first_pages(&mut self, tx: &mut Tx<'_>, tenants: impl Iterator<Item = i64>, share: usize) -> Result<()> {
        let (mut places, mut most) = (Vec::new(), share);
        for tenant in tenants {
            let queues = self.sources.queues_of(tenant);
            most = most.min((FIRST_PAGES_RUNS / queues.len().max(1)).max(1));
            places.extend(queues.iter().map(|queue| (*queue, tenant)));
        }
        self.pages.clear();
        self.read_pages(tx, &places, most)
    }

    /// Leases up to `share` due runs of a tenant in due order over its queues, within its limits.
    fn grant_share(&mut self, tx: &mut Tx<'_>, tenant: i64, share: usize) -> Result<Vec<GrantedLease>> {
        let share = share.min(self.allowance(tx, tenant)?);
        let places: Vec<QueueTenant> = self.sources.queues_of(tenant).iter().map(|queue| (*queue, tenant)).collect();
        let mut heads: BinaryHeap<Reverse<(DuePosition, QueueTenant)>> = BinaryHeap::with_capacity(places.len());
        for place in &places {
            heads.extend(self.head(*place));
        }
        let mut granted = Vec::new();
        while granted.len() < share && self.runs_left > 0 && !self.exhausted.contains(&tenant) {
            let Some(Reverse((_, place))) = heads.pop() else { break };
            let Some(due) = self.pages.get_mut(&place).and_then(VecDeque::pop_front) else { continue };
            granted.extend(self.lease_or_skip(tx, due)?);
            self.read_on(tx, place, share - granted.len())?;
            heads.extend(self.head(place));
        }
        for place in places {
            self.scan(tx, place).end_page(tx.now);
        }
        if let Some(left) = self.allowances.get_mut(&tenant) {
            *left -= granted.len();
        }
        Ok(granted)
    }

    /// The first unprocessed run of a queue and a tenant.
    fn head(&self, place: QueueTenant) -> Option<Reverse<(DuePosition, QueueTenant)>> {
        let first = self.pages.get(&place)?.front()?;
        Some(Reverse((DuePosition::of(&first.row)?, place)))
    }

    /// Leases a due run, unless a breaker holds it, its order key is busy, or the answer is full.
    fn lease_or_skip(&mut self, tx: &mut Tx<'_>, due: DueRun) -> Result<Option<GrantedLease>> {
        if self.leased.contains(&due.row.id) {
            self.advance(&due.row);
            return Ok(None);
        }
        let probes = match gate::gate(tx, &due.row)? {
            GateDecision::Open(probes) => probes,
            GateDecision::Held(by) => {
                self.advance(&due.row);
                self.hold(tx, due.row, by)?;
                return Ok(None);
            }
        };
        let bytes = due.bytes.saturating_add(due.row.step_bytes);
        if self.granted_any && bytes > self.bytes_left {
            // The cursor stays before this run, so that it comes first in the next call.
            self.runs_left = 0;
            return Ok(None);
        }
        self.advance(&due.row);
        if let Some(key) = &due.order_key
            && !self.order_keys.insert((due.row.tenant, key.clone()))
        {
            return Ok(None);
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.granted_any = true;
        self.runs_left -= 1;
        self.leased.insert(due.row.id);
        grant(tx, self.call, self.request.as_ref(), due, probes).map(Some)
    }

    fn scan(&mut self, tx: &mut Tx<'_>, place: QueueTenant) -> &mut PlaceScan {
        let (filter, unfinished) = (self.filter, self.unfinished);
        self.scans.entry(place).or_insert_with(|| PlaceScan::begin(tx, filter, place, unfinished.get(&place)))
    }

    /// Reads up to `most` due runs of each place whose scan is not over.
    fn read_pages(&mut self, tx: &mut Tx<'_>, places: &[QueueTenant], most: usize) -> Result<()> {
        let mut scans: Vec<DueScan> = Vec::with_capacity(places.len());
        for place in places {
            let scan = self.scan(tx, *place);
            if !scan.is_over {
                scans.push(scan.cursor.scan(*place));
            }
        }
        if scans.is_empty() {
            return Ok(());
        }
        let query =
            DueQuery { scans: &scans, agents: self.call.agents.as_deref(), most, window: most + self.skippable };
        let pages = set_aside::readable(tx, |rows| rows.due_runs(query))?;
        for (place, page) in scans.iter().map(DueScan::place).zip(pages) {
            let after_page = match page.end {
                _ if page.runs.len() >= most => AfterPage::Unknown,
                Some(end) => AfterPage::More(end),
                None => AfterPage::Nothing,
            };
            self.scan(tx, place).begin_page(most, page.runs.len(), after_page);
            self.pages.insert(place, page.runs.into());
        }
        Ok(())
    }

    /// Reads the next page of a place once its page is used up, twice as large as the one before and up to `most` runs.
    fn read_on(&mut self, tx: &mut Tx<'_>, place: QueueTenant, most: usize) -> Result<()> {
        if most == 0 || self.pages.get(&place).is_some_and(|page| !page.is_empty()) {
            return Ok(());
        }
        let now = tx.now;
        let scan = self.scan(tx, place);
        scan.end_page(now);
        let most = scan.page_size.saturating_mul(2).min(most);
        self.read_pages(tx, &[place], most)
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
    /// Runs that the last page was to hold.
    page_size: usize,
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
        Self {
            cursor,
            round,
            is_new,
            is_moved,
            page_size: 0,
            unprocessed: 0,
            after_page: AfterPage::Unknown,
            is_over: false,
        }
    }

    fn begin_page(&mut self, size: usize, runs: usize, after_page: AfterPage) {
        (self.page_size, self.unprocessed, self.after_page) = (size, runs, after_page);
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
