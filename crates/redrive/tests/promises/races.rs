//! D3: the same report from many clients at once is recorded once, and all hear the same.

use std::sync::Barrier;

use crate::common::failure;
use crate::common::http::{Answer, Http};
use crate::common::inside;
use crate::support::{Server, folder};

const RACES: usize = 200;
const CLIENTS: usize = 64;

#[test]
fn of_64_clients_with_the_same_report_one_is_first_and_all_hear_the_same() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let start = Barrier::new(CLIENTS);
    let answers: Vec<Vec<Answer>> = std::thread::scope(|threads| {
        let race = || {
            let mut http = Http::new(&server.url, &key);
            let mut one = |race| {
                start.wait();
                http.post("/v1/failures", failure(&format!("task-{race}"), "1")).unwrap()
            };
            (0..RACES).map(&mut one).collect()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(race)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for race in 0..RACES {
        let heard: Vec<&Answer> = answers.iter().map(|client| &client[race]).collect();
        assert_eq!(heard.iter().filter(|answer| answer.status == 201).count(), 1, "race {race}");
        assert_eq!(heard.iter().filter(|answer| answer.status == 200).count(), CLIENTS - 1, "race {race}");
        assert!(heard.iter().all(|answer| answer.text == heard[0].text), "race {race}");
    }
    let attempts = inside::number(folder.path(), "SELECT count(*) FROM attempts");
    assert_eq!(attempts, i64::try_from(RACES).unwrap());
    let mut http = Http::new(&server.url, &key);
    let other = failure("task-0", "1").replace("timed out", "timed out again");
    assert_eq!(http.post("/v1/failures", other).unwrap().short(), (409, "attempt_conflict".into()));
    inside::check(folder.path());
}
