//! Promise T6: every mutation of a chain is found.

use proptest::prelude::*;

use super::*;

fn record(n: u64) -> AuditRecord {
    AuditRecord {
        at: Timestamp::from_millis(1_800_000_000_000 + i64::try_from(n / 3).unwrap_or(0)),
        actor: format!("operator:key-{}", n % 4),
        role: (!n.is_multiple_of(5)).then(|| "operator".to_owned()),
        action: ["run.replay", "run.resolve", "key.revoke"][usize::try_from(n % 3).unwrap_or(0)].to_owned(),
        tenant: (!n.is_multiple_of(7)).then(|| format!("tenant-{}", n % 2)),
        subject: format!("run:task-{n}"),
        before: Some(r#"{"state":"dead"}"#.to_owned()),
        after: Some(r#"{"state":"scheduled"}"#.to_owned()),
        reason: n.is_multiple_of(2).then(|| r#""because""#.to_owned()),
        operation: n.is_multiple_of(4).then(|| "op-1".to_owned()),
        from: Some("192.0.2.7".to_owned()),
        request_id: Some(format!("request-{n}")),
    }
}

/// A database: its entries and its marks.
#[derive(Debug, Clone, PartialEq)]
struct Log {
    checkpoint: ChainPoint,
    entries: Vec<ChainedEntry>,
    head: Option<ChainPoint>,
}

impl Log {
    fn of(count: u64) -> Self {
        let mut log = Self { checkpoint: ChainPoint::default(), entries: Vec::new(), head: None };
        (0..count).for_each(|n| log.append(record(n)));
        log
    }

    fn append(&mut self, record: AuditRecord) {
        let last = self.entries.last().map_or(self.checkpoint, ChainedEntry::point);
        let entry = record.chained(&last);
        self.head = Some(entry.point());
        self.entries.push(entry);
    }

    /// As the service removes a prefix.
    fn trim(&mut self, count: usize) {
        let Some(last) = count.checked_sub(1).and_then(|at| self.entries.get(at)).map(ChainedEntry::point) else {
            return;
        };
        let proof = AuditRecord { action: TRIM.to_owned(), after: Some(last.trim_proof()), ..record(9) };
        self.append(proof);
        self.entries.drain(..count);
        self.checkpoint = last;
    }

    /// What an attacker can do who can write to the database: a chain that is right in itself.
    fn chain_again(&mut self) {
        let records: Vec<AuditRecord> = self.entries.drain(..).map(|entry| entry.record).collect();
        self.head = None;
        records.into_iter().for_each(|record| self.append(record));
    }

    fn verify(&self, outside: &[ChainPoint]) -> Result<Verified, Tampered> {
        let mut verifier = Verifier::new(self.checkpoint, outside.iter().copied())?;
        for entry in &self.entries {
            verifier.take(entry)?;
        }
        verifier.finish(self.head)
    }
}

fn edit(record: &mut AuditRecord, field: u8, to: &str) {
    let text = to.to_owned();
    match field % 12 {
        0 => record.at = Timestamp::from_millis(record.at.as_millis() + 1),
        1 => record.actor = text,
        2 => record.role = Some(text),
        3 => record.action = text,
        4 => record.tenant = Some(text),
        5 => record.subject = text,
        6 => record.before = Some(text),
        7 => record.after = Some(text),
        8 => record.reason = Some(text),
        9 => record.operation = Some(text),
        10 => record.from = Some(text),
        _ => record.request_id = Some(text),
    }
}

/// What was done to the database.
#[derive(Debug, Clone)]
enum Mutation {
    EditField {
        at: usize,
        field: u8,
        to: String,
    },
    /// A field that has a value loses it.
    ClearField {
        at: usize,
        field: u8,
    },
    EditHash {
        at: usize,
        byte: usize,
    },
    EditNumber {
        at: usize,
        by: i64,
    },
    Insert {
        at: usize,
    },
    Duplicate {
        at: usize,
    },
    Delete {
        at: usize,
    },
    Swap {
        one: usize,
        other: usize,
    },
    /// The tail goes, and the head stays as it is, is set to the new end, or goes too.
    Truncate {
        kept: usize,
        head: u8,
    },
    EditHead {
        by: i64,
    },
    /// The database loses a prefix, with a checkpoint that nobody recorded.
    CutPrefix {
        count: usize,
    },
}

impl Mutation {
    fn apply(&self, log: &mut Log) {
        let count = log.entries.len();
        match self {
            Self::EditField { at, field, to } => edit(&mut log.entries[at % count].record, *field, to),
            Self::ClearField { at, field } => {
                let record = &mut log.entries[at % count].record;
                match field % 6 {
                    0 => record.role = None,
                    1 => record.tenant = None,
                    2 => record.before = None,
                    3 => record.reason = None,
                    4 => record.operation = None,
                    _ => record.from = None,
                }
            }
            Self::EditHash { at, byte } => log.entries[at % count].hash.0[byte % 32] ^= 1,
            Self::EditNumber { at, by } => log.entries[at % count].seq += by,
            Self::Insert { at } => {
                let at = at % count;
                let before = if at == 0 { log.checkpoint } else { log.entries[at - 1].point() };
                log.entries.insert(at, record(77).chained(&before));
            }
            Self::Duplicate { at } => {
                let copy = log.entries[at % count].clone();
                log.entries.insert(at % count, copy);
            }
            Self::Delete { at } => drop(log.entries.remove(at % count)),
            Self::Swap { one, other } => log.entries.swap(one % count, other % count),
            Self::Truncate { kept, head } => {
                log.entries.truncate(kept % count);
                match head % 3 {
                    0 => {}
                    1 => log.head = log.entries.last().map(ChainedEntry::point),
                    _ => log.head = None,
                }
            }
            Self::EditHead { by } => log.head = log.head.map(|head| ChainPoint { seq: head.seq + by, ..head }),
            Self::CutPrefix { count: cut } => {
                let cut = 1 + cut % (count - 1);
                log.checkpoint = log.entries[cut - 1].point();
                log.entries.drain(..cut);
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = 0..1_000_usize;
    let by = prop_oneof![-3..0_i64, 1..4_i64];
    prop_oneof![
        4 => (at.clone(), any::<u8>(), "[a-z]{0,6}").prop_map(|(at, field, to)| Mutation::EditField { at, field, to }),
        1 => (at.clone(), any::<u8>()).prop_map(|(at, field)| Mutation::ClearField { at, field }),
        1 => (at.clone(), 0..32_usize).prop_map(|(at, byte)| Mutation::EditHash { at, byte }),
        1 => (at.clone(), by.clone()).prop_map(|(at, by)| Mutation::EditNumber { at, by }),
        1 => at.clone().prop_map(|at| Mutation::Insert { at }),
        1 => at.clone().prop_map(|at| Mutation::Duplicate { at }),
        1 => at.clone().prop_map(|at| Mutation::Delete { at }),
        1 => (at.clone(), at.clone()).prop_map(|(one, other)| Mutation::Swap { one, other }),
        2 => (at.clone(), any::<u8>()).prop_map(|(kept, head)| Mutation::Truncate { kept, head }),
        1 => by.prop_map(|by| Mutation::EditHead { by }),
        1 => at.prop_map(|count| Mutation::CutPrefix { count }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_mutation_of_the_log_is_found(
        count in 2..40_u64,
        trimmed in 0..3_usize,
        mutation in mutation(),
        chained_again in any::<bool>(),
    ) {
        let mut log = Log::of(count);
        log.trim(trimmed.min(usize::try_from(count).unwrap() - 2));
        // What the service has written outside: an early position, and the last one.
        let outside = [log.entries[0].point(), log.head.unwrap()];
        let whole = log.clone();
        prop_assert!(log.verify(&outside).is_ok());
        mutation.apply(&mut log);
        if chained_again {
            log.chain_again();
        }
        // A chained entry after the last outside position is an append, as the product makes it.
        let appended = chained_again && log.entries.starts_with(&whole.entries);
        if log != whole && !appended {
            prop_assert!(log.verify(&outside).is_err(), "not found: {mutation:?}, chained again: {chained_again}");
        }
    }
}

#[test]
fn the_outside_head_finds_a_log_computed_again() {
    let mut log = Log::of(10);
    let outside = [log.head.unwrap()];
    edit(&mut log.entries[4].record, 1, "nobody");
    log.chain_again();
    assert!(log.verify(&[]).is_ok(), "without the outside head nothing shows");
    assert_eq!(log.verify(&outside), Err(Tampered { seq: 10, what: Fault::Rewritten }));
    log.entries.truncate(3);
    log.chain_again();
    assert_eq!(log.verify(&outside), Err(Tampered { seq: 10, what: Fault::Truncated }));
}

#[test]
fn an_outside_position_that_was_trimmed_away_is_no_fault() {
    let mut log = Log::of(10);
    let outside = [log.entries[2].point(), log.head.unwrap()];
    log.trim(5);
    let verified = log.verify(&outside).unwrap();
    assert_eq!((verified.entries, verified.head.seq, verified.outside), (6, 11, 1));
}

#[test]
fn time_does_not_go_back_in_the_chain() {
    let mut log = Log::of(3);
    let last = log.head.unwrap().at;
    log.append(AuditRecord { at: Timestamp::from_millis(7), ..record(1) });
    assert_eq!(log.head.unwrap().at, last);
}

#[test]
fn an_exported_line_has_ecs_field_names() {
    let mut entry = record(2).chained(&ChainPoint::default());
    entry.record.reason = Some(r#""it\u0020works""#.to_owned());
    let line: serde_json::Value = serde_json::from_str(&ecs_line(&entry)).unwrap();
    let hash = entry.hash.to_string();
    for (name, value) in [
        ("@timestamp", "2027-01-15T08:00:00.000Z"),
        ("event.action", "key.revoke"),
        ("event.outcome", "success"),
        ("event.hash", &hash),
        ("event.reason", "it works"),
        ("user.name", "operator:key-2"),
        ("source.ip", "192.0.2.7"),
        ("http.request.id", "request-2"),
        ("organization.id", "tenant-0"),
        ("labels.subject", "run:task-2"),
    ] {
        assert_eq!(line[name], value, "{name}");
    }
    assert_eq!((&line["event.category"][0], &line["user.roles"][0]), (&"iam".into(), &"operator".into()));
}
