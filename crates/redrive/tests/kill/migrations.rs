//! D7: a migration that dies anywhere leaves the old schema or the new one; two that start together migrate once, and of
//! two in one folder one has it; what is newer than the binary is left alone.

use std::collections::BTreeMap;
use std::process::Stdio;

use crate::common::inside;
use crate::support::{Server, database, folder, place, redrive, refusal, serve};

const TOGETHER_ROUNDS: usize = 10;
const STATEMENTS_MAX: usize = 500;

#[test]
fn a_migration_that_dies_after_any_statement_leaves_the_old_schema_or_the_new_one() {
    let newest = {
        let folder = folder();
        Server::start(folder.path()).kill();
        inside::version(folder.path())
    };
    // What stands in a store of each version: it must be the same however the store came to it.
    let mut seen = BTreeMap::from([(0, 0)]);
    for (deaths, nth) in (1..STATEMENTS_MAX).enumerate() {
        let folder = folder();
        let begun = Server::of(serve(folder.path()).env("REDRIVE_ABORT_AT", format!("mid_migration:{nth}")));
        if begun.is_ok() {
            println!("{deaths} deaths");
            assert!(deaths > 10, "the point is passed after each statement");
            assert!(seen.len() > 2, "the versions in between are left as well: {seen:?}");
            return;
        }
        let version = inside::version(folder.path());
        let objects = inside::objects(folder.path());
        assert_eq!(objects, *seen.entry(version).or_insert(objects), "after {nth}: version {version}");
        let server = Server::start(folder.path());
        inside::check(folder.path());
        assert_eq!(inside::version(folder.path()), newest);
        server.kill();
    }
    panic!("no migration has so many statements");
}

#[test]
fn two_servers_that_start_together_migrate_once_and_share_no_folder() {
    for _ in 0..TOGETHER_ROUNDS {
        let folder = folder();
        let both: Vec<_> = std::thread::scope(|threads| {
            let start = || threads.spawn(|| Server::of(&mut serve(folder.path())));
            let both = [start(), start()];
            both.map(|one| one.join().unwrap()).into_iter().collect()
        });
        // A database is made to be shared.
        let begun = if database(folder.path()).is_some() { 2 } else { 1 };
        assert_eq!(both.iter().filter(|one| one.is_ok()).count(), begun);
        inside::check(folder.path());
    }
}

#[test]
fn a_store_newer_than_the_binary_is_refused_in_one_line_and_left_alone() {
    let folder = folder();
    Server::start(folder.path()).kill();
    inside::set_version(folder.path(), 99);
    let before = inside::objects(folder.path());
    let refused = serve(folder.path()).args(["--log", "off"]).stderr(Stdio::piped()).output().unwrap();
    let (code, complaint) = refusal(&refused);
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert!(complaint.contains("newer"), "{complaint}");
    let mut visit = redrive();
    let visit = visit.current_dir(folder.path()).args(["keys", "list"]).args(place(folder.path())).output().unwrap();
    assert!(refusal(&visit).1.contains("newer"));
    assert_eq!((inside::version(folder.path()), inside::objects(folder.path())), (99, before));
}
